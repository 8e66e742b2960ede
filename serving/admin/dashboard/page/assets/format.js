// Numbers and times as people read them.

// number has three significant digits, and no more decimals than it needs.
export function number(x) {
  const size = Math.abs(x);
  if (size < 0.005) return '0';
  if (size >= 1e6) return (x / 1e6).toFixed(size >= 1e7 ? 0 : 1) + ' M';
  if (size >= 1e4) return (x / 1e3).toFixed(size >= 1e5 ? 0 : 1) + ' k';
  if (size >= 100) return x.toFixed(0);
  if (size >= 10) return x.toFixed(1);
  return x.toFixed(2);
}

export const count = (n) => (n >= 1e6 ? number(n) : Math.round(n).toLocaleString('en'));

export const percent = (share) => (100 * share).toFixed(share >= 0.9995 || share === 0 ? 0 : 1) + ' %';

export function ms(x) {
  if (x === undefined || x === null) return '–';
  if (x >= 60000) return duration(x / 1000);
  if (x >= 1000) return (x / 1000).toFixed(2) + ' s';
  return (x >= 100 ? x.toFixed(0) : x.toFixed(1)) + ' ms';
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 ? ` ${s % 60} s` : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor((s % 86400) / 3600) + ' h';
}

const pad = (n) => String(n).padStart(2, '0');

export function clock(unixMS) {
  const t = new Date(unixMS);
  return `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;
}

// plural counts things: plural(1, 'request') is "1 request".
export const plural = (n, thing) => `${count(n)} ${thing}${n === 1 ? '' : 's'}`;
