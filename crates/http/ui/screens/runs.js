// Runs, newest first.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { since } from '../lib/clock.js';
import { choice } from '../lib/dialog.js';
import { badge, runLink } from '../lib/format.js';
import { filters, head, list, searchField } from '../lib/screen.js';

const STATES = ['open', 'completed', 'failed', 'cancelled', 'terminated'];

export function show({ place, query, signal }) {
  let asked = { state: '', workflow: '', ...query };
  const table = list({
    label: 'Runs', noun: 'run', signal, key: (row) => row.id, columns: COLUMNS,
    load: (after) => get('runs', { ...asked, after, limit: 50 }, { signal }),
    empty: { title: 'No such run', hint: 'A run exists once it is started, until its retention is over.' },
  });
  const inputs = [
    searchField('workflow', 'Workflow', asked.workflow),
    choice([['', 'Every state'], ...STATES.map((state) => [state, state])], asked.state, { name: 'state', 'aria-label': 'State' }),
  ];
  place.append(...head('Runs', { lead: 'Durable workflows, newest first.' }).filter(Boolean),
    filters(inputs, (values) => { asked = values; table.restart(); }), table.element);
}

const COLUMNS = [
  { title: 'Run', kind: 'wrap', cell: (row) => runLink(row.id) },
  { title: 'Workflow', cell: (row) => h('span', { class: 'name' }, `${row.workflow}@${row.version}`) },
  { title: 'State', kind: 'tight', cell: (row) => badge(row.state) },
  { title: 'Started', kind: 'time', cell: (row) => since(row.started_at) },
  { title: 'Ended', kind: 'time', cell: (row) => since(row.ended_at) },
  { title: 'Attributes', kind: 'wrap', cell: (row) => Object.entries(row.attributes ?? {}).map(([name, value]) => h('span', { class: 'badge' }, `${name}=${value}`)) },
];
