// Reactions: routing progress, router, and blocked targets.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { until } from '../lib/clock.js';
import { badge, count, errorText, link } from '../lib/format.js';
import { head, list } from '../lib/screen.js';
import { rerouting } from './reaction.js';

export function show({ place, signal }) {
  const table = list({
    label: 'Reactions', noun: 'reaction', signal, key: (row) => row.reaction, columns: columns(() => table.refresh()),
    load: () => get('reactions', {}, { signal }),
    empty: { title: 'No reaction was ever registered', hint: 'A reaction is listed once an application has registered it on this store.' },
  });
  place.append(...head('Reactions', { lead: 'Handlers of events, in order per target.' }).filter(Boolean), table.element);
}

export function state(route) {
  if (route.blocked) return 'blocked';
  return route.lag === null ? 'not routed' : 'routing';
}

const columns = (then) => [
  { title: 'Reaction', kind: 'wrap main-cell', cell: (row) => [link(['reactions', row.reaction], row.reaction), errorText(row.error)] },
  { title: 'State', kind: 'tight', cell: (row) => badge(state(row)) },
  { title: 'Blocked targets', kind: 'num', cell: (row) => (Number(row.blocked_targets) > 0 ? h('span', { class: 'bad-number' }, count(row.blocked_targets)) : '0') },
  { title: 'Follows', cell: (row) => h('span', { class: 'name' }, row.streams === '' ? 'every stream' : row.streams) },
  { title: 'Routed to', kind: 'num', cell: (row) => count(row.position) },
  { title: 'Lag', kind: 'num', cell: (row) => count(row.lag) },
  { title: 'Routed by', kind: 'who', cell: (row) => row.holder?.worker ?? '–' },
  { title: 'Lease', kind: 'time', cell: (row) => (row.holder ? until(row.holder.until) : '–') },
  { title: '', kind: 'tight', cell: (row) => row.blocked && h('div', { class: 'row-actions' }, rerouting(row.reaction, then, 'small')) },
];
