// What an operator can order about a replica, and the buttons for it.

import { el } from './dom.js';

// What engines of each dialect can do, beside draining.
const ABLE = {
  triton: ['load', 'unload'], ollama: ['load', 'unload'], vllm: ['sleep', 'wake'], gearshift: ['load', 'unload', 'sleep', 'wake'],
};
const WHERE = { load: ['cold'], unload: ['up', 'draining', 'warm'], sleep: ['up', 'draining'], wake: ['warm'] };
const LABEL = { load: 'Load', unload: 'Unload', sleep: 'Sleep', wake: 'Wake', drain: 'Drain', undrain: 'Undrain' };

// possible are the orders that make sense for a replica as it is.
export function possible(r) {
  const { state, dialect, doing } = r.lifecycle ?? {};
  const able = doing ? [] : (ABLE[dialect] ?? []).filter((verb) => WHERE[verb].includes(state));
  return [...able, r.drained ? 'undrain' : 'drain'];
}

// Orders are the buttons of a replica, shown on demand.
export class Orders {
  // send(replica, verb) resolves to what went wrong, or to nothing.
  constructor(replica, send) {
    this.replica = replica;
    this.send = send;
    this.buttons = el('span');
    this.fault = el('span', { class: 'fault', role: 'status' });
    this.root = el('div', { class: 'orders', hidden: true }, this.buttons, this.fault);
    this.toggle = el('button', {
      type: 'button', class: 'quiet', 'aria-expanded': 'false', 'aria-label': `Orders for ${replica}`,
      click: () => {
        this.root.hidden = !this.root.hidden;
        this.toggle.setAttribute('aria-expanded', String(!this.root.hidden));
      },
    }, '⋯');
  }

  update(r) {
    const verbs = possible(r);
    if (this.shown === verbs.join()) return;
    this.shown = verbs.join();
    this.buttons.replaceChildren(...verbs.map((verb) => el('button', { type: 'button', class: 'quiet', click: () => this.order(verb) }, LABEL[verb])));
  }

  async order(verb) {
    for (const b of this.buttons.children) b.disabled = true;
    this.fault.textContent = '';
    const fault = await this.send(this.replica, verb);
    this.fault.textContent = fault ?? '';
    this.shown = null; // the next status has the buttons anew
  }
}
