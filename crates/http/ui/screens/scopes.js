// Scopes: state documents by kind and id.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { until } from '../lib/clock.js';
import { inline } from '../lib/exact.js';
import { count, link } from '../lib/format.js';
import { filters, head, list, searchField } from '../lib/screen.js';

export function show({ place, query, signal }) {
  let asked = { kind: query.kind ?? '' };
  const table = list({
    label: 'Scopes', noun: 'scope', signal, key: (row) => `${row.kind}\n${row.id}`, columns: COLUMNS,
    load: (after) => get('scopes', { ...asked, after, limit: 50 }, { signal }),
    empty: { title: 'No scope of this kind', hint: 'A scope that is kept in memory only is not in the store, and not here.' },
  });
  place.append(...head('Scopes', { lead: 'State documents that many callers change at once.' }).filter(Boolean),
    filters([searchField('kind', 'Kind', asked.kind)], (values) => { asked = values; table.restart(); }), table.element);
}

const COLUMNS = [
  { title: 'Id', kind: 'wrap', cell: (row) => link(['scopes', row.kind, row.id], row.id) },
  { title: 'Kind', kind: 'tight', cell: (row) => h('span', { class: 'name' }, row.kind) },
  { title: 'Revision', kind: 'num', cell: (row) => count(row.revision) },
  { title: 'Goes away', kind: 'time', cell: (row) => (row.expires_at ? until(row.expires_at) : '–') },
  { title: 'State', kind: 'wide', cell: (row) => h('span', { class: 'clip name muted' }, inline(row.state)) },
];
