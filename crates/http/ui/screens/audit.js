// The audit log: operators' actions, newest first.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { clockTime } from '../lib/clock.js';
import { inline } from '../lib/exact.js';
import { badge } from '../lib/format.js';
import { head, list } from '../lib/screen.js';

export function show({ place, signal }) {
  const table = list({
    label: 'Operators’ actions', noun: 'action', signal, key: (row) => `${row.at} ${row.who} ${row.what} ${row.on}`, columns: COLUMNS,
    load: (after) => get('audit', { after, limit: 50 }, { signal }),
    empty: { title: 'No operator’s action yet', hint: 'Every action that needs the role operator is kept here: who, what, on what, and its outcome.' },
  });
  place.append(...head('Audit', { lead: 'Every action of an operator, by the name of the token.' }).filter(Boolean), table.element);
}

// The request is recorded before it is carried out: without a recorded response it may have been carried out.
function outcome(status) {
  if (status === null || status === undefined) return badge('unknown', 'Unknown outcome: no response was recorded, so it may have been carried out.');
  return badge(status < 400 ? 'done' : 'refused', `status ${status}`);
}

const COLUMNS = [
  { title: 'When', kind: 'time', cell: (row) => clockTime(row.at) },
  { title: 'Who', kind: 'who', cell: (row) => row.who },
  { title: 'What', kind: 'wrap', cell: (row) => h('span', { class: 'name' }, `${row.what.split(' ')[0]} ${row.on}`) },
  { title: 'Parameters', kind: 'wide', cell: (row) => h('span', { class: 'clip name muted' }, inline(row.parameters ?? null)) },
  { title: 'Outcome', kind: 'tight', cell: (row) => outcome(row.status) },
];
