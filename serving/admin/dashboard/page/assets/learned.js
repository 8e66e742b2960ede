// The values that the router uses and no file declares, with the source of each.

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
