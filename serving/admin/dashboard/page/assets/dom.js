// Elements, made and kept up to date without markup in strings: whatever text a
// client sent stays text.

export const $ = (id) => document.getElementById(id);

// el makes an element. Attributes that are functions listen, null ones are left out.
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  set(node, attributes);
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  set(node, attributes);
  node.append(...children);
  return node;
}

function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(key, value);
    else node.setAttribute(key, value === true ? '' : value);
  }
}

// text and attr touch the page only if something changes.
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

export function attr(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

// table has a title, a head and rows. On narrow screens its rows become cards, in which each cell is labelled.
export function table(title, head, rows, numbers = []) {
  for (const row of rows) {
    [...row.children].forEach((cell, i) => {
      if (i > 0 && head[i]) cell.dataset.label = head[i];
    });
  }
  return [el('h3', {}, title), el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title },
    el('table', { class: 'cards' }, el('caption', { class: 'unseen' }, title),
      el('thead', {}, el('tr', {}, ...head.map((h, i) => (h ? el('th', { scope: 'col', class: numbers.includes(i) ? 'num' : null }, h) : el('td'))))), el('tbody', {}, ...rows)))];
}

// order is a button that gives an order, with what went wrong next to it. Give resolves to that, or to nothing.
export function order(label, give) {
  const fault = el('span', { class: 'fault', role: 'status' });
  const button = el('button', {
    type: 'button', class: 'quiet',
    async click() {
      button.disabled = true;
      text(fault, '');
      text(fault, (await give()) ?? '');
      button.disabled = false;
    },
  }, label);
  return el('span', { class: 'order' }, button, fault);
}

// colour is that of the variant of an index.
export const colour = (index) => `var(--v${Math.max(0, Math.min(index, 5))})`;

export function swatch(index) {
  const s = el('span', { class: 'swatch', 'aria-hidden': 'true' });
  s.style.setProperty('--c', colour(index));
  return s;
}

// choice fills a group with buttons of which one is pressed.
export function choice(group, options, chosen, onChoose) {
  const buttons = options.map(([value, label]) => el('button', {
    type: 'button', 'aria-pressed': String(value === chosen),
    click() {
      for (const b of buttons) b.setAttribute('aria-pressed', String(b === this));
      onChoose(value);
    },
  }, label));
  group.replaceChildren(...buttons);
}
