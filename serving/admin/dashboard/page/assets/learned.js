// The values that the router runs by and no file declares, with where each comes from.

import { $, el, table } from './dom.js';

let drawn = '';

export function learned({ learned: now }) {
  $('learned').hidden = !now;
  const is = JSON.stringify(now ?? null);
  if (!now || is === drawn) return;
  drawn = is;
  $('learned-panel').replaceChildren(...table('Values', ['Value', 'Is', 'From'], now.values.map((v) => el('tr', {},
    el('th', { scope: 'row' }, v.what), el('td', {}, v.value), el('td', { class: v.from.startsWith('guess') ? 'warn' : '' }, v.from)))));
}
