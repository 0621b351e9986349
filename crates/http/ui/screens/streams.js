// Streams by name, with their version and last event.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { since } from '../lib/clock.js';
import { badge, count, streamLink } from '../lib/format.js';
import { filters, head, list, searchField } from '../lib/screen.js';

export function show({ place, query, signal }) {
  let prefix = query.prefix ?? '';
  const table = list({
    label: 'Streams', noun: 'stream', signal, key: (row) => row.name, columns: COLUMNS,
    load: (after) => get('streams', { prefix, after, limit: 50 }, { signal }),
    empty: { title: 'No such stream', hint: 'A stream exists from its first event on. Reserved names begin with ~.' },
  });
  const search = searchField('prefix', 'Streams that begin with…', prefix);
  place.append(...head('Streams', { lead: 'Every stream by name, with its version and its last event.' }).filter(Boolean),
    filters([search], (values) => { prefix = values.prefix ?? ''; table.restart(); }), table.element);
}

const COLUMNS = [
  { title: 'Stream', kind: 'wrap', cell: (row) => streamLink(row.name) },
  { title: 'State', kind: 'tight', cell: (row) => badge(row.closed ? 'closed' : 'open') },
  { title: 'Version', kind: 'num', cell: (row) => count(row.version) },
  { title: 'Events', kind: 'num', cell: (row) => count(row.events) },
  { title: 'Last event', cell: (row) => h('span', { class: 'name' }, row.last_type ?? '–') },
  { title: 'When', kind: 'time', cell: (row) => since(row.last_at) },
];
