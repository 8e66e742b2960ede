// The policies: which is in charge, what was done to them last, and how the one on
// trial compares.

import { $, el } from './dom.js';
import { count, duration, percent } from './format.js';

const mean = (x) => x.toFixed(3);
const signed = (x) => (x > 0 ? '+' : '') + x.toFixed(4);

export function policy({ status, policies }) {
  const list = el('dl');
  const fact = (name, ...value) => list.append(el('dt', {}, name), el('dd', {}, ...value));
  fact('In charge', status.policy, ...(status.policy_doubted ? [' ', el('span', { class: 'badge warn', title: 'Forecasts are off for a large share of the answers: a rule decides' }, 'doubted')] : []));
  if (policies?.objective) fact('Trained for', policies.objective);
  if (status.tuning) fact('Rule search', ...tuning(status.tuning));
  const routed = status.total.requests;
  fact('Decided by a fallback', status.fallbacks ? el('span', { class: 'badge warn' }, `${count(status.fallbacks)}${routed ? `, ${percent(Math.min(1, status.fallbacks / routed))}` : ''}`) : 'none');
  const last = policies?.last_order;
  if (last) fact('Last order', `${last.order} ${last.policy}, ${duration(last.ago_s)} ago`);
  const parts = [el('h3', {}, 'Policy'), list];
  if (policies?.trial) parts.push(...trial(policies.trial));
  $('policy-panel').replaceChildren(...parts);
  $('policy-panel').hidden = false;
}

// tuning is how the search for a rule on simulated load is going, or what it found.
function tuning(t) {
  if (t.state === 'searching') return [`tuning in the background, ${count(t.done)} of ${count(t.total)} points`];
  if (t.state === 'failed') return [el('span', { class: 'badge bad' }, 'failed'), el('div', {}, t.error)];
  if (t.state !== 'done') return ['tuning in the background begins soon'];
  const found = el('div', {}, t.adopted ? `${t.rule} is the fallback now; over ${t.over}:` : `${t.over} stays the fallback; ${t.rule} over it:`);
  return [found, verdict({ difference: t.margin, low: t.margin_low, high: t.margin_high })];
}

// trial is how the one on trial fares, by what it would have chosen and, as a
// canary, by what its requests have earned.
function trial(t) {
  const list = el('dl');
  const fact = (name, ...value) => list.append(el('dt', {}, name), el('dd', {}, ...value));
  fact('Policy', t.policy);
  if (t.objective) fact('Trained for', t.objective);
  fact('Routes', t.share ? `${percent(t.share)} of requests` : 'none');
  fact('For', duration(t.age_s));
  fact('Agrees', t.compared ? `${percent(t.agreement)} of ${count(t.compared)}` : 'nothing compared yet');
  if (t.expected?.requests) fact('Utility, forecast', `${mean(t.expected.trial)} beside ${mean(t.expected.in_charge)}`, verdict(t.expected));
  const m = t.measured;
  if (t.share && m?.trial.requests) fact('Utility, measured', `${mean(m.trial.utility)} beside ${mean(m.in_charge.utility)}`, verdict(m));
  const faults = Object.entries(t.faults ?? {});
  if (faults.length) fact('No answer', ...faults.map(([why, n]) => el('div', {}, `${count(n)}: ${why}`)));
  return [el('h3', { class: 'more' }, t.share ? 'Canary' : 'Shadow'), list];
}

// verdict is the difference with its 95 % interval.
function verdict({ difference, low, high }) {
  const kind = low > 0 ? 'good' : high < 0 ? 'bad' : '';
  return el('div', {}, el('span', { class: `badge ${kind}`, title: `95 % interval: ${signed(low)} to ${signed(high)}` }, `${signed(difference)}${kind ? '' : ', undecided'}`));
}
