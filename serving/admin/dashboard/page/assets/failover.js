// Applications that survive the loss of their hosts: what answers them, their backups, and the last
// failover step by step.

import { $, attr, el, order, table, text } from './dom.js';
import { duration, ms, number, percent, plural } from './format.js';

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

const used = (s) => Object.entries(s.used ?? {}).map(([name, share]) => `${name} ${percent(share)}`).join(', ');

function server(s, give) {
  const sure = () => confirm(`Treat ${s.name} as lost? Its applications move to their backups until failback.`);
  const drill = () => (sure() ? give('failover/drill', { host: s.name }) : '');
  const state = s.drill ? `${s.state} (drill)` : s.state;
  return el('tr', { 'data-server': s.name }, el('th', { scope: 'row' }, s.name), el('td', {}, s.site || '–'), el('td', { class: s.state === 'lost' ? 'bad' : null }, state),
    el('td', { class: 'num' }, number(s.loaded ?? 0)), el('td', {}, used(s) || '–'), el('td', {}, s.state === 'up' ? order('Drill', drill) : ''));
}

let drawn = ''; // what is shown: it changes seldom

// failover draws the section. It comes first while something is lost or without an answer.
export function failover(now, give) {
  $('failover').hidden = !now;
  if (!now) return;
  const lost = now.servers.filter((s) => s.state === 'lost');
  text($('failover-note'), `${plural(now.applications.length, 'application')}, ${now.unrecovered} without an answer, ${now.unprotected} unprotected` +
    (lost.length ? `; lost: ${lost.map((s) => `${s.name}${s.drill ? ' (drill)' : ''} for ${duration(s.since_s)}`).join(', ')}` : '') +
    `; so far ${now.counts.recovered} of ${now.counts.affected} recovered` + (now.counts.recovered ? `, after ${ms(now.counts.mean_recovery_ms)} in the mean` : '') +
    (now.counts.false_alarms ? `, ${plural(now.counts.false_alarms, 'false alarm')}` : ''));
  attr($('failover-note'), 'class', now.unrecovered ? 'bad' : 'muted');
  $('failover').classList.toggle('first', Boolean(now.unrecovered || lost.length));
  const servers = now.servers.map(({ name, site, state, drill, loaded, used }) => ({ name, site, state, drill, loaded, used }));
  const is = JSON.stringify([now.applications, now.last_failover, servers]);
  if (is === drawn) return;
  drawn = is;
  const list = now.applications.toSorted((a, b) => trouble(b) - trouble(a)).slice(0, MOST);
  $('applications-panel').replaceChildren(...table('Applications', ['Application', 'Primary', 'Answered by', 'Quality', 'Backups', 'Note'], list.map(application)));
  const hosts = servers.toSorted((a, b) => (a.state === 'up') - (b.state === 'up')).slice(0, MOST);
  $('servers-panel').replaceChildren(...table('Hosts whose loss is survived', ['Host', 'Site', 'State', 'Loaded', 'Used', ''], hosts.map((s) => server(s, give)), [3]),
    el('p', { class: 'foot' }, order('Fail back', () => give('failover/failback'))));
  const last = now.last_failover;
  $('steps-panel').hidden = !last;
  if (last) {
    const title = `Last failover: ${last.number}, of ${last.server}${last.open ? ', not over' : `, ${ms(last.took_ms)}`}`;
    $('steps-panel').replaceChildren(...table(title, ['After', 'Step', 'Application', 'Where', 'More'], last.steps.map(step)));
  }
}
