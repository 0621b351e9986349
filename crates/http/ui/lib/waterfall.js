// A waterfall: rows with bars on a time axis, for correlations and for the timeline of a run.

import { h, s } from './h.js';
import { length } from './clock.js';

const [WIDTH, HEIGHT, LEAST] = [1000, 20, 6];

/**
 * `rows`: [{ what, where, depth, from, to?, tone, ticks?, beside?, href? }], with times in milliseconds. What has no end goes on.
 */
export function waterfall(rows, { label, now }) {
  const first = Math.min(...rows.map((row) => row.from));
  const last = Math.max(...rows.map((row) => row.to ?? now), first + 1);
  const x = (time) => ((time - first) / (last - first)) * (WIDTH - LEAST);
  return h('ol', { class: 'fall', 'aria-label': label }, rows.map((row) => h('li', null, line(row, x, first, now))));
}

function line(row, x, first, now) {
  const end = row.to ?? now;
  const width = Math.max(LEAST, x(end) - x(row.from));
  const lasted = row.moment ? `+${length(row.from - first)}` : row.to === null ? `${length(now - row.from)} …` : length(end - row.from);
  return h(row.href ? 'a' : 'div', { class: 'fall-row', href: row.href },
    h('span', { class: 'fall-name' }, rails(row.depth ?? 0), h('span', { class: 'fall-label' }, h('span', { class: 'fall-what' }, row.what), ' ', row.beside, row.where && h('span', { class: 'fall-where' }, row.where))),
    s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      s('line', { class: 'track', x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
      s('rect', { class: `span ${row.tone ?? ''}`, x: x(row.from), width, y: 4, height: HEIGHT - 8, rx: 2 }),
      (row.ticks ?? []).map((tick) => s('rect', { class: 'tick', x: x(tick), width: 4, y: 1, height: HEIGHT - 2 }))),
    h('span', { class: 'fall-time' }, lasted));
}

function rails(depth) {
  return Array.from({ length: Math.min(depth, 8) }, (_, index) => h('span', { class: `rail${index === Math.min(depth, 8) - 1 ? ' last' : ''}` }));
}
