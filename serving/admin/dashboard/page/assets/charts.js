// Charts of the last minutes: stacked columns, and lines over an area.

import { attr, el, svg, swatch, text } from './dom.js';
import { clock } from './format.js';

const MARGIN = { left: 38, right: 2, top: 6, bottom: 18 };

// nice is the least of 1, 2, 2.5 or 5 times a power of ten that is not below x.
export function nice(x) {
  if (!(x > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(x));
  for (const m of [1, 2, 2.5, 5]) if (m * unit >= x * 0.999) return m * unit;
  return 10 * unit;
}

const tick = (x) => String(+x.toPrecision(3));

// Chart draws columns of numbers in a figure. The options: title; series, each
// with a name, a colour's index and the value of a column; stacked; top, the least
// upper end of the scale; ticks, their labels; legend, what stands beside a name.
export class Chart {
  constructor(figure, options) {
    Object.assign(this, options);
    this.at = null; // the column under the cursor
    this.when = el('span', { class: 'when' });
    this.legend = el('div', { class: 'legend' });
    this.canvas = svg('svg', { 'aria-hidden': 'true', focusable: 'false' });
    this.plot = el('div', {
      class: 'plot', tabindex: '0', role: 'img',
      pointermove: (e) => this.point(e), pointerdown: (e) => this.point(e),
      pointerleave: () => this.move(null), blur: () => this.move(null), keydown: (e) => this.key(e),
    }, this.canvas);
    figure.replaceChildren(el('figcaption', { class: 'chart-head' }, el('h3', {}, this.title), this.when), this.legend, this.plot);
    this.values = this.series.map((s) => {
      const value = el('b');
      this.legend.append(el('span', {}, this.series.length > 1 ? swatch(s.index) : null, s.name ? s.name + ' ' : null, value));
      return value;
    });
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  point(e) {
    const box = this.plot.getBoundingClientRect();
    const x = (e.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    this.move(Math.max(0, Math.min(this.columns.length - 1, Math.floor(x * this.columns.length))));
  }

  key(e) {
    const last = this.columns.length - 1;
    const to = { ArrowLeft: (this.at ?? last + 1) - 1, ArrowRight: (this.at ?? last - 1) + 1, Home: 0, End: last, Escape: null }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    this.move(to === null ? null : Math.max(0, Math.min(last, to)));
    if (to !== null) this.speak(this.summary());
  }

  move(at) {
    if (at === this.at || !this.columns) return;
    this.at = at;
    this.draw();
  }

  update(columns) {
    this.columns = columns;
    this.draw();
  }

  summary() {
    const c = this.columns[this.at ?? this.columns.length - 1];
    return `${this.title}, ${clock(1000 * c.at)}: ` + this.series.map((s) => `${s.name ?? ''} ${this.label(s.value(c))}`).join(', ');
  }

  draw() {
    const { columns, series } = this;
    const box = this.plot.getBoundingClientRect();
    if (!columns || !box.width) return;
    const shown = columns[this.at ?? columns.length - 1];
    text(this.when, this.at === null ? 'now' : clock(1000 * shown.at));
    series.forEach((s, i) => text(this.values[i], this.label(s.value(shown))));
    attr(this.plot, 'aria-label', `${this.summary()}. Arrow keys move through time.`);

    const width = box.width, height = box.height;
    const inner = { x: MARGIN.left, y: MARGIN.top, w: width - MARGIN.left - MARGIN.right, h: height - MARGIN.top - MARGIN.bottom };
    const tops = columns.map((c) => series.map((s) => s.value(c) ?? 0).reduce(this.stacked ? (a, b) => a + b : Math.max, 0));
    const most = this.fixed ?? nice(Math.max(this.top ?? 0, ...tops));
    const y = (v) => inner.y + inner.h * (1 - v / most);
    const parts = [];
    for (const share of height > 150 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]) {
      const at = Math.round(y(share * most)) + 0.5;
      parts.push(svg('line', { class: 'gridline', x1: inner.x, x2: width - MARGIN.right, y1: at, y2: at }));
      parts.push(svg('text', { x: inner.x - 8, y: at + 3.5, 'text-anchor': 'end' }, (this.tick ?? tick)(share * most)));
    }
    const window = columns.length * columns[0].step;
    for (const [share, anchor] of [[0, 'start'], [0.5, 'middle'], [1, 'end']]) {
      const ago = window * (1 - share);
      const label = ago === 0 ? 'now' : ago < 120 ? `${Math.round(ago)} s ago` : `${+(ago / 60).toFixed(1)} min ago`;
      parts.push(svg('text', { x: inner.x + share * inner.w, y: height - 3, 'text-anchor': anchor }, label));
    }
    parts.push(...(this.stacked ? this.bars(inner, y) : this.lines(inner, y)));
    if (this.at !== null) {
      const x = inner.x + ((this.at + 0.5) / columns.length) * inner.w;
      parts.push(svg('line', { class: 'cursor', x1: x, x2: x, y1: inner.y, y2: inner.y + inner.h }));
    }
    this.canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.canvas.replaceChildren(...parts);
  }

  bars(inner, y) {
    const slot = inner.w / this.columns.length;
    const gap = Math.min(2, slot / 4);
    const parts = [];
    this.columns.forEach((c, i) => {
      let base = 0;
      for (const s of this.series) {
        const v = s.value(c);
        if (!v) continue;
        const bar = svg('rect', { x: inner.x + i * slot + gap / 2, width: slot - gap, y: y(base + v), height: Math.max(0.75, y(base) - y(base + v)), rx: Math.min(1.5, slot / 4) });
        bar.style.fill = `var(--v${Math.min(s.index, 5)})`;
        parts.push(bar);
        base += v;
      }
    });
    return parts;
  }

  // lines break where there is no value.
  lines(inner, y) {
    const x = (i) => inner.x + ((i + 0.5) / this.columns.length) * inner.w;
    const parts = [];
    for (const s of this.series) {
      let run = [];
      const flush = () => {
        if (run.length) {
          const path = run.map(([i, v], k) => `${k ? 'L' : 'M'}${x(i).toFixed(1)},${y(v).toFixed(1)}`).join('');
          const [first, last] = [run[0][0], run.at(-1)[0]];
          const area = svg('path', { class: 'area', d: `${path}L${x(last)},${y(0)}L${x(first)},${y(0)}Z` });
          const line = svg('path', { class: 'line', d: run.length > 1 ? path : `${path}h.1` });
          for (const p of [area, line]) p.style.setProperty('--c', s.colour);
          parts.push(area, line);
        }
        run = [];
      };
      this.columns.forEach((c, i) => {
        const v = s.value(c);
        if (v === null) flush();
        else run.push([i, v]);
      });
      flush();
    }
    return parts;
  }
}
