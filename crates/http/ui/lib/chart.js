// A line chart over time, with the value at the pointer. Plain SVG.

import { h, s, fill } from './h.js';
import { rate } from './format.js';

const [WIDTH, HEIGHT, TOP] = [600, 120, 8];

/** A chart with a title. `draw([{ at, value }])` redraws it. */
export function chart({ title, unit, tone = 'accent', show = rate }) {
  const now = h('span', { class: 'chart-now' }, '–');
  const moment = h('span', { class: 'chart-moment' }, unit);
  const picture = s('svg', { class: `chart ${tone}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: nothing yet` });
  const [top, from] = [h('span', null, ''), h('span', null, '')];
  const frame = h('div', { class: 'chart-frame' }, picture, h('div', { class: 'chart-scale', 'aria-hidden': 'true' }, top, h('span', null, '0')));
  const element = h('figure', { class: 'card chart-card' },
    h('figcaption', { class: 'chart-head' }, h('span', { class: 'chart-title' }, title), h('span', { class: 'chart-value' }, now, ' ', moment)),
    frame, h('div', { class: 'chart-time', 'aria-hidden': 'true' }, from, h('span', null, 'now')));
  let points = [];
  let scaled = null;

  function draw(fresh) {
    points = fresh;
    scaled = scale(points);
    const last = points.at(-1);
    fill(picture, grid(), points.length > 1 && [area(scaled.points), line(scaled.points)]);
    top.textContent = show(scaled.most);
    from.textContent = points.length > 1 ? ago(points[0].at, last.at) : '';
    tell(last);
    picture.setAttribute('aria-label', last ? `${title}: now ${show(last.value)} ${unit}, at most ${show(scaled.peak)}` : `${title}: nothing yet`);
  }

  function tell(point, when) {
    now.textContent = point ? show(point.value) : '–';
    moment.textContent = when ? `${unit} at ${when}` : unit;
  }

  picture.addEventListener('pointermove', (event) => {
    if (points.length < 2) return;
    const box = picture.getBoundingClientRect();
    const wanted = ((event.clientX - box.left) / box.width) * WIDTH;
    const nearest = scaled.points.reduce((best, [x], index) => (Math.abs(x - wanted) < Math.abs(scaled.points[best][0] - wanted) ? index : best), 0);
    const [point, x] = [points[nearest], scaled.points[nearest][0]];
    picture.querySelector('.cross')?.remove();
    picture.append(s('line', { class: 'cross', x1: x, x2: x, y1: 0, y2: HEIGHT }));
    tell(point, new Date(point.at).toLocaleTimeString());
  });
  picture.addEventListener('pointerleave', () => { picture.querySelector('.cross')?.remove(); tell(points.at(-1)); });
  return { element, draw };
}

function scale(points) {
  const peak = Math.max(0, ...points.map((point) => Number(point.value)));
  const most = round(peak);
  const [from, to] = [points[0]?.at ?? 0, points.at(-1)?.at ?? 1];
  const x = (at) => (WIDTH * (at - from)) / Math.max(1, to - from);
  const y = (value) => TOP + (HEIGHT - TOP) * (1 - Number(value) / most);
  return { peak, most, points: points.map((point) => [x(point.at), y(point.value)]) };
}

// The next round number.
function round(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * size).find((step) => step >= value);
}

function grid() {
  return [0, 0.5, 1].map((part) => {
    const y = TOP + (HEIGHT - TOP - 1) * part;
    return s('line', { class: 'grid', x1: 0, x2: WIDTH, y1: y, y2: y });
  });
}

const path = (points) => points.map(([x, y], index) => `${index === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
const line = (points) => s('path', { class: 'line', d: path(points) });
const area = (points) => s('path', { class: 'area', d: `${path(points)}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z` });

function ago(from, to) {
  const minutes = Math.round((to - from) / 60_000);
  return minutes > 0 ? `${minutes} min ago` : `${Math.round((to - from) / 1000)} s ago`;
}
