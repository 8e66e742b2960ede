// What has come together since the router was started.

import { $, el, swatch } from './dom.js';
import { count, number, percent } from './format.js';

function table(title, head, rows) {
  return [el('h3', {}, title), el('table', {}, el('caption', { class: 'unseen' }, title),
    el('thead', {}, el('tr', {}, ...head.map((h, i) => el('th', { scope: 'col', class: i ? 'num' : null }, h)))),
    el('tbody', {}, ...rows))];
}

const share = (part, whole) => (whole ? percent(part / whole) : '–');

function row(name, c) {
  return el('tr', {}, el('td', {}, ...name), el('td', { class: 'num' }, count(c.requests)),
    el('td', { class: 'num' }, share(c.deadline_met, c.deadline_met + c.deadline_missed)),
    el('td', { class: 'num' }, c.deadline_met + c.deadline_missed ? number(c.utility_mean) : '–'));
}

// jobs shows the workers of models whose inputs are chosen: what waits, how slow they are
// compared with their profiles, and the strategy of the job begun last.
function jobs(list) {
  $('jobs-panel').hidden = !list.length;
  if (!list.length) return;
  $('jobs-panel').replaceChildren(...table('Jobs', ['Worker', 'Waiting', 'Backlog', 'Slowness', 'Last begun'], list.map((q) => el('tr', {},
    el('td', {}, `${q.model}@${q.worker}`), el('td', { class: 'num' }, count(q.waiting + (q.running ? 1 : 0))),
    el('td', { class: 'num' }, `${number(q.backlog_ms)} ms`), el('td', { class: 'num' }, number(q.slowness)),
    el('td', { class: 'num' }, q.last ? `${q.last} (quality ${number(q.last_quality)})` : '–')))));
}

export function totals({ variants, status }) {
  jobs(status.jobs ?? []);
  const head = ['Requests', 'Met', 'Utility'];
  $('tasks-panel').replaceChildren(...table('By task', ['Task', ...head], status.tasks.map((c) => row([c.name], c))));
  $('sizes-panel').replaceChildren(...table('By size', ['Size', ...head],
    status.variants.map((c) => row([swatch(variants.indexOf(c.name)), c.name], c))));
}
