// Asks Grafana's own code what it makes of our dashboards.
//
//   node grafana.cjs FOLDER annotations < cases.json    the events that an annotation becomes
//   node grafana.cjs FOLDER stat < cases.json           the text and color of a panel's value
//
// FOLDER holds the npm packages @grafana/prometheus and @grafana/data (.ci/tools.sh grafana).
'use strict';
const { createRequire, Module } = require('node:module');
const path = require('node:path');

const folder = path.resolve(process.argv[2]);
const required = createRequire(path.join(folder, 'package.json'));
globalThis.navigator = { language: 'en-US', languages: ['en-US'] };
console.info = () => {}; // a library advertises itself there
// Two parts need a browser to load and take no part here: the editor of annotations, and the local store.
const load = Module._load;
Module._load = (name, ...rest) => (/\/(AnnotationQueryEditor|store)\.cjs$/.test(name) ? {} : load(name, ...rest));

const { createTheme, dateTime, FieldType, getDisplayProcessor, getFieldDisplayValues, rangeUtil } = required('@grafana/data');
const { PrometheusAnnotationSupport } = required(path.join(folder, 'node_modules/@grafana/prometheus/dist/cjs/annotations.cjs'));
const grafana = PrometheusAnnotationSupport({});
const theme = createTheme();

// goDuration writes seconds as Go does, which is what the server tells the browser of its step.
function goDuration(seconds) {
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return (hours ? hours + 'h' : '') + (hours || minutes ? minutes + 'm' : '') + (seconds % 60) + 's';
}

// Theirs: reading the annotation of a dashboard, the step for a range and a width, and the events.
// Ours: the few rules of the server in between, which npm does not carry. They are those of
// models/query.go and intervalv2.go in github.com/grafana/grafana/pkg/promlib.
async function annotations({ prometheus, scrape, annotation, from, to, width }) {
  const prepared = grafana.prepareAnnotation(structuredClone(annotation));
  const range = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
  const smallest = prepared.target.interval || scrape;
  const step = rangeUtil.calculateInterval(range, width, smallest).intervalMs / 1000;
  const asked = rangeUtil.calculateInterval(range, width, scrape).intervalMs / 1000;
  const rate = Math.max(asked + rangeUtil.intervalToSeconds(smallest), 4 * rangeUtil.intervalToSeconds(smallest));

  const expr = prepared.target.expr
    .replaceAll('$__interval_ms', String(step * 1000))
    .replaceAll('$__interval', step + 's')
    .replaceAll('$__rate_interval', goDuration(rate));
  const align = (time) => Math.floor(time / step) * step;
  const answer = await (await fetch(prometheus + '/api/v1/query_range?' + new URLSearchParams({
    query: expr, start: align(from), end: align(to), step,
  }))).json();
  if (answer.status !== 'success') throw new Error(expr + ': ' + answer.error);

  const frames = answer.data.result.map(({ metric, values }) => ({
    meta: { executedQueryString: 'Expr: ' + expr + '\nStep: ' + goDuration(step) },
    fields: [
      { name: 'Time', values: values.map(([time]) => time * 1000) },
      { name: 'Value', labels: metric, values: values.map(([, value]) => Number(value)) },
    ],
  }));
  if (frames.length === 0) return { step, events: [] };
  return new Promise((resolve, reject) => grafana.processEvents(prepared, frames).subscribe({
    next: (found) => resolve({ step, events: found.map(({ time, timeEnd, title, text }) => ({ time: time / 1000, timeEnd: timeEnd / 1000, title, text })) }),
    error: reject,
  }));
}

// Without a value Prometheus answers with no series, and Grafana has no frame.
function stat({ panel, value }) {
  const config = panel.fieldConfig.defaults;
  const field = { name: 'Value', type: FieldType.number, values: [value], config, state: {} };
  field.display = getDisplayProcessor({ field, theme });
  const data = value === null ? [] : [{ fields: [{ name: 'Time', type: FieldType.time, values: [1], config: {} }, field], length: 1 }];
  const [{ display }] = getFieldDisplayValues({ fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text, theme, data });
  return { text: display.text, color: display.color };
}

(async () => {
  let text = '';
  for await (const part of process.stdin) text += part;
  const results = [];
  for (const one of JSON.parse(text)) results.push(await { annotations, stat }[process.argv[3]](one));
  process.stdout.write(JSON.stringify(results));
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
