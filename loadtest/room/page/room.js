'use strict';
// The page of the control room. It asks for one picture a second and draws it. What comes from the
// room may hold bytes of hostile participants, so all of it becomes text nodes, never markup.
(() => {
	const historySeconds = 600;
	const pollMilliseconds = 1000;
	const lostAfterMilliseconds = 3000;
	const ringBanks = 12; // more banks are drawn as one

	// Why a payment was rejected, or became a dead letter: docs/outcomes.md.
	const meanings = {
		AB03: 'the payee’s bank did not answer in time', AM01: 'the amount is zero',
		AM04: 'the payer’s bank is short of reserve', AC02: 'no such account of the payer',
		AC03: 'no such account of the payee', AC06: 'the payee’s account is blocked',
		AC07: 'the payee’s account is closed', AM13: 'above the cap on a single payment',
		DS27: 'a participant is suspended', LQ01: 'the payer is short of money',
		LQ02: 'too many wait for the payee’s bank', LQ03: 'the payee’s bank gave no valid reason',
		LQ10: 'too old under overload', LQ13: 'its deadline had passed before',
		LQ12: 'above what is left of the cap on outflow',
		RC09: 'the payer’s bank is not known', RC10: 'the payee’s bank is not known',
		AM09: 'more than what is left of the payment', DT05: 'the payment is too old for a return',
		LQ04: 'no such settled payment', LQ05: 'another bank received the payment',
		LQ06: 'no room for another return', LQ11: 'too many returns at once',
		FF01: 'the message cannot be decoded', FF08: 'the EndToEndId is malformed',
		DT02: 'accepted in the future', DUPL: 'the same id with other content',
		LQ07: 'its place in the ledger is taken', LQ08: 'a batch that cannot be read',
		LQ09: 'too many messages with the same id',
	};

	const $ = (id) => document.getElementById(id);

	// h makes an element. Strings become text.
	function h(tag, attributes, ...children) {
		const element = document.createElement(tag);
		set(element, attributes);
		element.append(...children.filter((child) => child !== null && child !== undefined && child !== ''));
		return element;
	}
	function set(element, attributes) {
		for (const [name, value] of Object.entries(attributes ?? {})) {
			if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
			else if (value === false || value === null || value === undefined) element.removeAttribute(name);
			else element.setAttribute(name, value === true ? '' : value);
		}
	}
	function svg(tag, attributes, ...children) {
		const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
		set(element, attributes);
		element.append(...children);
		return element;
	}
	function text(element, value) {
		if (element.textContent !== value) element.textContent = value;
	}
	// Redrawing a list must not take the focus from a button in it, so items keep their elements.
	function keyed(parent, items, keyOf, make, update) {
		const old = parent.rows ?? new Map();
		const rows = new Map();
		let before = parent.firstElementChild;
		for (const item of items) {
			const key = keyOf(item);
			let row = rows.has(key) ? null : old.get(key);
			if (!row) row = make(item);
			rows.set(key, row);
			if (row === before) before = before.nextElementSibling;
			else parent.insertBefore(row, before);
			update?.(row, item);
		}
		for (const child of [...parent.children]) if (![...rows.values()].includes(child)) child.remove();
		parent.rows = rows;
	}

	// ---- numbers and times, as people write them

	const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
	const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
	const money = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
	const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));
	const reais = (centavos) => `R$ ${money.format(centavos / 100)}`;
	const inReais = (text) => text.replace(/(?:(-?\d+) is not )?(-?\d+) centavos/g, (_, is, must) => (is ? `${reais(is)} is not ` : '') + reais(must));
	const rate = (value) => value > 0 && value < 10 ? String(Math.round(value * 10) / 10) : whole.format(value);
	const counted = (n, one, many) => `${whole.format(n)} ${n === 1 ? one : many}`;
	function duration(seconds) {
		if (!known(seconds)) return '–';
		if (seconds < 1) return `${seconds < 0.01 ? Math.round(seconds * 1e4) / 10 : Math.round(seconds * 1e3)}\u00a0ms`;
		if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
		if (seconds < 120) return `${Math.round(seconds)}\u00a0s`;
		return `${Math.floor(seconds / 60)}\u00a0min\u00a0${Math.round(seconds % 60)}\u00a0s`;
	}
	function bytes(n) {
		if (!n) return '–';
		return n < 1 << 20 ? `${Math.round(n / 1024)} KiB` : n < 1 << 30 ? `${Math.round(n / (1 << 20))} MiB` : `${(n / (1 << 30)).toFixed(1)} GiB`;
	}
	const isTime = (at) => at && !at.startsWith('0001-');
	const clock = (at) => isTime(at) ? new Date(at).toISOString().slice(11, 19) : '–';
	const clockMilliseconds = (at) => isTime(at) ? new Date(at).toISOString().slice(11, 23) : '–';
	// Control and direction characters could hide or reorder what a hostile message says.
	const visible = (value) => String(value).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
		(c) => c < ' ' ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : `\\u{${c.charCodeAt(0).toString(16)}}`);

	// ---- the room

	const frozen = $('frozen') ? JSON.parse($('frozen').textContent) : null;
	let token = '';
	let picture = null;
	let samples = [];
	let history = { at: -Infinity, story: -1 }; // when the room last sent its history
	let answered = 0;   // performance.now() of the last answer
	let acted = false;  // an act waits for its answer
	const hue = new Map(); // ISPB → its colour's hue
	const calm = matchMedia('(prefers-reduced-motion: reduce)');

	function takeToken() {
		const found = new URLSearchParams(location.hash.slice(1)).get('token');
		if (found) {
			sessionStorage.setItem('token', found);
			window.history.replaceState(null, '', location.pathname); // a shared screen does not show it
		}
		token = sessionStorage.getItem('token') ?? '';
	}

	async function ask(path, body) {
		const response = await fetch(path, {
			method: body ? 'POST' : 'GET',
			headers: { Authorization: `Bearer ${token}`, ...(body ? { 'Content-Type': 'application/json' } : {}) },
			body: body ? JSON.stringify(body) : undefined,
			cache: 'no-store', credentials: 'omit', redirect: 'error',
			signal: AbortSignal.timeout(body ? 30000 : 5000),
		});
		if (response.ok) return response;
		const said = await response.text();
		let problem = said;
		try {
			const { title, detail } = JSON.parse(said);
			problem = [title, detail].filter(Boolean).join(': ');
		} catch { /* plain text */ }
		throw Object.assign(new Error(visible(problem).slice(0, 500) || `the room answered ${response.status}`), { status: response.status });
	}

	async function look() {
		const started = performance.now();
		// The room's history repairs what this page missed while its tab slept.
		const all = started - history.at > 15000;
		try {
			const next = await (await ask(`api/picture${all ? '' : '?history=no'}`)).json();
			const story = next.story?.at(-1)?.number ?? 0;
			if (all) history = { at: started, story };
			else if (story !== history.story || started - answered > lostAfterMilliseconds) history.at = -Infinity;
			answered = performance.now();
			locked(false);
			show(next);
		} catch (error) {
			if (error.status === 401 || error.status === 403) {
				locked(true, error.message);
				return;
			}
			if (error.status) say(error.message, true);
		}
		setTimeout(look, Math.max(50, pollMilliseconds - (performance.now() - started)));
	}

	function locked(yes, why) {
		$('key').hidden = !yes;
		if (!yes) return;
		$('main').hidden = $('save').hidden = true;
		if (token) text($('key-why'), `The room refuses the token: ${why}. Open the address that the room printed, or paste its token here.`);
		$('key-token').focus();
	}

	let toastTimer = 0;
	function say(message, wrong) {
		const toast = $('toast');
		text(toast, message);
		toast.classList.toggle('wrong', Boolean(wrong));
		toast.hidden = false;
		clearTimeout(toastTimer);
		toastTimer = setTimeout(() => { toast.hidden = true; }, wrong ? 12000 : 4000);
	}

	async function act(body, button) {
		if (acted) return;
		acted = true;
		if (button) button.setAttribute('aria-busy', 'true');
		try {
			await ask('api/acts', body);
			history.at = -Infinity;
		} catch (error) {
			say(error.status ? error.message : `The room did not answer: ${error.message}`, true);
		}
		acted = false;
		button?.removeAttribute('aria-busy');
	}

	// ---- the picture

	function show(next) {
		for (const list of ['banks', 'flows', 'processes', 'story']) next[list] ??= [];
		next.light.findings ??= [];
		picture = next;
		if (next.history) {
			samples = next.history;
		} else if (!samples.length || samples.at(-1).at < next.at) {
			samples.push({ at: next.at, ...next.figures });
			samples = samples.slice(-historySeconds);
		}
		next.banks.map((bank) => bank.ispb).sort().forEach((ispb, i, all) => hue.set(ispb, (205 + 360 * i / all.length) % 360));
		$('main').hidden = false;
		$('save').hidden = Boolean(frozen);
		document.body.classList.toggle('looks', Boolean(next.readOnly || frozen));
		showHero();
		showLight();
		showMoney();
		showFigures();
		showMachine();
		showLoad();
		showBanks();
		showStory();
		showRecent();
	}

	const canAct = () => !picture.readOnly && !frozen;

	let announced = { at: -Infinity, colour: '' };
	function showHero() {
		text($('headline'), picture.headline);
		const { colour } = picture.light;
		const now = picture.state === 'flowing' ? `${rate(picture.figures.settledPerSecond)}/s` : picture.state;
		document.title = `${{ green: '✓', amber: '~', red: '✗' }[colour] ?? '?'} ${now} · Liquida`;
		document.body.dataset.state = picture.state;
		// A screen reader hears the headline now and then, and a change of the light at once.
		if (colour !== announced.colour || performance.now() - announced.at > 60000) {
			text($('live'), `${picture.headline}. The light is ${colour}. ${picture.light.text}`);
			announced = { at: performance.now(), colour };
		}
		const offer = canAct() ? offered() : null;
		keyed($('next'), offer ? [offer] : [], (o) => o.key, (o) => h('span', {},
			o.label ? h('button', { type: 'button', id: 'offer', class: o.danger ? 'strong danger' : 'strong', onclick: (event) => o.act.act ? act(o.act, event.currentTarget) : o.act() }, o.label) : null,
			' ', h('span', { class: 'quiet' })), (row, o) => text(row.lastElementChild, o.aside));
	}

	// What to do next, as the state of things asks for.
	function offered() {
		const found = picture.light.findings.find((finding) => finding.payment);
		if (picture.light.colour === 'red') {
			const aside = 'Stop nothing yet: deploy/runbook.md says what to do (ConservationBroken).';
			return found ? { key: 'red', label: 'See the first payment', act: () => showLife(found.payment, true), danger: true, aside } : { key: 'wrong', aside };
		}
		const engines = picture.processes.filter((process) => process.name.includes('engine'));
		const works = (process) => process.state === 'ready' && !process.cut?.length;
		const hurt = engines.find((process) => !works(process));
		if (hurt) {
			const how = hurt.cut?.length ? `cut from the ${hurt.cut.join(' and the ')}` : hurt.state;
			return { key: 'hurt', aside: `${hurt.name} is ${how}. ${engines.some(works) ? 'Watch the money find another way.' : 'What was accepted waits in Kafka, and settles when it is back.'}` };
		}
		const broken = picture.processes.find((process) => ['dead', 'frozen'].includes(process.state) && process.acts?.length);
		if (broken) return { key: 'hurt', aside: `${broken.name} is ${broken.state}.` };
		if (picture.state === 'idle' && !picture.load.running) return { key: 'start', label: 'Start 200 a second', act: { act: 'load', ratePerSecond: 200 }, aside: 'Payments of every kind, among all banks.' };
		const engine = engines.find((process) => process.acts?.includes('kill'));
		return engine ? { key: `kill ${engine.name}`, label: 'Kill the engine', act: { act: 'kill', target: engine.name }, danger: true, aside: `kill -9 ${engine.name}, in the middle of everything.` } : null;
	}

	function showLight() {
		const { light } = picture;
		const section = $('light');
		section.dataset.colour = light.colour;
		text($('light-word'), { green: 'Green: the money is right', amber: 'Amber: not known now', red: 'Red: the money is wrong' }[light.colour] ?? 'No light');
		text($('light-text'), light.findings.length ? counted(light.findings.length, 'finding, which stands below', 'findings, the oldest first') : light.text);
		const facts = [];
		if (light.colour !== 'green') {
			facts.push(`${whole.format(light.checked)} payments checked`);
			if (isTime(light.since)) facts.push(`since ${clock(light.since)}`);
		}
		if (isTime(light.checkedTo) && light.colour !== 'amber') facts.push(`checked to ${clock(light.checkedTo)}`); // amber says so itself
		text($('light-facts'), facts.join(', '));
		keyed($('findings'), light.findings, (f) => f.at + f.payment + f.text, (f) => h('li', {},
			h('time', { datetime: f.at }, clock(f.at)), ' ', f.payment ? paymentButton(f.payment) : null, ' ', h('span', {}, visible(inReais(f.text)))));
	}

	function paymentButton(id) {
		if (frozen) return h('code', { class: 'id' }, visible(id));
		return h('button', { type: 'button', class: 'id', title: 'show its life', onclick: () => showLife(id, true) }, visible(id));
	}

	// ---- money between banks

	const rejections = (flow) => Object.values(flow.rejected ?? {}).reduce((a, b) => a + b, 0);
	const edges = new Map(); // "payer payee" → what is drawn
	let places = new Map();  // ISPB → {x, y}
	let others = new Set();  // banks that are drawn as one
	let strangers = false;   // a flow named a bank that is none
	const unknown = 'others';
	const lately = new Map(); // reason → how often, and when it was last given
	const fallen = [];       // rejected payments that fall out, a few for many

	function showMoney() {
		const volume = new Map(picture.banks.map((bank) => [bank.ispb, { ispb: bank.ispb, bank, paid: 0, received: 0 }]));
		// A refused order may name any bank, so what is no bank of the picture is one node.
		const volumeOf = (ispb) => volume.get(ispb) ?? volume.get(unknown) ?? volume.set(unknown, { ispb: unknown, bank: {}, paid: 0, received: 0 }).get(unknown);
		if (strangers) volumeOf(unknown); // the ring must not jump, so this node stays
		let centavos = 0, settled = 0;
		const reasons = new Map();
		for (const flow of picture.flows) {
			volumeOf(flow.payer).paid += flow.centavos;
			volumeOf(flow.payee).received += flow.centavos;
			centavos += flow.centavos;
			settled += flow.settled;
			for (const [reason, n] of Object.entries(flow.rejected ?? {})) reasons.set(reason, (reasons.get(reason) ?? 0) + n);
		}
		strangers ||= volume.has(unknown);
		// The order of the ring is that of the numbers.
		const banks = [...volume.values()].sort((a, b) => a.ispb < b.ispb ? -1 : 1);
		others = new Set();
		if (banks.length > ringBanks) {
			// The first banks by number stay, whatever their volume is in this second.
			const rest = banks.splice(ringBanks - 1);
			others = new Set(rest.map((bank) => bank.ispb));
			banks.push({ ispb: `${rest.length} others`, bank: {}, paid: rest.reduce((n, b) => n + b.paid, 0), received: rest.reduce((n, b) => n + b.received, 0) });
		}
		const node = (ispb) => others.has(ispb) ? banks.at(-1).ispb : volume.has(ispb) ? ispb : others.has(unknown) ? banks.at(-1).ispb : unknown;

		for (const edge of edges.values()) edge.target = { settled: 0, rejected: 0, reason: '' };
		for (const flow of picture.flows) {
			const from = node(flow.payer), to = node(flow.payee);
			const key = `${from} ${to}`;
			if (!edges.has(key)) edges.set(key, { from, to, settled: 0, offset: Math.random() * 40, due: Math.random() });
			const edge = edges.get(key);
			edge.target ??= { settled: 0, rejected: 0, reason: '' };
			edge.target.settled += flow.settled;
			edge.target.rejected += rejections(flow);
			edge.target.reason = Object.entries(flow.rejected ?? {}).sort((a, b) => b[1] - a[1])[0]?.[0] ?? edge.target.reason;
		}
		text($('money-total'), settled ? `${reais(centavos)} a second among ${counted(picture.banks.length, 'bank', 'banks')}` : 'no payment settled in the last second');
		set($('flows'), {
			'aria-label': settled ? `${whole.format(settled)} payments of ${reais(centavos)} settled in the last second, ${whole.format([...reasons.values()].reduce((a, b) => a + b, 0))} rejected` : 'no payments in the last second',
			'data-settled': settled,
		});
		keyed($('nodes'), banks, (b) => b.ispb, (b) => h('div', { class: 'node' }, h('b', {}, b.ispb), h('span', {}), h('i', {})), (row, b) => {
			row.style.setProperty('--hue', hue.get(b.ispb) ?? 0);
			row.classList.toggle('grey', !hue.has(b.ispb));
			text(row.children[1], b.paid || b.received ? `↗ ${short.format(b.paid / 100)}  ↘ ${short.format(b.received / 100)}` : '');
			const behaviour = b.bank.behaviour && b.bank.behaviour !== 'normal' ? b.bank.behaviour : '';
			text(row.children[2], behaviour);
			row.classList.toggle('odd', behaviour !== '');
		});
		layoutRing();
		// A reason keeps its place for some seconds, so that it can be read.
		const now = Date.parse(picture.at);
		for (const [reason, n] of reasons) lately.set(reason, { n, at: now });
		for (const [reason, { at }] of lately) if (now - at > 10000) lately.delete(reason);
		const most = [...lately].sort((a, b) => b[1].n - a[1].n).slice(0, 8).sort((a, b) => a[0] < b[0] ? -1 : 1);
		keyed($('reasons'), most, (r) => r[0], (r) => h('li', {}, h('b', {}, visible(r[0])), ' ', h('span', { class: 'n' }), ' ', h('span', { class: 'quiet' }, meanings[r[0]] ?? 'the bank’s own reason')),
			(row, r) => text(row.children[1], `${whole.format(reasons.get(r[0]) ?? 0)}/s`));
		if ($('pairs').closest('details').open) showPairs();
		if (calm.matches || frozen) draw(performance.now());
	}
	function showPairs() {
		const rows = [...picture.flows].sort((a, b) => b.centavos - a.centavos).slice(0, 100);
		$('pairs').tBodies[0].replaceChildren(...rows.map((f) => h('tr', {}, h('td', {}, f.payer), h('td', {}, f.payee), h('td', { class: 'n' }, whole.format(f.settled)), h('td', { class: 'n' }, money.format(f.centavos / 100)), h('td', { class: 'n' }, whole.format(rejections(f))))));
	}

	function layoutRing() {
		const nodes = [...$('nodes').children];
		const width = $('ring').clientWidth, height = $('ring').clientHeight;
		places = new Map();
		const rx = width / 2 - (width < 480 ? 52 : 84), ry = height / 2 - 44;
		const ring = nodes.filter((node) => node.firstElementChild.textContent !== unknown);
		nodes.forEach((node) => {
			const i = ring.indexOf(node), angle = -Math.PI / 2 + 2 * Math.PI * i / ring.length;
			// What is no bank stands apart, because the ring must not jump when it comes.
			const x = i < 0 ? width / 2 - rx : width / 2 + rx * Math.cos(angle), y = i < 0 ? 30 : height / 2 + ry * Math.sin(angle);
			places.set(node.firstElementChild.textContent, { x, y });
			node.style.left = `${x}px`;
			node.style.top = `${y}px`;
		});
		const canvas = $('flows'), scale = Math.min(2, devicePixelRatio || 1);
		if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
			canvas.width = Math.round(width * scale);
			canvas.height = Math.round(height * scale);
			canvas.style.width = `${width}px`;
			canvas.style.height = `${height}px`;
		}
	}

	let lastDraw = 0;
	let inks = null;
	function colours() {
		const style = getComputedStyle(document.body);
		return inks ??= { lightness: style.getPropertyValue('--flow-lightness').trim(), red: style.getPropertyValue('--red').trim() };
	}
	const dark = matchMedia('(prefers-color-scheme: dark)');
	dark.addEventListener('change', () => { inks = null; });

	function draw(now) {
		const canvas = $('flows'), pen = canvas.getContext('2d');
		const scale = Math.min(2, devicePixelRatio || 1);
		const still = calm.matches || frozen;
		const dt = still ? 1 : Math.min(0.1, (now - lastDraw) / 1000);
		lastDraw = now;
		const { lightness, red } = colours();
		const width = canvas.width / scale, height = canvas.height / scale;
		pen.setTransform(scale, 0, 0, scale, 0, 0);
		pen.clearRect(0, 0, width, height);
		pen.lineCap = 'round';
		const crowd = Math.max(1, edges.size / 20); // many lanes: each is thinner
		for (const [key, edge] of edges) {
			const target = edge.target ?? { settled: 0, rejected: 0 };
			edge.settled += (target.settled - edge.settled) * (still ? 1 : Math.min(1, dt * 2.5));
			const a = places.get(edge.from), b = places.get(edge.to);
			if (!a || !b || (edge.settled < 0.02 && !target.rejected)) {
				if (edge.settled < 0.02 && !target.settled && !target.rejected) edges.delete(key);
				continue;
			}
			// The two directions of a pair are two lanes. Both bend towards the middle. What stays in a
			// bank is a loop.
			const mx = (a.x + b.x) / 2, my = (a.y + b.y) / 2;
			let c1, c2;
			if (a === b) {
				const out = Math.hypot(width / 2 - a.x, height / 2 - a.y) || 1;
				const ix = (width / 2 - a.x) / out, iy = (height / 2 - a.y) / out;
				c1 = { x: a.x + ix * 95 - iy * 48, y: a.y + iy * 95 + ix * 48 };
				c2 = { x: a.x + ix * 95 + iy * 48, y: a.y + iy * 95 - ix * 48 };
			} else {
				const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy) || 1;
				const x = mx + (width / 2 - mx) * 0.35 - dy / length * 12, y = my + (height / 2 - my) * 0.35 + dx / length * 12;
				c1 = { x: a.x + (x - a.x) * 2 / 3, y: a.y + (y - a.y) * 2 / 3 };
				c2 = { x: b.x + (x - b.x) * 2 / 3, y: b.y + (y - b.y) * 2 / 3 };
			}
			const half = { x: (a.x + 3 * c1.x + 3 * c2.x + b.x) / 8, y: (a.y + 3 * c1.y + 3 * c2.y + b.y) / 8 };
			const volume = Math.log10(1 + edge.settled); // 50/s and 30,000/s must both be calm
			const thick = (0.8 + volume * 1.6) / Math.sqrt(crowd);
			const colour = (alpha) => `oklch(${lightness} ${hue.has(edge.from) ? 0.13 : 0} ${hue.get(edge.from) ?? 0} / ${alpha})`;
			pen.beginPath();
			pen.moveTo(a.x, a.y);
			pen.bezierCurveTo(c1.x, c1.y, c2.x, c2.y, b.x, b.y);
			pen.setLineDash([]);
			pen.lineWidth = thick;
			pen.strokeStyle = colour(0.2);
			pen.stroke();
			if (edge.settled >= 0.02) {
				edge.offset += dt * (18 + volume * 22);
				pen.setLineDash([0.01, 46 - Math.min(24, volume * 8)]);
				pen.lineDashOffset = still ? 0 : -edge.offset;
				pen.lineWidth = 2 + thick * 0.75;
				pen.strokeStyle = colour(0.95);
				pen.stroke();
			}
			// Few fall for many: at most one each second from a lane.
			edge.due -= dt * Math.min(1, target.rejected / 3 + 0.2) * (still ? 0 : 1);
			if (target.rejected && (edge.due <= 0 || still) && fallen.length < 24) {
				edge.due = 1;
				fallen.push({ x: half.x, y: half.y, age: still ? 0.6 : 0, drift: (Math.random() - 0.5) * 16, reason: edge.target.reason });
			}
		}
		pen.setLineDash([]);
		pen.font = '600 10.5px ui-monospace, monospace';
		pen.textBaseline = 'middle';
		// A code is written where it covers no bank and no other code.
		const covered = [...places.values()].map(({ x, y }) => ({ x: x - 60, y, right: x + 60, high: 32 }));
		for (const drop of [...fallen]) {
			if (!still) drop.age += dt;
			const y = drop.y + 14 * drop.age + 46 * drop.age * drop.age;
			const fade = Math.max(0, Math.min(1, (height - y) / 60, 4 * drop.age));
			pen.globalAlpha = fade;
			pen.fillStyle = red;
			pen.beginPath();
			pen.arc(drop.x + drop.drift * drop.age, y, 3, 0, 2 * Math.PI);
			pen.fill();
			const code = visible(drop.reason).slice(0, 8), x = drop.x + drop.drift * drop.age + 7, right = x + pen.measureText(code).width;
			if (!covered.some((box) => x - 12 < box.right && right > box.x && Math.abs(y - box.y) < box.high)) {
				pen.fillText(code, x, y);
				covered.push({ x: x - 12, y, right, high: 12 });
			}
			if (y > height || still) fallen.splice(fallen.indexOf(drop), 1);
		}
		pen.globalAlpha = 1;
	}
	function animate(now) {
		if (!calm.matches && !frozen && picture && !document.hidden && !document.body.classList.contains('stale')) draw(now);
		requestAnimationFrame(animate);
	}

	// ---- figures

	function series(pick) {
		return samples.map((sample) => ({ at: Date.parse(sample.at), value: pick(sample) })).map((p) => ({ at: p.at, value: known(p.value) ? Number(p.value) : null }));
	}

	function showFigures() {
		const { figures } = picture;
		const parts = (element, ...children) => $(element).querySelector('.value').replaceChildren(...children);
		const unit = (label) => h('small', {}, label);
		parts('settled', h('b', {}, rate(figures.settledPerSecond)), unit(figures.rejectedPerSecond ? ` and ${rate(figures.rejectedPerSecond)} rejected` : ''));
		parts('latency', h('b', {}, known(figures.p50Milliseconds) ? duration(figures.p50Milliseconds / 1000) : '–'), unit(' half'), h('b', { class: 'second' }, known(figures.p99Milliseconds) ? duration(figures.p99Milliseconds / 1000) : '–'), unit(' 99 %'));
		parts('waiting', h('b', {}, known(figures.open) ? whole.format(figures.open) : '–'), unit(` ${figures.open === 1 ? 'payment' : 'payments'}`));
		text($('waiting-where'), figures.untaken ? `${whole.format(figures.untaken)} no engine has taken` : '');
		// No rejection draws no line.
		const rejecting = series((s) => s.rejectedPerSecond);
		const bad = rejecting.map((p, i) => p.value || rejecting[i - 1]?.value || rejecting[i + 1]?.value ? p : { at: p.at, value: null });
		plot($('settled'), [{ points: series((s) => s.settledPerSecond), fill: true }, { points: bad, kind: 'bad' }], (v) => rate(v), { labels: true, names: ['settled', 'rejected'] });
		plot($('latency'), [{ points: series((s) => s.p99Milliseconds), kind: 'faint' }, { points: series((s) => s.p50Milliseconds) }], (v) => duration(v / 1000), { log: true, names: ['99 %', 'half'] });
		plot($('waiting'), [{ points: series((s) => s.open), fill: true }], (v) => whole.format(v), { names: ['waiting'] });
	}

	const plotWidth = 600, plotHeight = 100;
	function plot(figure, lines, label, { log, labels, names }) {
		const box = figure.querySelector('.plot');
		const end = Date.parse(picture.at);
		const begin = samples.length ? Date.parse(samples[0].at) : end;
		const span = [60, 120, 300, historySeconds].find((seconds) => seconds >= (end - begin) / 1000) ?? historySeconds;
		const from = end - span * 1000;
		const top = Math.max(...lines.flatMap((line) => line.points.map((p) => p.value ?? 0)), log ? 10 : 1);
		const low = log ? 1 : 0;
		const x = (at) => (at - from) / (span * 1000) * plotWidth;
		const y = (v) => log ? plotHeight - 3 - Math.log(Math.max(v, low) / low) / Math.log(top * 3 / low) * (plotHeight - 8) : plotHeight - 3 - v / (top * 1.2) * (plotHeight - 8);
		const drawing = svg('svg', { viewBox: `0 0 ${plotWidth} ${plotHeight}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
		const shown = picture.story.filter((line) => line.kind && Date.parse(line.at) >= from);
		for (const mark of shown) drawing.append(svg('line', { class: `mark ${mark.kind}`, x1: x(Date.parse(mark.at)), x2: x(Date.parse(mark.at)), y1: 0, y2: plotHeight }));
		for (const line of lines) {
			let path = '', area = '', open = null;
			const close = (at) => { if (open !== null) area += `L${at.toFixed(1)},${plotHeight}L${open.toFixed(1)},${plotHeight}Z`; open = null; };
			let last = 0, lastAt = 0;
			for (const p of line.points) {
				if (p.at < from) continue;
				if (p.value === null || (open !== null && p.at - lastAt > 5000)) { close(last); if (p.value === null) continue; }
				const at = `${x(p.at).toFixed(1)},${y(p.value).toFixed(1)}`;
				path += (open === null ? 'M' : 'L') + at;
				area += (open === null ? 'M' : 'L') + at;
				open ??= x(p.at);
				last = x(p.at);
				lastAt = p.at;
			}
			close(last);
			if (line.fill) drawing.append(svg('path', { class: 'area', d: area }));
			drawing.append(svg('path', { class: `line ${line.kind ?? ''}`, d: path }));
		}
		const minutes = span >= 120 ? `${span / 60} min ago` : `${span} s ago`;
		const extra = [];
		if (labels) {
			let free = -1;
			for (const mark of shown) {
				if (mark.kind !== 'broken') continue;
				const at = x(Date.parse(mark.at)) / plotWidth;
				if (at < free || at > 0.65 && at < free + 0.3) continue;
				// Near the end it stands before its mark, because it may not leave the card.
				const note = h('span', { class: at > 0.65 ? 'note before' : 'note' }, visible(mark.text));
				note.style[at > 0.65 ? 'right' : 'left'] = `${(at > 0.65 ? 1 - at : at) * 100}%`;
				extra.push(note);
				free = at + 0.3;
			}
		}
		const cursor = h('span', { class: 'cursor', hidden: true });
		box.replaceChildren(h('span', { class: 'top' }, label(top)), drawing, ...extra, cursor, h('span', { class: 'axis' }, h('span', {}, minutes), h('span', {}, 'now')));
		figure.probe = (fraction) => {
			if (fraction === null) { cursor.hidden = true; return null; }
			const at = from + fraction * span * 1000;
			const near = (points) => points.reduce((best, p) => Math.abs(p.at - at) < Math.abs((best?.at ?? -Infinity) - at) ? p : best, null);
			cursor.hidden = false;
			cursor.style.left = `${fraction * 100}%`;
			const mark = shown.reduce((best, m) => Math.abs(Date.parse(m.at) - at) < Math.abs((best ? Date.parse(best.at) : Infinity) - at) ? m : best, null);
			const values = lines.map((line, i) => { const p = near(line.points); return p && p.value !== null && Math.abs(p.at - at) < 3000 ? `${names[i]} ${label(p.value)}` : null; }).filter(Boolean);
			const close = mark && Math.abs(Date.parse(mark.at) - at) < span * 1000 * 0.02;
			text(cursor, [clock(new Date(at).toISOString()), ...values, close ? visible(mark.text) : null].filter(Boolean).join(' · '));
			cursor.classList.toggle('left', fraction > 0.5);
		};
		figure.probe(probed);
	}
	let probed = null; // where the pointer is, as a part of the time axis; in all three plots
	const probe = (fraction) => {
		probed = fraction;
		for (const id of ['settled', 'latency', 'waiting']) $(id).probe?.(fraction);
	};

	// ---- the machine

	const buttons = [['kill', 'Kill -9'], ['freeze', 'Freeze'], ['thaw', 'Thaw'], ['restart', 'Restart']];

	const cuts = () => picture.processes.some(({ acts }) => acts?.includes('cut') || acts?.includes('mend'));

	function showMachine() {
		const why = frozen ? '' : picture.readOnly || (cuts() ? '' : 'Connections can be cut on a stack that was started with make up CUTS=on.');
		text($('machine-why'), visible(why));
		set($('add'), { hidden: !canAct() });
		const shown = picture.processes.filter((process) => process.name !== 'bootstrap' || process.state !== 'dead'); // it ends when it is done
		keyed($('processes'), shown, (p) => p.name, makeProcess, updateProcess);
	}

	function makeProcess(process) {
		const { name } = process;
		const button = (key, label, body, danger) => h('button', { type: 'button', 'data-key': key, class: danger ? 'danger' : null, 'aria-label': `${label} ${name}`, onclick: (event) => act(body, event.currentTarget) }, label);
		const card = h('article', { class: 'card process', 'data-process': name, 'aria-label': name },
			h('h3', {}, h('span', { class: 'dot', 'aria-hidden': 'true' }), name, h('span', { class: 'state' })),
			h('p', { class: 'gauges quiet' }, h('span', { class: 'memory' }), h('span', { class: 'pid' })),
			h('div', { class: 'slot' },
				h('p', { class: 'partitions', 'aria-label': 'partitions' }), h('p', { class: 'why' })),
			h('div', { class: 'buttons' },
				h('p', { class: 'acts' }, ...buttons.map(([key, label]) => button(key, label, { act: key, target: name }, key === 'kill'))),
				h('p', { class: 'acts cuts' }, h('span', { class: 'quiet', 'aria-hidden': 'true' }, 'cut from'), ...['broker', 'ledger'].map((peer) => h('button', {
					type: 'button', 'data-key': `cut-${peer}`, 'aria-pressed': 'false',
					onclick: (event) => act({ act: event.currentTarget.getAttribute('aria-pressed') === 'true' ? 'mend' : 'cut', target: name, peer }, event.currentTarget),
				}, peer)))));
		card.find = Object.fromEntries(['state', 'why', 'memory', 'pid', 'partitions', 'acts', 'cuts'].map((c) => [c, card.querySelector(`.${c}`)]));
		return card;
	}

	function updateProcess(card, process) {
		const { find } = card;
		const acts = process.acts ?? [];
		card.dataset.state = process.state;
		text(find.state, process.state);
		text(find.why, process.state === 'ready' ? '' : visible(process.why ?? ''));
		find.why.title = find.why.textContent;
		const alive = process.state !== 'dead';
		text(find.memory, alive ? bytes(process.memoryBytes) : '');
		text(find.pid, alive && process.pid ? `pid ${process.pid}` : '');
		const partitions = process.partitions ?? [];
		keyed(find.partitions, partitions, (p) => p, (p) => h('span', {}, String(p)));
		find.partitions.hidden = partitions.length === 0;
		for (const [key] of buttons) {
			const button = card.querySelector(`[data-key="${key}"]`);
			const possible = acts.includes(key);
			set(button, { disabled: !possible, title: possible ? null : `not possible now: it is ${process.state}` });
			button.hidden = (key === 'thaw' && process.state !== 'frozen') || (key === 'freeze' && process.state === 'frozen') || (key === 'restart' && !possible);
		}
		find.acts.hidden = !canAct() || acts.length === 0;
		const links = process.name.includes('engine') || acts.includes('cut') || acts.includes('mend') || (process.cut ?? []).length > 0;
		find.cuts.hidden = !links || !canAct();
		for (const peer of ['broker', 'ledger']) {
			const cut = (process.cut ?? []).includes(peer);
			const button = card.querySelector(`[data-key="cut-${peer}"]`);
			const possible = acts.includes(cut ? 'mend' : 'cut');
			set(button, { 'aria-pressed': String(cut), disabled: !possible, title: possible ? null : cuts() ? 'not possible now' : 'needs a stack that was started with make up CUTS=on' });
			set(button, { 'aria-label': `cut ${process.name} from the ${peer}` });
		}
	}

	// ---- load and banks

	const maximumRate = 30000;
	const toRate = (position) => {
		const value = maximumRate ** (position / 1000);
		const step = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
		return Math.max(1, Math.min(maximumRate, Math.round(value / step) * step));
	};
	const toPosition = (ratePerSecond) => Math.round(1000 * Math.log(Math.max(1, ratePerSecond)) / Math.log(maximumRate));
	let sliderTouched = -Infinity;

	function showLoad() {
		const { load } = picture;
		text($('load-facts'), load.sent ? `${whole.format(load.sent)} sent, ${whole.format(load.ended)} ended, ${whole.format(load.wrong)} wrong` : 'The room sends payments of every kind.');
		$('load-facts').classList.toggle('bad', load.wrong > 0);
		$('load-controls').hidden = !canAct();
		if (performance.now() - sliderTouched > 3000 && document.activeElement !== $('rate')) $('rate').value = toPosition(load.running ? load.ratePerSecond : 200);
		showRate();
		set($('load-start'), { hidden: load.running });
		set($('load-stop'), { hidden: !load.running });
		$('load').hidden = !canAct() && !load.sent;
	}
	function showRate() {
		const value = toRate(Number($('rate').value));
		text($('rate-value'), whole.format(value));
		set($('rate'), { 'aria-valuetext': `${whole.format(value)} payments a second` });
	}

	const behaviours = ['normal', 'silent'];
	function showBanks() {
		const told = picture.banks.some((bank) => bank.behaviour);
		text($('banks-why'), told ? 'How each bank answers “will you credit it?”' : 'How the banks behave is not known here.');
		keyed($('bank-list'), picture.banks, (b) => b.ispb, (b) => h('div', { class: 'bank', role: 'group', 'aria-label': `bank ${b.ispb}` },
			h('b', {}, h('span', { class: 'swatch', 'aria-hidden': 'true' }), b.ispb),
			h('span', { class: 'choice' }, ...behaviours.map((key) => h('button', { type: 'button', 'data-key': key, 'aria-pressed': 'false', onclick: (event) => act({ act: 'bank', target: b.ispb, behaviour: key }, event.currentTarget) }, key)))),
		(row, b) => {
			row.style.setProperty('--hue', hue.get(b.ispb) ?? 0);
			for (const button of row.querySelectorAll('button')) set(button, { 'aria-pressed': String(button.dataset.key === b.behaviour), disabled: !canAct() || !b.behaviour });
		});
	}

	// ---- the story

	function showStory() {
		$('story-none').hidden = picture.story.length > 0;
		keyed($('lines'), [...picture.story].reverse(), (line) => line.number, (line) => h('li', {}, h('time', { datetime: line.at }, clock(line.at)), h('b', {}, visible(line.text))));
	}

	// ---- one payment's life

	// A few ids to click, which stay until they are looked at or half a minute old: they must not run away
	// from the pointer.
	let recentAt = -Infinity;
	function showRecent() {
		if (frozen || performance.now() - recentAt < 30000 && $('life-recent').childElementCount) return;
		const ids = picture.flows.map((flow) => flow.last).filter(Boolean).slice(0, 3);
		if (!ids.length || $('life-recent').matches(':hover, :focus-within')) return;
		recentAt = performance.now();
		$('life-recent').replaceChildren('just now: ', ...ids.map(paymentButton));
	}

	let lifeAsked = 0;
	async function showLife(id, scroll) {
		const asked = ++lifeAsked;
		$('life-id').value = id;
		if (scroll) $('life').scrollIntoView({ behavior: calm.matches ? 'auto' : 'smooth', block: 'start' });
		const result = $('life-result');
		result.replaceChildren(h('p', { class: 'quiet' }, 'Reading the topics and the ledger …'));
		try {
			const life = await (await ask(`api/payments/${encodeURIComponent(id)}`)).json();
			if (asked === lifeAsked) result.replaceChildren(...drawLife(life, id));
		} catch (error) {
			if (asked === lifeAsked) result.replaceChildren(h('p', { class: 'bad' }, error.status ? error.message : `No answer: ${error.message}`));
		}
	}

	function drawLife(life, id) {
		const events = life.events ?? [];
		const times = events.map((event) => Date.parse(event.at)).filter((at, i) => isTime(events[i].at));
		const first = Math.min(...times), span = Math.max(1, Math.max(...times) - first);
		const head = h('p', { class: `verdict ${life.verdict.replace(' ', '-')}` }, h('b', {}, life.verdict), life.reason ? h('span', {}, ` ${visible(life.reason)}${meanings[life.reason] ? `, ${meanings[life.reason]}` : ''}`) : null,
			life.payer ? h('span', { class: 'quiet' }, ` · ${reais(life.centavos)} from ${visible(life.payer)} to ${visible(life.payee)}`) : null,
			life.endToEndId !== id ? h('span', { class: 'quiet' }, ' · a return of the payment ', paymentButton(life.endToEndId)) : null,
			times.length > 1 ? h('span', { class: 'quiet' }, ` · ${duration(span / 1000)}`) : null);
		const list = h('ol', { class: 'events' }, ...events.map((event) => {
			const timed = isTime(event.at);
			const after = timed ? Date.parse(event.at) - first : null;
			const track = h('span', { class: 'track', 'aria-hidden': 'true' }, timed ? h('span', {}) : null);
			if (timed) track.firstElementChild.style.left = `${after / span * 100}%`;
			const place = event.topic ? `${visible(event.topic)}${known(event.partition) ? ` [${event.partition}]` : ''}${known(event.offset) ? ` @ ${whole.format(event.offset).replaceAll(',', ' ')}` : ''}` : 'ledger';
			return h('li', { 'data-kind': event.kind },
				h('span', { class: 'after', title: timed ? clockMilliseconds(event.at) : null }, !timed ? '' : after === 0 ? clock(event.at) : `+${duration(after / 1000)}`), track,
				h('span', { class: 'what' }, h('b', {}, event.kind), ' ', h('span', {}, visible(event.text))),
				h('code', { class: 'place' }, place));
		}));
		return [head, events.length ? list : h('p', { class: 'quiet' }, 'Neither the topics nor the ledger know this id.')];
	}

	// ---- dead letters

	let lettersSeen = false;
	async function lookAtLetters() {
		if (lettersSeen && token && !document.hidden) {
			try {
				showLetters(await (await ask('api/letters')).json() ?? []);
			} catch (error) {
				if (error.status) text($('letters-facts'), error.message);
			}
		}
		setTimeout(lookAtLetters, 5000);
	}

	function showLetters(letters) {
		text($('letters-facts'), letters.length ? `the last ${whole.format(letters.length)} messages that cannot become a payment` : 'none: every message became a payment or a return');
		keyed($('letter-list'), letters.reverse(), (l) => `${l.topic} ${l.partition} ${l.offset} ${l.at}`, (letter) => {
			const raw = Uint8Array.from(atob(letter.bytes ?? ''), (c) => c.charCodeAt(0));
			const body = h('div', {});
			const details = h('details', {},
				h('summary', {}, h('time', { datetime: letter.at }, clock(letter.at)), h('b', {}, visible(letter.code)), h('span', {}, visible(letter.reason)), h('code', { class: 'place' }, `${visible(letter.topic)} [${letter.partition}] @ ${letter.offset}`), h('span', { class: 'quiet n' }, `${whole.format(letter.size)} bytes`)),
				body);
			details.addEventListener('toggle', () => {
				if (!details.open || body.childElementCount) return;
				const cut = raw.length < letter.size ? `the first ${whole.format(raw.length)} of ${whole.format(letter.size)} bytes` : `${whole.format(letter.size)} bytes`;
				body.append(h('p', { class: 'quiet' }, `${cut}, as text and in hexadecimal`), h('pre', { class: 'bytes' }, visible(new TextDecoder().decode(raw))), h('pre', { class: 'bytes' }, hex(raw)));
			});
			return details;
		});
	}
	function hex(raw) {
		const lines = [];
		for (let at = 0; at < raw.length; at += 16) {
			const row = [...raw.slice(at, at + 16)];
			lines.push(`${at.toString(16).padStart(4, '0')}  ${row.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ${row.map((b) => b >= 32 && b < 127 ? String.fromCharCode(b) : '·').join('')}`);
		}
		return lines.join('\n');
	}

	// ---- what people do

	function listen() {
		$('key').addEventListener('submit', (event) => {
			event.preventDefault();
			token = $('key-token').value.trim().replace(/^.*#token=/, '');
			sessionStorage.setItem('token', token);
			$('key-token').value = '';
			look();
		});
		$('add').addEventListener('click', (event) => act({ act: 'add-engine' }, event.currentTarget));
		$('rate').addEventListener('input', () => { sliderTouched = performance.now(); showRate(); });
		const sendLoad = (button) => act({ act: 'load', ratePerSecond: toRate(Number($('rate').value)) }, button);
		$('rate').addEventListener('change', () => { if (picture?.load.running) sendLoad(); });
		$('load-start').addEventListener('click', (event) => sendLoad(event.currentTarget));
		$('load-stop').addEventListener('click', (event) => act({ act: 'load', ratePerSecond: 0 }, event.currentTarget));
		$('life-form').addEventListener('submit', (event) => {
			event.preventDefault();
			const id = $('life-id').value.trim();
			if (id) showLife(id);
		});
		$('pairs').closest('details').addEventListener('toggle', showPairs);
		$('save').addEventListener('click', async (event) => {
			const button = event.currentTarget;
			button.setAttribute('aria-busy', 'true');
			try {
				const address = URL.createObjectURL(await (await ask('api/report')).blob());
				h('a', { href: address, download: `liquida-${picture.at.slice(0, 19).replaceAll(':', '')}.html` }).click();
				setTimeout(() => URL.revokeObjectURL(address), 60000);
			} catch (error) {
				say(`No report: ${error.message}`, true);
			}
			button.removeAttribute('aria-busy');
		});
		window.addEventListener('hashchange', () => { if (location.hash.includes('token=')) { takeToken(); location.reload(); } });
		new IntersectionObserver(([entry]) => { lettersSeen = entry.isIntersecting; }).observe($('letters'));
	}

	// A room that does not answer is grey: what it said last must not look like now.
	function watch() {
		const silent = performance.now() - answered;
		const lost = silent > lostAfterMilliseconds && $('key').hidden;
		document.body.classList.toggle('stale', Boolean(lost));
		$('lost').hidden = !lost;
		if (lost) {
			const seconds = Math.floor(silent / 1000);
			text($('lost'), `No answer from the room for ${seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`}.${picture ? ` What you see is from ${clock(picture.at)}.` : ''}`);
			document.title = '? no answer · Liquida';
		}
		text($('connection'), picture && !lost ? `${clock(picture.at)} UTC` : '');
	}

	function pointers() {
		for (const id of ['settled', 'latency', 'waiting']) {
			const box = $(id).querySelector('.plot');
			box.addEventListener('pointermove', (event) => {
				const { left, width } = box.getBoundingClientRect();
				probe(Math.max(0, Math.min(1, (event.clientX - left) / width)));
			});
			box.addEventListener('pointerleave', () => probe(null));
		}
		new ResizeObserver(() => { if (picture) { layoutRing(); draw(performance.now()); } }).observe($('ring'));
	}

	pointers();
	if (frozen) {
		document.body.classList.add('frozen');
		text($('kind'), 'report');
		for (const id of ['life', 'letters', 'load']) $(id).hidden = true;
		show(frozen);
		for (const id of ['life', 'letters', 'load']) $(id).hidden = true;
		text($('connection'), `as it was on ${frozen.at.slice(0, 10)} at ${clock(frozen.at)} UTC`);
		$('pairs').closest('details').addEventListener('toggle', showPairs);
	} else {
		takeToken();
		listen();
		look();
		lookAtLetters();
		setInterval(watch, 250);
		requestAnimationFrame(animate);
	}
})();
