// The dashboard of one router: it draws what the feed brings.

import { $, attr, choice, el, text } from './dom.js';
import { count, duration, number, percent, plural } from './format.js';
import { Chart } from './charts.js';
import { Decisions } from './decisions.js';
import { failover } from './failover.js';
import { Feed } from './feed.js';
import { Fleet, condition } from './fleet.js';
import { History } from './history.js';
import { learned } from './learned.js';
import { policy } from './policy.js';
import { quality } from './quality.js';
import { streams } from './streams.js';
import { tail } from './tail.js';
import { totals } from './totals.js';

const COLUMNS = 60;
let shownWindow = 300; // seconds
let latest = null;
let history = new History();
let charts = null;
const give = (path, body) => feed.order(path, body);
const fleet = new Fleet((replica, verb) => give(`replicas/${encodeURIComponent(replica)}/${verb}`));
const decisions = new Decisions();

choice($('windows'), [[60, '1 min'], [300, '5 min'], [900, '15 min']], shownWindow, (seconds) => {
  shownWindow = seconds;
  drawCharts();
});

function tile(name) {
  const value = el('div', { class: 'value' });
  const more = el('div', { class: 'more' });
  const root = el('div', { class: 'tile panel' }, el('div', { class: 'name' }, name), value, more);
  $('tiles').append(root);
  return (number, unit, rest, kind = '') => {
    if (value.dataset.is !== number + unit) {
      value.dataset.is = number + unit;
      value.replaceChildren(number, unit ? el('small', {}, unit) : '');
    }
    text(more, rest);
    attr(root, 'class', `tile panel ${kind}`.trim());
  };
}
const tiles = {
  rate: tile('Requests, 10 s'), met: tile('Deadlines met, 1 min'),
  utility: tile('Utility, 1 min'), trouble: tile('Lost, 1 min'),
};

function drawTiles(data) {
  const now = Math.floor(data.now_ms / 1000);
  const { status, variants } = data;
  const ten = history.sum(now - 10, now, variants.length);
  const minute = history.sum(now - 60, now, variants.length);
  const waiting = (status.queue ?? []).reduce((n, q) => n + (q.waiting ?? 0), 0);
  tiles.rate(number((ten.routed + ten.rejected) / 10), '/s', `${count(status.in_flight)} in flight` + (status.queue ? `, ${count(waiting)} waiting` : ''));
  const met = minute.judged ? minute.met / minute.judged : null;
  tiles.met(met === null ? '–' : percent(met).replace(' %', ''), met === null ? '' : '%',
    met === null ? 'none has come due' : `${count(minute.met)} of ${count(minute.judged)}`, met !== null && met < 0.9 ? 'warn' : '');
  tiles.utility(number(minute.utility / 60), '/s', minute.judged ? `${number(minute.utility / minute.judged)} per request` : 'none has been earned');
  const trouble = minute.rejected + minute.failed;
  tiles.trouble(count(trouble), '', `${count(minute.rejected)} turned away, ${count(minute.failed)} failed`, trouble ? 'bad' : '');
}

function makeCharts(data) {
  const speak = (words) => text($('spoken'), words);
  charts = [
    new Chart($('mix'), {
      title: 'Requests per second, by size', stacked: true, top: 1, speak, label: number,
      series: data.variants.map((name, index) => ({ name, index, value: (c) => c.chosen[index] / c.step })),
    }),
    new Chart($('met'), {
      title: 'Deadlines met', fixed: 1, speak, tick: (x) => `${100 * x} %`, label: (v) => (v === null ? 'none due' : percent(v)),
      series: [{ colour: 'var(--good)', value: (c) => (c.judged ? c.met / c.judged : null) }],
    }),
    new Chart($('utility'), {
      title: 'Utility per second', top: 1, speak, label: number,
      series: [{ colour: 'var(--accent)', value: (c) => c.utility / c.step }],
    }),
  ];
}

function drawCharts() {
  if (!latest) return;
  const columns = history.columns(Math.floor(latest.now_ms / 1000), shownWindow, COLUMNS, latest.variants.length);
  for (const chart of charts) chart.update(columns);
}

// state is the colour and the words of how the router does, the worst first.
function state({ status, failover }) {
  const wrong = status.replicas.filter((r) => condition(r)?.[0] === 'bad').length;
  if (status.draining) return ['warn', 'Shutting down'];
  if (!status.replicas.some((r) => r.up)) return ['bad', 'No replica is up']; // by order too
  if (failover?.unrecovered) return ['bad', `${plural(failover.unrecovered, 'application')} without an answer`];
  const lost = (failover?.servers ?? []).filter((s) => s.state === 'lost').map((s) => s.name);
  if (lost.length) return ['warn', `${lost.join(', ')} lost`];
  if (wrong) return ['warn', `${wrong} of ${plural(status.replicas.length, 'replica')} down`];
  return ['good', 'Routing'];
}

function drawTop(data) {
  const [kind, words] = state(data);
  attr($('state'), 'class', `state ${kind}`);
  text($('state').querySelector('.what'), words);
  const [name, version] = data.status.policy.split('@');
  if ($('policy').dataset.is !== data.status.policy) {
    $('policy').dataset.is = data.status.policy;
    $('policy').replaceChildren('Policy ', el('b', {}, name), version ? ` version ${version}` : '');
    $('policy').hidden = false;
  }
  text($('scenario'), data.about.scenario);
  text($('uptime'), `up ${duration(data.status.uptime_s)}`);
  text($('version'), `gearshift ${data.about.version}, clients ask at ${data.about.addr}`);
}

function notice(words, kind = '') {
  attr($('notice'), 'class', `notice ${kind}`.trim());
  text($('notice'), words);
  $('notice').hidden = !words;
}

const feed = new Feed({
  data(data, signedIn) {
    latest = data;
    history.add(data.seconds, data.now_ms / 1000, data.kept_s);
    $('login').hidden = true;
    $('main').hidden = false;
    $('sign-out').hidden = !signedIn;
    $('main').classList.remove('stale');
    notice('');
    if (!charts) makeCharts(data);
    drawTop(data);
    drawTiles(data);
    drawCharts();
    fleet.update(data);
    decisions.update(data);
    totals(data);
    policy(data);
    quality(data);
    learned(data);
    failover(data.failover, give);
    tail(data, give);
    streams(data);
    text($('heard'), '');
  },
  gone(seconds) {
    attr($('state'), 'class', 'state bad');
    text($('state').querySelector('.what'), 'No answer');
    $('main').classList.add('stale');
    notice(`The router does not answer${seconds >= 1 ? `; last heard ${duration(seconds)} ago` : ''}. Trying again.`, 'bad');
  },
  // Another life of the router may have other sizes, hosts and pages: all begins anew. Not more
  // often than every 10 seconds, should two routers answer in turn.
  restarted() {
    setTimeout(() => location.reload(), Math.max(0, 10000 - performance.now()));
  },
  locked(message, wrong) {
    $('main').hidden = true;
    $('sign-out').hidden = true;
    attr($('state'), 'class', 'state');
    text($('state').querySelector('.what'), 'Signed out');
    $('policy').hidden = true;
    $('policy').dataset.is = '';
    text($('uptime'), '');
    notice(message);
    $('login').hidden = Boolean(message);
    text($('login-fault'), wrong ? 'That is not this router’s token.' : '');
    if (!message) $('token').focus();
  },
});

$('login').addEventListener('submit', (e) => {
  e.preventDefault();
  feed.signIn($('token').value.trim());
  $('token').value = '';
});
$('sign-out').addEventListener('click', () => {
  latest = null;
  history = new History();
  decisions.forget();
  feed.forget();
  feed.signOut();
});

feed.wake();
