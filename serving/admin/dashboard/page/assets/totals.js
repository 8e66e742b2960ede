// What has come together since the router was started.

import { $, el, swatch, table } from './dom.js';
import { count, number, percent } from './format.js';

const NUMBERS = [1, 2, 3]; // columns

const share = (part, whole) => (whole ? percent(part / whole) : '–');

function row(name, c) {
  return el('tr', {}, el('th', { scope: 'row' }, ...name), el('td', { class: 'num' }, count(c.requests)),
    el('td', { class: 'num' }, share(c.deadline_met, c.deadline_met + c.deadline_missed)),
    el('td', { class: 'num' }, c.deadline_met + c.deadline_missed ? number(c.utility_mean) : '–'));
}

// jobs shows the workers of models whose inputs are chosen: what waits, how slow they are
// compared with their profiles, and the strategy of the job begun last.
function jobs(list) {
  $('jobs').hidden = !list.length;
  if (!list.length) return;
  $('jobs-panel').replaceChildren(...table('Workers', ['Worker', 'Waiting', 'Backlog', 'Slowness', 'Last begun'], list.map((q) => el('tr', {},
    el('th', { scope: 'row' }, `${q.model}@${q.worker}`), el('td', { class: 'num' }, count(q.waiting + (q.running ? 1 : 0))),
    el('td', { class: 'num' }, `${number(q.backlog_ms)} ms`), el('td', { class: 'num' }, number(q.slowness)),
    el('td', {}, q.last ? `${q.last} (quality ${number(q.last_quality)})` : '–'))), NUMBERS));
}

export function totals({ variants, status }) {
  jobs(status.jobs ?? []);
  const head = ['Requests', 'Met', 'Utility'];
  $('tasks-panel').replaceChildren(...table('By task', ['Task', ...head], status.tasks.map((c) => row([c.name], c)), NUMBERS));
  $('sizes-panel').replaceChildren(...table('By size', ['Size', ...head],
    status.variants.map((c) => row([swatch(variants.indexOf(c.name)), c.name], c)), NUMBERS));
}
