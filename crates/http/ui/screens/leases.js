// Work items of every queue: due, leased, waiting or blocked.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { adjustments } from '../lib/adjust.js';
import { since, until } from '../lib/clock.js';
import { choice } from '../lib/dialog.js';
import { badge, capital, count, errorText, link, runLink } from '../lib/format.js';
import { filters, head, like, list, searchField } from '../lib/screen.js';

const STATES = ['blocked', 'held', 'expired', 'due', 'waiting', 'scheduled', 'idle'];

export function show({ place: screen, query, signal }) {
  let asked = { state: '', queue: '', holder: '', ...query };
  const table = list({
    label: 'Work items', noun: 'item', signal, key: (row) => `${row.queue}\n${row.key}`, columns: columns(() => table.refresh()),
    load: (after) => get('leases', { ...asked, queue: asked.queue && like(asked.queue), after, limit: 50 }, { signal }),
    empty: { title: 'No such work item', hint: 'Items exist once they are enqueued: targets of reactions, runs, and items of your own queues.' },
  });
  const inputs = [
    searchField('queue', 'Queues that begin with…', asked.queue),
    choice([['', 'Every state'], ...STATES.map((state) => [state, state])], asked.state, { name: 'state', 'aria-label': 'State' }),
    h('input', { class: 'input', name: 'holder', placeholder: 'Holder', 'aria-label': 'Holder', value: asked.holder }),
  ];
  screen.append(...head('Leases', { lead: 'The work items of all queues: leased, due, waiting, or blocked.' }).filter(Boolean),
    filters(inputs, (values) => { asked = values; table.restart(); }), table.element);
}

function columns(then) {
  return [
    { title: 'Item', kind: 'wrap main-cell', cell: (row) => [h('span', { class: 'name' }, row.key), h('span', { class: 'under' }, place(row), Number(row.priority) !== 0 && `, priority ${row.priority}`), errorText(row.error)] },
    { title: 'State', kind: 'tight', cell: (row) => badge(row.state) },
    { title: 'When', kind: 'time', cell: moment },
    { title: 'Holder', kind: 'who', cell: (row) => row.holder?.worker ?? '–' },
    { title: 'Fence', kind: 'num', cell: (row) => count(row.fence) },
    { title: 'Done', kind: 'num', cell: (row) => `${count(row.at)} / ${count(row.mark)}` },
    { title: 'Failures', kind: 'num', cell: (row) => count(row.failures) },
    { title: 'Expiries', kind: 'num', cell: (row) => count(row.expiries) },
    { title: '', kind: 'tight', cell: (row) => h('div', { class: 'row-actions' }, actions(row, then)) },
  ];
}

function moment(row) {
  if (row.state === 'held' || row.state === 'expired') return until(row.holder?.until);
  if (row.state === 'waiting') return until(row.hold_until);
  return row.state === 'scheduled' ? until(row.due_at) : since(row.due_at);
}

// A target of a reaction is rebuilt by its reaction; a run cannot start over.
function actions(row, then) {
  if (row.reaction) return adjustments({ resource: 'reactions', body: { reaction: row.reaction, target: row.key }, named: `the target “${row.key}” of the reaction “${row.reaction}”`, row, then, reset: rebuilding(row) });
  const named = `the item “${row.key}” in the queue “${row.queue}”`;
  const reset = { label: 'Reset', what: `${capital(named)} starts over: all of its work, up to ${row.mark}, is done again. Its holder loses the lease.` };
  return adjustments({ resource: 'leases', body: { queue: row.queue, key: row.key }, named, row, then, reset: row.queue.startsWith('~') ? null : reset });
}

const rebuilding = (row) => ({ label: 'Rebuild', what: `The target “${row.key}” of the reaction “${row.reaction}” starts over at its first event. Completed effects are not repeated.` });

function place(row) {
  if (row.run) return ['run ', runLink(row.run)];
  if (row.reaction) return ['target of the reaction ', link(['reactions', row.reaction], row.reaction, { target: row.key })];
  return ['in ', h('span', { class: 'name' }, row.queue)];
}
