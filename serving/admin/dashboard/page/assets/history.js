// The last minutes, as the router counted them second by second.

export class History {
  constructor() {
    this.seconds = new Map();
  }

  add(seconds, now, kept) {
    for (const s of seconds) this.seconds.set(s.at, s);
    for (const at of this.seconds.keys()) if (at <= now - kept) this.seconds.delete(at);
  }

  // sum adds up the seconds of [from, to).
  sum(from, to, variants) {
    const total = { at: from, chosen: new Array(variants).fill(0), met: 0, missed: 0, failed: 0, rejected: 0, utility: 0 };
    for (let at = from; at < to; at++) {
      const s = this.seconds.get(at);
      if (!s) continue;
      s.chosen.forEach((n, i) => { total.chosen[i] += n; });
      for (const key of ['met', 'missed', 'failed', 'rejected', 'utility']) total[key] += s[key];
    }
    total.routed = total.chosen.reduce((a, b) => a + b, 0);
    total.judged = total.met + total.missed;
    return total;
  }

  // columns are so many sums of equal length up to the last whole one.
  columns(now, window, n, variants) {
    const step = window / n;
    const end = Math.floor(now / step) * step;
    return Array.from({ length: n }, (_, i) => {
      const from = end - window + i * step;
      return { ...this.sum(from, from + step, variants), step };
    });
  }
}
