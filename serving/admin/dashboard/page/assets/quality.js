// The quality predicted from prompts: what predicts, how sure and how true it is, and which sizes the
// prompts get that gain much or little by the best one.

import { $, el, swatch, table, text } from './dom.js';
import { count, percent, plural } from './format.js';

const mean = (x) => x.toFixed(3);

// off is by how much scores differ from what was predicted, in the mean over the scored answers; before there
// are any, what the fit found on prompts that it had not seen.
function off(t, evaluation) {
  if (t.scores) return t.calibration.reduce((sum, s) => sum + s.answers * Math.abs(s.predicted - s.score), 0) / t.scores;
  const known = (evaluation?.columns ?? []).map((c) => c.calibration_error).filter((x) => typeof x === 'number');
  return known.length ? known.reduce((a, b) => a + b) / known.length : null;
}

function row(t, d) {
  const by = off(t, d.evaluation);
  return el('tr', {}, el('th', { scope: 'row' }, t.task), el('td', { class: 'num' }, count(t.requests)), el('td', { class: 'num' }, percent(t.sure)),
    el('td', { class: 'num' }, `${mean(t.predicted)} of ${mean(t.best)}`), el('td', { class: 'num' }, t.scores ? `${mean(t.score)}, ${plural(t.scores, 'answer')}` : '–'),
    el('td', { class: 'num' }, by === null ? '–' : `±${mean(by)}${t.scores ? '' : ', by the fit'}`));
}

// names say what a range of gains is.
const names = (gains, i) => `${gains[i].gain}, ${i + 1 < gains.length ? `${gains[i].from} to ${gains[i + 1].from}` : `${gains[i].from} and more`}`;

function shares(t, variants) {
  return t.gains.map((g, i) => el('tr', {}, el('th', { scope: 'row' }, i ? '' : t.task), el('td', {}, names(t.gains, i)), el('td', { class: 'num' }, count(g.requests)),
    el('td', {}, ...(g.requests ? Object.entries(g.shares).flatMap(([name, x]) => [swatch(variants.indexOf(name)), ` ${name} ${percent(x)} `]) : ['–']))));
}

function predictor(d, variants) {
  const tasks = d.tasks.filter((t) => t.requests);
  const title = `${d.predictor}, ${d.state.replace('_', ' ')}`;
  if (!tasks.length) return [el('h3', {}, title), el('div', { class: 'empty' }, 'It has predicted nothing yet.')];
  const parts = table(title, ['Task', 'Requests', 'Sure', 'Predicted, of the best', 'Scored', 'Off by'], tasks.map((t) => row(t, d)), [1, 2, 3, 4, 5]);
  if (d.state === 'shadow') return parts;
  return parts.concat(table('Sizes by what the best one is predicted to gain', ['Task', 'Gain', 'Requests', 'Sizes'], tasks.flatMap((t) => shares(t, variants)), [2]));
}

function examples(list) {
  return table('Prompts that were given another size than the best', ['Prompt', 'Task', 'Size', 'Loses', 'Sure'], [...list].reverse().map((e) => el('tr', {},
    el('td', {}, e.prompt), el('td', {}, e.task), el('td', {}, e.variant), el('td', { class: 'num' }, mean(e.loss)), el('td', { class: 'num' }, percent(e.sure)))), [3, 4]);
}

let drawn = '';

export function quality({ quality: now, variants }) {
  const shown = Boolean(now) && Boolean(now.in_charge || now.trial || now.fault);
  $('quality').hidden = !shown;
  const is = JSON.stringify(now ?? null);
  if (!shown || is === drawn) return;
  drawn = is;
  text($('quality-note'), now.fault ? `The predictor that is wanted does not predict: ${now.fault}` : now.trial?.share ? `The one on trial predicts for ${percent(now.trial.share)} of the requests` : '');
  $('quality-note').className = now.fault ? 'warn' : 'muted';
  $('quality-panel').replaceChildren(...[now.in_charge, now.trial].filter(Boolean).flatMap((d) => predictor(d, variants)), ...(now.examples ? examples(now.examples) : []));
}
