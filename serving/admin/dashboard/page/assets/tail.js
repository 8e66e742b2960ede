// The busiest hosts: how busy they are, what capacity that asks for, what is being moved, the layouts
// of hosts, and the versions that change.

import { $, attr, el, order, table, text } from './dom.js';
import { duration, percent, plural } from './format.js';
import { Chart } from './charts.js';

const MOST = 10; // hosts shown at once
let chart = null;

// headroom says what to add to every host, or what could go.
const headroom = (share) => (share >= 0 ? `add ${percent(share)} to every host` : `${percent(-share)} of every host to spare`);

function draw(now, nowMS) {
  chart ??= new Chart($('tail-chart'), {
    title: 'Utilisation of hosts', top: 1, tick: (x) => `${Math.round(100 * x)} %`, label: (v) => (v === null ? '–' : percent(v)), speak: (words) => text($('spoken'), words),
    series: [['busiest 5 %', 'top', 2], ['p95', 'p95', 1], ['p50', 'p50', 0]].map(([name, key, index]) => ({ name, index, colour: `var(--v${index})`, value: (c) => c[key] })),
  });
  chart.update(now.history.map((p) => ({ ...p, at: nowMS / 1000 - p.ago_s, step: 10 })));
}

function host(h, now) {
  const moves = (now.moves ?? []).filter((m) => m.replica.endsWith(`@${h.name}`)).map((m) => `${m.doing} ${m.replica}`);
  return el('tr', { 'data-host': h.name }, el('th', { scope: 'row' }, h.name),
    el('td', { class: h.utilisation > now.target ? 'num warn' : 'num' }, percent(h.utilisation)),
    el('td', {}, h.replicas.join(', ') || 'nothing'), el('td', {}, moves.join(', ') || '–'));
}

// orders are those that make sense for a model as it is.
function orders(v, give) {
  const path = (verb) => `versions/${v.model.split('/').map(encodeURIComponent).join('/')}/${verb}`;
  if (v.state === 'real time' || v.state === 'rolling back') return [];
  if (v.state === 'steady') {
    const to = el('input', { type: 'text', size: 6, 'aria-label': `Version of ${v.model} to roll to`, placeholder: 'version', spellcheck: 'false' });
    const roll = order('Roll', () => (to.value.trim() ? give(path('roll'), { to: to.value.trim() }) : 'Which version?'));
    return [to, roll, v.previous ? order(`Back to ${v.previous}`, () => give(path('rollback'))) : null];
  }
  return [v.state === 'paused' ? order('Continue', () => give(path('continue'))) : order('Pause', () => give(path('pause'))), order('Roll back', () => give(path('rollback')))];
}

function version(v, give) {
  const changing = v.locations.filter((l) => l.doing).map((l) => `${l.host}: ${l.doing}` + (l.share ? `, ${percent(l.share)} of requests` : ''));
  return el('tr', { 'data-model': v.model }, el('th', { scope: 'row' }, v.model), el('td', {}, v.from && v.from !== v.version ? `${v.from} → ${v.version}` : v.version),
    el('td', {}, v.state), el('td', { class: v.overdue ? 'warn' : null }, v.stale_s ? duration(v.stale_s) : '–'),
    el('td', {}, changing.join('; ') || v.waits || v.reason || '–'), el('td', {}, ...orders(v, give).filter(Boolean)));
}

let drawn = ''; // what the table of hosts shows
let changing = ''; // what that of versions shows: it stays while someone types in it

function versions(list, give) {
  const is = JSON.stringify(list.map((v) => ({ ...v, old: 0, new: 0, locations: v.locations.map((l) => ({ ...l, utilisation: 0 })) })));
  if (is === changing) return;
  changing = is;
  $('versions').hidden = list.length === 0;
  $('versions-panel').replaceChildren(...table('Versions', ['Model', 'Version', 'State', 'Waited', 'More', 'Orders'], list.map((v) => version(v, give))));
}

let placed = ''; // what the table of placement shows

function placement(now) {
  $('placement').hidden = !now;
  if (!now) return;
  text($('placement-note'), `${now.shadow ? 'shadow: ' : ''}${now.reason}; ${plural(now.changes, 'change')} so far`);
  const is = JSON.stringify([now.hosts.map((h) => [h.layout, h.changing, h.failure]), now.replicas]);
  if (is === placed) return;
  placed = is;
  const rows = now.replicas.map((r) => {
    const host = now.hosts.find((h) => r.name.endsWith(`@${h.name}`));
    return el('tr', { 'data-replica': r.name }, el('th', { scope: 'row' }, r.name), el('td', {}, r.up ? 'up' : 'not up'),
      el('td', { class: host?.failure ? 'warn' : null }, [host?.failure, r.why].filter(Boolean).join('; ') || '–'));
  });
  $('placement-panel').replaceChildren(...table('Placement', ['Replica', 'Wanted', 'Why'], rows));
}

export function tail({ tail: now, now_ms: nowMS, status }, give) {
  versions(now?.versions ?? [], give);
  placement(now?.placement);
  const counts = (now?.counts ?? []).map((c) => `; of ${c.variant} ${plural(c.up, 'replica')} up, ${c.wanted} wanted`);
  const shown = Boolean(now) && now.hosts.length > 1 && now.history.length > 0;
  $('tail').hidden = !shown;
  if (!shown) return;
  text($('tail-note'), `of ${plural(now.hosts.length, 'host')} the busiest 5 % are ${percent(now.top)} busy, half are below ${percent(now.p50)}; ` +
    (status.replicas.some((r) => r.up) ? `for ${percent(now.target)}: ${headroom(now.buy)}, ${headroom(now.buy_if_even)} if all were as busy as the mean` : 'what is to spare is unknown while no replica is up') + counts.join(''));
  attr($('tail-note'), 'class', now.top > now.target ? 'warn' : 'muted');
  draw(now, nowMS);
  const is = JSON.stringify([now.hosts.slice(0, MOST), now.moves]);
  if (is === drawn) return;
  drawn = is;
  $('tail-panel').replaceChildren(...table('Hosts, the busiest first', ['Host', 'Busy', 'Replicas', 'Moves'], now.hosts.slice(0, MOST).map((h) => host(h, now)), [1]));
}
