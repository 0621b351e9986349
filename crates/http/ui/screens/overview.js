// The overview: is it well, how much happens, how far behind is anything; live, and over the last hour.

import { h, fill } from '../lib/h.js';
import { get } from '../lib/api.js';
import { chart } from '../lib/chart.js';
import { badge, count, rate } from '../lib/format.js';
import { onBeat } from '../lib/live.js';
import { href } from '../lib/router.js';
import { head } from '../lib/screen.js';

// What the ring of the server holds, and no more is kept here.
const MOST = 3600;

const STORES = { memory: 'Memory', sqlite: 'SQLite', postgres: 'PostgreSQL' };

const CHARTS = [
  { field: 'events_per_second', title: 'Events', unit: 'per second' },
  { field: 'requests_per_second', title: 'Requests to this server', unit: 'per second' },
  { field: 'lag', title: 'Lag', unit: 'events to route', tone: 'warn', show: count },
  { field: 'leased', title: 'Leased', unit: 'items', tone: 'violet', show: count },
  { field: 'blocked', title: 'Blocked', unit: 'items', tone: 'warn', show: count },
];

export async function show({ place, signal }) {
  const stats = h('div', { class: 'cards' });
  const charts = CHARTS.map((given) => ({ ...given, ...chart(given) }));
  const health = h('span', null);
  place.append(...head('Overview', { beside: health, lead: 'What happens in this store now, and what happened in the last hour.' }).filter(Boolean),
    stats, h('div', { class: 'charts' }, charts.map(({ element }) => element)));

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
    fill(health, badge(Number(latest.blocked ?? 0) > 0 ? 'sick' : 'healthy'));
    fill(stats, figures(latest));
    for (const { field, draw: drawn } of charts) {
      drawn(samples.filter((sample) => sample[field] !== undefined && sample[field] !== null)
        .map((sample) => ({ at: Date.parse(sample.at), value: Number(sample[field]) })));
    }
  }
}

function figures(now) {
  const blocked = Number(now.blocked ?? 0);
  return [
    stat('Store', STORES[now.store] ?? now.store, now.version && `Tidelock ${now.version}`),
    stat('Position', count(now.head_position), 'the end of the feed', { to: href(['feed']) }),
    stat('Events', `${rate(now.events_per_second)}/s`, 'appended, all streams'),
    stat('Lag', count(now.lag), 'events to route, at most', { to: href(['reactions']), tone: Number(now.lag ?? 0) > 0 ? 'warn' : '' }),
    stat('Leased', count(now.leased), 'items that somebody is at', { to: href(['leases'], { state: 'held' }) }),
    stat('Blocked', count(now.blocked), blocked > 0 ? 'waiting for a person' : 'nothing is stuck', { to: href(['leases'], { state: 'blocked' }), tone: blocked > 0 ? 'bad' : 'good' }),
  ];
}

function stat(name, value, more, { to, tone = '' } = {}) {
  return h(to ? 'a' : 'div', { class: `card stat ${tone}`, href: to },
    h('span', { class: 'stat-name' }, name), h('span', { class: 'stat-value' }, value ?? '–'), h('span', { class: 'stat-more' }, more));
}
