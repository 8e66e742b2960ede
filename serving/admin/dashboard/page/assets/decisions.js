// Recent decisions, and what each went by.

import { $, attr, choice, colour, el, swatch, text } from './dom.js';
import { clock, count, ms, number, percent, plural } from './format.js';

const narrow = matchMedia('(max-width: 760px)');
const most = () => (narrow.matches ? 15 : 30); // rows

const FILTERS = {
  all: ['All', () => true],
  missed: ['Missed', (d) => d.met === false],
  fallback: ['Fallback', (d) => Boolean(d.fallback)],
  refused: ['Turned away', (d) => d.outcome === 'rejected' || d.outcome === 'refused'],
};

// result is the colour and the words of how a request ended.
function result(d) {
  if (!d.outcome) return ['', 'under way'];
  if (d.outcome === 'completed') return d.met === false ? ['warn', 'missed'] : d.met ? ['good', 'met'] : ['', 'completed'];
  if (d.outcome === 'cancelled' || d.outcome === 'refused') return ['', d.outcome];
  return ['bad', d.outcome === 'rejected' ? `turned away (${d.status})` : d.outcome];
}

export class Decisions {
  constructor() {
    this.all = new Map(); // by number
    this.rows = new Map();
    this.filter = 'all';
    this.open = null;
    this.body = $('decisions').tBodies[0];
    choice($('filters'), Object.entries(FILTERS).map(([key, [label]]) => [key, label]), 'all', (key) => {
      this.filter = key;
      this.draw(true);
    });
    $('pause').addEventListener('click', () => this.pause(!this.paused));
    this.body.addEventListener('click', (e) => {
      const row = e.target.closest('tr.row');
      if (row && !getSelection().toString()) this.toggle(Number(row.dataset.number));
    });
  }

  pause(on) {
    this.paused = on;
    attr($('pause'), 'aria-pressed', String(on));
    text($('pause'), on ? 'Paused' : 'Pause');
    if (!this.held) this.draw(true);
  }

  // held says that rows stay where they are: what is being read must not run away.
  get held() {
    return this.paused || this.open !== null;
  }

  forget() {
    this.all.clear();
    this.rows.clear();
    this.open = null;
    this.body.replaceChildren();
  }

  update(data) {
    this.variants = data.variants;
    this.about = data.about;
    for (const d of data.decisions) this.all.set(d.number, d);
    for (const n of [...this.all.keys()].sort((a, b) => b - a).slice(data.limits.decisions)) this.all.delete(n);
    if (!this.held) this.draw(false, data.decisions.length > 0);
    else for (const [n, row] of this.rows) if (this.all.has(n)) this.fill(row, this.all.get(n));
    this.note(data);
  }

  note(data) {
    const newest = Math.max(0, ...this.rows.keys());
    const waiting = this.held ? [...this.all.keys()].filter((n) => n > newest).length : 0;
    text($('decisions-note'), waiting ? `${plural(waiting, 'newer decision')} held back ${this.paused ? 'while paused' : 'while one is open'}.`
      : this.all.size ? `Of many requests, ${data.limits.decisions_per_s} a second are shown, and some of those that went wrong.` : '');
  }

  draw(anew, changed = true) {
    if (!anew && !changed) return;
    const match = FILTERS[this.filter][1];
    const shown = [...this.all.values()].filter(match).sort((a, b) => b.at_ms - a.at_ms || b.number - a.number).slice(0, most());
    const keep = new Set(shown.map((d) => d.number));
    for (const [n, row] of this.rows) {
      if (keep.has(n)) continue;
      row.root.remove();
      row.detail?.remove();
      this.rows.delete(n);
      if (this.open === n) this.open = null;
    }
    let before = null;
    for (const d of shown) {
      const row = this.rows.get(d.number) ?? this.row(d);
      this.fill(row, d);
      if ((before ? before.nextSibling : this.body.firstChild) !== row.root) before ? before.after(row.root) : this.body.prepend(row.root);
      before = row.root;
      if (row.detail) {
        if (row.root.nextSibling !== row.detail) row.root.after(row.detail);
        before = row.detail;
      }
    }
    this.empty(shown.length === 0);
  }

  empty(yes) {
    $('decisions-empty').hidden = !yes;
    $('decisions').hidden = yes;
    if (!yes) return;
    const parts = [el('b', {}, 'None of the recent decisions is such a one.'), 'Those to come will show here.'];
    if (this.all.size === 0) {
      const curl = `curl -s ${this.about.addr.startsWith(':') ? 'localhost' : ''}${this.about.addr}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '{"model": "auto", "messages": [{"role": "user", "content": "Why did it rain?"}]}'`;
      parts.splice(0, 2, el('b', {}, 'Nothing has been routed yet.'), 'The first request will show here. To send one:', el('br'), el('code', { tabindex: '0' }, curl));
    }
    $('decisions-empty').replaceChildren(...parts);
  }

  row(d) {
    const cell = (name) => el('td', { class: `cell-${name}` });
    const button = el('button', { type: 'button', class: 'expand', 'aria-expanded': 'false' }, clock(d.at_ms));
    const row = { button, task: cell('task'), size: cell('size'), replica: cell('replica'), pace: cell('pace'), result: cell('result') };
    row.badge = el('span', { class: 'badge' });
    row.result.append(row.badge);
    row.root = el('tr', { class: 'row fresh', 'data-number': d.number }, el('td', { class: 'cell-time' }, button), row.task, row.size, row.replica, row.pace, row.result);
    this.rows.set(d.number, row);
    return row;
  }

  fill(row, d) {
    if (row.revision === d.revision) return;
    row.revision = d.revision;
    text(row.task, d.task ?? '–');
    const index = this.variants.indexOf(d.variant);
    row.size.replaceChildren(...(d.variant ? [swatch(index), d.variant] : [el('span', { class: 'muted' }, d.asked || '–')]));
    text(row.replica, d.host ?? '–');
    row.pace.replaceChildren(d.per_token_ms ? pace(d, index) : el('span', { class: 'muted' }, d.outcome || !d.deadline_ms ? '–' : `deadline ${ms(d.deadline_ms)}`));
    const [kind, words] = result(d);
    attr(row.badge, 'class', `badge ${kind}`);
    text(row.badge, words + (d.fallback ? ', fallback' : ''));
    attr(row.button, 'aria-label', `${clock(d.at_ms)}, ${d.task ?? d.asked ?? 'request'} ${d.variant ? 'to ' + d.variant : ''}, ${words}: details`);
    if (row.detail) row.detail.firstChild.replaceChildren(...detail(d, this.variants));
  }

  toggle(number) {
    const was = this.open;
    if (was !== null) {
      const row = this.rows.get(was);
      row?.detail?.remove();
      if (row) row.detail = null;
      row?.root.classList.remove('open');
      if (row) attr(row.button, 'aria-expanded', 'false');
      this.open = null;
    }
    const row = this.rows.get(number);
    if (was === number || !row) {
      if (!this.held) this.draw(true);
      return;
    }
    this.open = number;
    row.detail = el('tr', { class: 'detail' }, el('td', { colspan: 6 }, ...detail(this.all.get(number), this.variants)));
    row.root.after(row.detail);
    row.root.classList.remove('fresh');
    row.root.classList.add('open');
    attr(row.button, 'aria-expanded', 'true');
  }
}

// pace is a bar whose mark, at two thirds, is the deadline.
function pace(d, index) {
  const bar = el('i');
  bar.style.width = `${Math.min(100, (66.6 * d.per_token_ms) / d.deadline_ms)}%`;
  const track = el('div', { class: 'track', 'aria-hidden': 'true' }, bar);
  track.style.setProperty('--c', d.met === false ? 'var(--bad)' : colour(index));
  return el('div', { class: 'pace' }, track, el('span', {}, `${ms(d.per_token_ms)} of ${ms(d.deadline_ms)}`));
}

// detail is what is known of one decision.
function detail(d, variants) {
  const facts = el('dl');
  const fact = (name, value) => value && facts.append(el('div', {}, el('dt', {}, name), el('dd', {}, value)));
  const e = d.explanation;
  fact('Request', d.id);
  fact('Tenant', d.tenant);
  fact('Asked for', d.asked);
  fact('Policy', d.policy);
  fact('Replica', d.replica);
  if (e) {
    fact('Arrivals', `${number(e.rate)} /s`);
    fact('In flight', count(e.in_flight));
    fact('Prompt', `about ${plural(e.prompt_tokens, 'token')}`);
    if (e.sure !== undefined) fact('Prediction', `${percent(e.sure)} by the prompt`);
  }
  if (d.latency_ms) fact('Latency', ms(d.latency_ms) + (d.tokens ? ` for ${plural(d.tokens, 'token')}` : ''));
  if (d.waited_ms) fact('Waited for room', ms(d.waited_ms));
  if (d.ttft_ms) fact('First token', ms(d.ttft_ms));
  if (d.outcome === 'completed') fact('Utility', number(d.utility));
  if (d.overhead_us) fact('Spent in the router', `${count(d.overhead_us)} µs`);
  if (d.attempts > 1) fact('Replicas tried', count(d.attempts));
  if (d.code) fact('Error', `${d.status} ${d.code}`);
  const parts = [el('p', { class: 'why' }, why(d)), facts];
  if (e?.alternatives) parts.push(alternatives(e, variants));
  else if (d.variant) parts.push(el('p', { class: 'muted' }, 'What this decision went by was not kept: of many requests, only some are explained.'));
  return parts;
}

// why says in a sentence what decided.
function why(d) {
  if (!d.variant) return d.outcome === 'rejected' ? `No replica could take it (${(d.code || 'no room').replaceAll('_', ' ')}).` : d.outcome === 'cancelled' ? 'The client left before there was room.' : 'The request itself was refused.';
  if (d.policy === 'pinned') return `The client asked for ${d.variant} by name.`;
  if (d.fallback) return `The policy’s choice did not hold (${d.fallback}); ${d.policy} chose ${d.variant}.`;
  return `${d.policy} chose ${d.variant}` + (d.explanation?.why ? `: ${d.explanation.why}.` : '.');
}

function alternatives(e, variants) {
  const learned = e.alternatives.some((a) => a.value !== undefined);
  const kv = e.alternatives.some((a) => a.kv_use !== undefined);
  const predicted = e.sure !== undefined;
  const head = ['Size', 'Forecast', learned && 'Value', 'In flight', kv && 'KV cache', 'Misses', 'Quality', predicted && 'Predicted'].filter(Boolean);
  const num = (words) => el('td', { class: 'num' }, words);
  const rows = e.alternatives.map((a) => {
    const late = a.pace_ms > e.deadline_ms;
    const pace = a.available ? el('span', { class: late ? 'badge warn' : null }, ms(a.pace_ms) + (late ? ', late' : '')) : el('span', { class: 'badge bad' }, 'no place');
    const cells = [
      el('td', {}, el('span', {}, swatch(variants.indexOf(a.variant)), a.variant, a.variant === e.variant ? el('span', { class: 'mark' }, ' chosen') : null)),
      num(pace),
      learned ? num(a.value === undefined ? '–' : number(a.value)) : null,
      num(count(a.in_flight)),
      kv ? num(a.kv_use === undefined ? '–' : percent(a.kv_use)) : null,
      num(a.misses === undefined ? '–' : number(a.misses)),
      num(number(a.quality)),
      predicted ? num(number(a.predicted)) : null,
    ].filter(Boolean);
    cells.forEach((cell, i) => { if (i) cell.dataset.label = head[i]; });
    return el('tr', { class: a.variant === e.variant ? 'chosen' : null }, ...cells);
  });
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Alternatives' }, el('table', { class: 'cards' },
    el('caption', { class: 'unseen' }, `The alternatives, for a deadline of ${ms(e.deadline_ms)} per token`),
    el('thead', {}, el('tr', {}, ...head.map((h, i) => el('th', { scope: 'col', class: i ? 'num' : null }, h)))),
    el('tbody', {}, ...rows)));
}
