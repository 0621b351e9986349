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
    empty: { title: 'No scope of this kind', hint: 'In-memory scopes are not in the store, and not listed.' },
  });
  place.append(...head('Scopes', { lead: 'State documents with concurrent writers.' }).filter(Boolean),
    filters([searchField('kind', 'Kind', asked.kind)], (values) => { asked = values; table.restart(); }), table.element);
}

const COLUMNS = [
  { title: 'Id', kind: 'wrap', cell: (row) => link(['scopes', row.kind, row.id], row.id) },
  { title: 'Kind', kind: 'tight', cell: (row) => h('span', { class: 'name' }, row.kind) },
  { title: 'Revision', kind: 'num', cell: (row) => count(row.revision) },
  { title: 'Expires', kind: 'time', cell: (row) => (row.expires_at ? until(row.expires_at) : '–') },
  { title: 'State', kind: 'wide', cell: (row) => h('span', { class: 'clip name muted' }, inline(row.state)) },
];
