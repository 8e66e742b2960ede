// Applications that survive the loss of their hosts: what answers them, their backups, and the last
// failover step by step.

import { $, attr, el, text } from './dom.js';
import { duration, ms, number, plural } from './format.js';

const MOST = 60; // applications shown at once

// trouble orders applications: those without an answer, then those without a backup.
const trouble = (a) => (a.unrecovered ? 2 : 0) + (a.unprotected ? 1 : 0);

function note(a) {
  if (a.unrecovered) return ['bad', `no answer: ${a.unrecovered}`];
  if (a.unprotected) return ['warn', `unprotected: ${a.unprotected}`];
  if (a.quality < a.full_quality) return ['', 'smaller than usual'];
  return ['', a.critical ? 'critical' : ''];
}

function application(a) {
  const [kind, words] = note(a);
  return el('tr', { 'data-application': a.name }, el('th', { scope: 'row' }, a.name), el('td', {}, a.primary || '–'),
    el('td', {}, a.active || 'nothing'), el('td', {}, `${number(a.quality)} of ${number(a.full_quality)}`),
    el('td', {}, a.backups.join(', ') || '–'), el('td', { class: kind || null }, words));
}

function step(n) {
  return el('tr', {}, el('td', { class: 'num' }, ms(n.at_ms)), el('td', {}, n.kind), el('td', {}, n.application ?? ''),
    el('td', {}, n.variant && n.server ? `${n.variant}@${n.server}` : n.server ?? ''), el('td', {}, n.reason ?? (n.took_ms ? `after ${ms(n.took_ms)}` : '')));
}

function table(title, head, rows) {
  return [el('h3', {}, title), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, el('table', {}, el('caption', { class: 'unseen' }, title),
    el('thead', {}, el('tr', {}, ...head.map((h) => el('th', { scope: 'col' }, h)))), el('tbody', {}, ...rows)))];
}

let drawn = ''; // what is shown: it changes seldom

export function failover(now) {
  $('failover').hidden = !now;
  if (!now) return;
  const lost = now.servers.filter((s) => s.state === 'lost');
  text($('failover-note'), `${plural(now.applications.length, 'application')}, ${now.unrecovered} without an answer, ${now.unprotected} unprotected` +
    (lost.length ? `; lost: ${lost.map((s) => `${s.name}${s.drill ? ' (drill)' : ''} for ${duration(s.since_s)}`).join(', ')}` : '') +
    `; so far ${now.counts.recovered} of ${now.counts.affected} recovered` + (now.counts.recovered ? `, after ${ms(now.counts.mean_recovery_ms)} in the mean` : '') +
    (now.counts.false_alarms ? `, ${plural(now.counts.false_alarms, 'false alarm')}` : ''));
  attr($('failover-note'), 'class', now.unrecovered ? 'bad' : 'muted');
  const is = JSON.stringify([now.applications, now.last_failover]);
  if (is === drawn) return;
  drawn = is;
  const list = now.applications.toSorted((a, b) => trouble(b) - trouble(a)).slice(0, MOST);
  $('applications-panel').replaceChildren(...table('Applications', ['Application', 'Primary', 'Answered by', 'Quality', 'Backups', 'Note'], list.map(application)));
  const last = now.last_failover;
  $('steps-panel').hidden = !last;
  if (last) {
    const title = `Last failover: ${last.number}, of ${last.server}${last.open ? ', not over' : `, ${ms(last.took_ms)}`}`;
    $('steps-panel').replaceChildren(...table(title, ['After', 'Step', 'Application', 'Where', 'More'], last.steps.map(step)));
  }
}
