// Checks dashboards against Grafana's own types: Grafana ignores an option that it does not know.
//
//   node types.cjs FOLDER DASHBOARD.json...
//
// FOLDER holds the npm packages @grafana/schema and typescript (.ci/tools.sh grafana).
'use strict';
const { createRequire } = require('node:module');
const fs = require('node:fs');
const path = require('node:path');

const [folder, ...dashboards] = process.argv.slice(2);
const typescript = createRequire(path.resolve(folder, 'package.json'))('typescript');
const panelTypes = { stat: 'StatPanelCfg', timeseries: 'TimeSeriesPanelCfg', table: 'TablePanelCfg', 'state-timeline': 'StateTimelinePanelCfg' };

const source = [
  "import type * as schema from '@grafana/schema';",
  ...Object.entries(panelTypes).map(([type, file]) => {
    const plugin = type.replace('-', '');
    return `import type * as ${plugin} from './node_modules/@grafana/schema/dist/esm/raw/composable/${plugin}/panelcfg/x/${file}_types.gen';`;
  }),
  // JSON has texts and numbers where the types have enums, and leaves out what has a default.
  'type Json<T> = T extends string ? (string extends T ? T : `${T}`) : T extends number ? number',
  '  : T extends (infer U)[] ? Json<U>[] : T extends object ? { [K in keyof T]?: Json<T[K]> } : T;',
];
const check = (type, value) => source.push(`((_: Json<${type}>) => {})(${JSON.stringify(value)});`);
let panels = 0;
for (const file of dashboards) {
  const { panels: all, annotations, ...rest } = JSON.parse(fs.readFileSync(file, 'utf8'));
  check('schema.Dashboard', rest);
  for (const annotation of annotations.list) {
    // The rest belongs to the data source: annotations.cjs reads it.
    const { titleFormat, textFormat, useValueForTime, target: { expr, interval, ...target }, ...common } = annotation;
    check('schema.AnnotationQuery', { ...common, target });
  }
  for (const panel of all.filter((one) => one.type !== 'row')) {
    const plugin = panel.type.replace('-', '');
    if (!panelTypes[panel.type]) throw new Error(`${file}: unknown type of panel ${panel.type}`);
    check('schema.Panel', panel);
    check(`${plugin}.Options`, panel.options);
    if (panel.fieldConfig.defaults.custom) check(`${plugin}.FieldConfig`, panel.fieldConfig.defaults.custom);
    panels++;
  }
}

const name = path.resolve(folder, 'dashboards.ts');
const options = { noEmit: true, strict: true, skipLibCheck: true, types: [], target: 'es2022', module: 'esnext', moduleResolution: 'bundler' };
const settings = typescript.convertCompilerOptionsFromJson(options, folder).options;
const host = typescript.createCompilerHost(settings);
const read = host.getSourceFile;
host.getSourceFile = (file, ...more) =>
  file === name ? typescript.createSourceFile(name, source.join('\n'), settings.target) : read.call(host, file, ...more);
const errors = typescript.getPreEmitDiagnostics(typescript.createProgram([name], settings, host));
for (const error of errors) {
  const line = error.file ? source[error.file.getLineAndCharacterOfPosition(error.start).line] : '';
  console.error(typescript.flattenDiagnosticMessageText(error.messageText, '\n'), '\n ', line.slice(0, 300));
}
console.log(`${panels} panels checked`);
process.exit(errors.length ? 1 : 0);
