// Streaming clients: what each loses of its SLA, and the batches of the last second on each host.

import { $, attr, colour, el, svg, swatch, table, text } from './dom.js';
import { count, ms, number, percent, plural } from './format.js';

const HOSTS = 20; // shown at once
const SECOND = 1000; // ms
const HEIGHT = 28; // of a lane

const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);

// lane draws what a host ran: the width of a batch is its time, its height the frames in it.
function lane(h, most, variants, frame) {
  const bars = h.batches.map((b) => {
    const took = b.took_ms || b.ago_ms; // it still runs
    const left = Math.max(0, SECOND - b.ago_ms), right = Math.min(SECOND, SECOND - b.ago_ms + took);
    const high = Math.max(3, (HEIGHT * b.frames) / most);
    const late = b.late_ms > frame;
    const bar = svg('rect', { x: left, width: Math.max(1, right - left - 1.5), y: HEIGHT - high, height: high, class: late ? 'late' : '' },
      svg('title', {}, `${plural(b.frames, 'frame')} by ${b.model}, ${b.took_ms ? ms(b.took_ms) : 'runs'}${late ? `, ${ms(b.late_ms)} late` : ''}`));
    bar.style.setProperty('--c', colour(variants.indexOf(b.model)));
    return bar;
  });
  const frames = sum(h.batches, (b) => b.frames), late = h.batches.filter((b) => b.late_ms > frame).length;
  const words = h.up ? `${plural(h.clients, 'client')}, ${percent(h.room)} free` : 'takes no frames';
  const ran = h.batches.length ? `${h.batches.length} batches of ${number(frames / h.batches.length)} frames` + (late ? `, ${late} late` : '') : 'no batches';
  return el('div', { class: 'lane', 'data-host': h.name }, el('p', {}, el('b', {}, h.name), el('span', { class: h.up ? 'muted' : 'bad' }, words), el('span', { class: 'muted' }, ran)),
    svg('svg', { viewBox: `0 0 ${SECOND} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${h.name}, the last second: ${ran}` }, ...bars));
}

function client(c) {
  const used = c.drop !== undefined && c.drop > c.sla;
  const known = (x, of) => (x === undefined ? '–' : of(x));
  return el('tr', { 'data-client': c.id }, el('th', { scope: 'row' }, `${c.id}${c.tenant ? `, ${c.tenant}` : ''}`),
    el('td', { class: c.served ? null : 'warn' }, c.served ? `${c.model ? `${c.model}@` : ''}${c.host}` : c.why),
    el('td', { class: 'num' }, number(c.sla)), el('td', { class: used ? 'num warn' : 'num' }, known(c.drop, (x) => x.toFixed(3))),
    el('td', { class: 'num' }, c.drop_rate.toFixed(4)), el('td', { class: 'num' }, known(c.mean_interval, number)),
    el('td', { class: 'num' }, ms(c.network_ms)), el('td', { class: 'num' }, c.served ? count(c.results_per_second) : '–'),
    el('td', { class: c.late_per_second ? 'num warn' : 'num' }, c.served ? count(c.late_per_second) : '–'));
}

// fill shows a table, whose scroll position and focus stay.
function fill(panel, fresh) {
  const body = panel.querySelector('tbody');
  if (!body) panel.replaceChildren(...fresh);
  else {
    text(panel.querySelector('h3'), fresh[0].textContent);
    body.replaceWith(fresh[1].querySelector('tbody'));
  }
}

// streams draws the section, where the router serves any.
export function streams({ streams: now, variants }) {
  $('streams').hidden = !now;
  if (!now) return;
  const { served, waiting, batches, late, evicted } = now.counts;
  text($('streams-note'), `${plural(served, 'client')} served, ${count(waiting)} waiting; so far ${count(batches)} ${batches === 1 ? 'batch' : 'batches'}` +
    (batches ? `, ${percent(late / batches)} late` : '') + `, ${plural(evicted, 'eviction')}`);
  attr($('streams-note'), 'class', served === 0 && waiting > 0 ? 'warn' : 'muted');
  const shown = now.hosts.toSorted((a, b) => a.up - b.up).slice(0, HOSTS);
  const most = Math.max(1, ...now.hosts.flatMap((h) => h.batches.map((b) => b.frames)));
  const models = [...new Set(now.hosts.flatMap((h) => h.batches.map((b) => b.model)))].sort();
  $('streams-lanes').replaceChildren(el('h3', {}, 'Batches of the last second'),
    el('div', { class: 'legend' }, ...models.map((m) => el('span', {}, swatch(variants.indexOf(m)), m)),
      el('span', {}, `the taller, the more frames (up to ${most})`), el('span', {}, el('i', { class: 'late', 'aria-hidden': 'true' }), 'late by more than a frame')),
    ...shown.map((h) => lane(h, most, variants, SECOND / now.fps)), el('p', { class: 'ends muted' }, el('span', {}, '1 s ago'), el('span', {}, 'now')));
  $('streams-panel').hidden = now.clients.length === 0;
  const some = now.clients.length < now.total ? `, ${now.clients.length} of ${count(now.total)}` : '';
  fill($('streams-panel'), table(`Clients, those with the least left of their SLA first${some}`,
    ['Client', 'Answered by', 'SLA', 'Drop', 'Drop rate', 'Interval', 'Network', 'Results/s', 'Late/s'], now.clients.map(client), [2, 3, 4, 5, 6, 7, 8]));
}
