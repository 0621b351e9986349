// Times: relative, absolute, and updated every second.
//
// The server's clock counts, not this machine's: the offset between them is measured and applied.

import { h } from './h.js';

let ahead = 0;

/** Updates the clock offset from the date of a response. */
export function heard(date) {
  const there = Date.parse(date ?? '');
  if (Number.isNaN(there)) return;
  const difference = there - Date.now();
  // The header has a resolution of a second: smaller differences mean nothing.
  ahead = Math.abs(difference) > 1500 ? difference : 0;
}

/** Now, by the server's clock. */
export function now() { return Date.now() + ahead; }

/** "3 min ago", with the absolute time as its title. */
export function since(moment) { return shown(moment, 'since'); }

/** "in 12 s", "12 s over". */
export function until(moment) { return shown(moment, 'until'); }

/** The time of day to the millisecond, and the date if that is not today's. */
export function clockTime(moment) { return shown(moment, 'clock'); }

/** A duration, in at most two units. */
export function length(ms) {
  const size = Math.abs(ms);
  if (size < 1) return '0 ms';
  if (size < 1000) return `${Math.round(size)} ms`;
  if (size < 60_000) return `${size < 10_000 ? (size / 1000).toFixed(1) : Math.floor(size / 1000)} s`;
  return largest(Math.floor(size / 1000));
}

function largest(seconds) {
  const units = [[86_400, 'd'], [3_600, 'h'], [60, 'min'], [1, 's']];
  const first = units.findIndex(([unit]) => seconds >= unit);
  const [[big, name], next] = [units[first], units[first + 1]];
  const rest = next ? Math.floor((seconds % big) / next[0]) : 0;
  return `${Math.floor(seconds / big)} ${name}${rest > 0 ? ` ${rest} ${next[1]}` : ''}`;
}

function shown(moment, how) {
  if (!moment) return h('span', { class: 'faint' }, '–');
  const element = h('time', { datetime: moment, title: moment, 'data-shown': how });
  element.textContent = text(moment, how);
  return element;
}

function text(moment, how) {
  const then = Date.parse(moment);
  if (Number.isNaN(then)) return String(moment);
  if (how === 'clock') return timeOfDay(new Date(then));
  const left = then - now();
  if (how === 'since') return left > -1000 ? 'just now' : `${coarse(left)} ago`;
  return left >= 0 ? `in ${coarse(left)}` : `${coarse(left)} over`;
}

function coarse(ms) { return largest(Math.max(1, Math.floor(Math.abs(ms) / 1000))); }

function timeOfDay(date) {
  const two = (n) => String(n).padStart(2, '0');
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
  const today = date.toDateString() === new Date(now()).toDateString();
  return today ? time : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/** Updates all relative times. Only changed texts are written. */
export function begin() {
  setInterval(() => {
    for (const element of document.querySelectorAll('time[data-shown]')) {
      const next = text(element.dateTime, element.dataset.shown);
      if (element.textContent !== next) element.textContent = next;
      if (element.dataset.shown === 'until') element.classList.toggle('over', Date.parse(element.dateTime) < now());
    }
  }, 1000);
}
