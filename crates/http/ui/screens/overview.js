// The overview: health, throughput and lag; live, and over the last hour.

import { h, fill } from '../lib/h.js';
import { get } from '../lib/api.js';
import { chart } from '../lib/chart.js';
import { badge, count, plural, rate } from '../lib/format.js';
import { onBeat } from '../lib/live.js';
import { href } from '../lib/router.js';
import { head } from '../lib/screen.js';

// The capacity of the server's ring buffer.
const MOST = 3600;

const STORES = { memory: 'Memory', sqlite: 'SQLite', postgres: 'PostgreSQL' };

const CHARTS = [
  { field: 'events_per_second', title: 'Events', unit: 'per second' },
  { field: 'requests_per_second', title: 'Requests to this server', unit: 'per second' },
  { field: 'commits_per_second', title: 'Commits of this process', unit: 'per second', counted: true },
  { field: 'lag', title: 'Lag', unit: 'positions to route', tone: 'warn', show: count },
  { field: 'leased', title: 'Leased', unit: 'items', tone: 'violet', show: count },
  { field: 'blocked', title: 'Blocked', unit: 'items', tone: 'warn', show: count },
];

export async function show({ place, signal }) {
  const stats = h('div', { class: 'cards' });
  const charts = CHARTS.map((given) => ({ ...given, ...chart(given) }));
  const frame = h('div', { class: 'charts' }, charts.map(({ element }) => element));
  const health = h('span', null);
  place.append(...head('Overview', { beside: health, lead: 'The store now, and over the last hour.' }).filter(Boolean),
    stats, frame);

  const overview = await get('overview', {}, { signal });
  const samples = [...(overview.samples ?? [])];
  let latest = { ...overview, ...overview.now };
  if (overview.now) samples.push(overview.now);
  draw();
  onBeat((sample) => {
    latest = { ...latest, ...sample };
    if (samples.at(-1)?.at !== sample.at) samples.push(sample);
    if (samples.length > MOST) samples.shift();
    draw();
  }, signal);

  function draw() {
    fill(health, badge(Number(latest.blocked ?? 0) > 0 ? 'unhealthy' : 'healthy'));
    fill(stats, figures(latest));
    for (const { field, counted, element, draw: drawn } of charts) {
      const points = samples.filter((sample) => sample[field] !== undefined && sample[field] !== null)
        .map((sample) => ({ at: Date.parse(sample.at), value: Number(sample[field]) }));
      drawn(points);
      // Not every server counts commits: without them, the other charts have more room.
      if (counted) {
        element.hidden = points.length === 0;
        frame.classList.toggle('thirds', points.length > 0);
      }
    }
  }
}

function figures(now) {
  const blocked = Number(now.blocked ?? 0);
  return [
    stat('Store', STORES[now.store] ?? now.store, now.version && `Tidelock ${now.version}`),
    stat('Position', count(now.head_position), 'the end of the feed', { to: href(['feed']) }),
    stat('Events', `${rate(now.events_per_second)}/s`, 'appended, all streams'),
    now.commits_per_second != null && stat('Commits', `${rate(now.commits_per_second)}/s`, 'of this process'),
    stat('Lag', count(now.lag), unserved(now), { to: href(['reactions']), tone: Number(now.lag ?? 0) > 0 ? 'warn' : '' }),
    stat('Leased', count(now.leased), 'leased items', { to: href(['leases'], { state: 'held' }) }),
    stat('Blocked', count(now.blocked), blocked > 0 ? 'waiting for an operator' : 'nothing is stuck', { to: href(['leases'], { state: 'blocked' }), tone: blocked > 0 ? 'bad' : 'good' }),
  ];
}

// A reaction that no process routes does not lag: it stands still.
function unserved({ unserved_reactions: many = 0 }) {
  return Number(many) > 0 ? `positions; ${plural(many, 'reaction')} not routed` : 'positions to route, at most';
}

function stat(name, value, more, { to, tone = '' } = {}) {
  return h(to ? 'a' : 'div', { class: `card stat ${tone}`, href: to },
    h('span', { class: 'stat-name' }, name), h('span', { class: 'stat-value' }, value ?? '–'), h('span', { class: 'stat-more' }, more));
}
