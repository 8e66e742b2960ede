// The hosts, and what each of their replicas has in flight.

import { $, attr, colour, el, swatch, text } from './dom.js';
import { nice } from './charts.js';
import { count, duration, percent } from './format.js';
import { Orders } from './orders.js';

const MOST = 48; // hosts shown at once

// condition says in a few words what is the matter with a replica; null if nothing is.
export function condition(r) {
  const since = r.since_s > 0 ? ` for ${duration(r.since_s)}` : '';
  const why = r.note ? `: ${r.note}` : r.why ? ` (${r.why.replaceAll('_', ' ')})` : '';
  switch (r.state) {
    case 'ejected': return ['bad', `ejected${since}${why}`];
    case 'half_open': return ['warn', `being tried again${why}`];
    case 'slow_start': return ['warn', `coming back${r.cap ? `, ${r.cap} at most` : ''}`];
  }
  const life = r.lifecycle ?? {};
  const failed = life.error ? `: ${life.error}` : '';
  switch (life.state) {
    case 'cold': return [failed ? 'bad' : '', `not loaded${failed}`];
    case 'warm': return [failed ? 'bad' : '', `asleep${failed}`];
    case 'loading': return ['', life.doing === 'wake' ? 'waking' : 'loading'];
    case 'draining': if (life.doing) return ['warn', `draining, to be ${life.target}`];
  }
  if (failed) return ['warn', life.error];
  if (r.drained) return ['warn', 'drained by order'];
  if (!r.up) return ['bad', `down${since}${why}`];
  if (r.busy) return ['warn', 'has no room for more, as it says'];
  if (r.gauges?.stale) return ['warn', `its gauges are ${duration(r.gauges.age_s)} old`];
  return null;
}

export class Fleet {
  // order(replica, verb) gives an order about a replica.
  constructor(order) {
    this.order = order;
    this.rows = new Map(); // by replica
    this.cards = new Map(); // by host
  }

  update({ hosts, variants, status, tail }) {
    this.versions = new Map((tail?.versions ?? []).flatMap((v) => v.locations.map((l) => [l.replica, l.version])));
    const by = Map.groupBy(status.replicas, (r) => r.host);
    const most = nice(Math.max(8, ...status.replicas.map((r) => r.in_flight)));
    const troubled = (h) => (by.get(h) ?? []).some((r) => condition(r));
    let shown = hosts.filter((h) => by.has(h));
    if (shown.length > MOST) shown = [...shown.filter(troubled), ...shown.filter((h) => !troubled(h))].slice(0, MOST);
    for (const [name, card] of this.cards) {
      if (!shown.includes(name)) {
        card.root.remove();
        this.cards.delete(name);
      }
    }
    for (const name of shown) this.host(name, by.get(name), variants, most);
    const down = status.replicas.filter((r) => !r.up).length;
    const all = status.replicas.length;
    text($('fleet-note'), (down ? `${all - down} of ${all} replicas up` : `${count(all)} replicas, all up`) +
      `; a bar's end is ${most} requests` + (hosts.length > shown.length ? `; ${hosts.length - shown.length} hosts are not shown` : ''));
  }

  host(name, replicas, variants, most) {
    let card = this.cards.get(name);
    if (!card) {
      const total = el('span', { class: 'muted' });
      const list = el('div');
      card = { root: el('article', { class: 'host panel', 'data-host': name }, el('header', {}, el('h3', {}, name), total), list), total, list, rows: new Map() };
      this.cards.set(name, card);
      $('hosts').append(card.root);
    }
    text(card.total, `${count(replicas.reduce((n, r) => n + r.in_flight, 0))} in flight`);
    for (const r of replicas) this.replica(card, r, variants.indexOf(r.variant), most);
  }

  replica(card, r, index, most) {
    let row = card.rows.get(r.name);
    if (!row) {
      const bar = el('i');
      const track = el('div', { class: 'track', 'aria-hidden': 'true' }, bar);
      track.style.setProperty('--c', colour(index));
      const name = el('span');
      const badge = el('span', { class: 'badge', hidden: true });
      const n = el('span', { class: 'n' });
      const orders = new Orders(r.name, this.order);
      row = { root: el('div', { class: 'replica' }, el('span', { class: 'who' }, swatch(index), name), n, orders.toggle, track, badge, orders.root), name, bar, badge, n, orders };
      card.rows.set(r.name, row);
      card.list.append(row.root);
    }
    const wrong = condition(r);
    row.orders.update(r);
    const second = r.name.split('#')[1]; // of a model whose versions change
    const version = this.versions.get(r.name);
    text(row.name, r.variant + (version ? `, version ${version}` : second ? `, replica ${second}` : ''));
    text(row.n, count(r.in_flight));
    row.bar.style.width = `${Math.min(100, (100 * r.in_flight) / most)}%`;
    attr(row.root, 'class', wrong?.[0] === 'bad' ? 'replica off' : 'replica');
    attr(row.root, 'title', `${r.name}: ${r.in_flight} in flight` + (r.limit ? ` of ${r.limit}` : '') + (r.kv_use !== undefined ? `, KV cache ${percent(r.kv_use)} in use` : ''));
    row.badge.hidden = !wrong;
    if (wrong) {
      attr(row.badge, 'class', `badge ${wrong[0]}`.trim());
      text(row.badge, wrong[1]);
    }
  }
}
