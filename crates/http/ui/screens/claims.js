// Claims, locks and quotas: who has what, until when, and how much is taken.

import { h } from '../lib/h.js';
import { get } from '../lib/api.js';
import { action } from '../lib/act.js';
import { since, until } from '../lib/clock.js';
import { choice } from '../lib/dialog.js';
import { badge, count, errorText } from '../lib/format.js';
import { filters, head, list, searchField } from '../lib/screen.js';

const STATES = [['', 'Every state'], ['pending', 'Held'], ['stale', 'Expired'], ['done', 'Done'], ['failed', 'Failed']];

export function show({ place, query, signal }) {
  let asked = { state: '', prefix: '', ...query };
  const claims = list({
    label: 'Claims', noun: 'claim', signal, key: (row) => row.key, columns: columns(() => claims.refresh()),
    load: (after) => get('claims', { ...asked, after, limit: 50 }, { signal }),
    empty: { title: 'No such claim', hint: 'A claim is there from its first claimant on, for as long as its result is kept.' },
  });
  const quotas = list({
    label: 'Quotas', noun: 'quota', signal, key: (row) => row.key, columns: QUOTAS,
    load: (after) => get('quotas', { after, limit: 20 }, { signal }),
    empty: { title: 'Nothing is taken of any quota', hint: 'A quota is listed once somebody took from it, until its period is over. Its limit is in the code that takes from it.' },
  });
  const inputs = [
    searchField('prefix', 'Claims that begin with… (lock/, idempotency/)', asked.prefix),
    choice(STATES, asked.state, { name: 'state', 'aria-label': 'State' }),
  ];
  place.append(...head('Claims and quotas', { lead: 'First-come rights to do something once: who has them, and until when.' }).filter(Boolean),
    filters(inputs, (values) => { asked = values; claims.restart(); }), claims.element,
    h('section', { class: 'section' }, h('h2', null, 'Quotas'), quotas.element));
}

const WORDS = { pending: 'held', stale: 'expired' };

const columns = (then) => [
  { title: 'Claim', kind: 'wrap main-cell', cell: (row) => [h('span', { class: 'name' }, row.key), errorText(row.error)] },
  { title: 'State', kind: 'tight', cell: (row) => badge(WORDS[row.state] ?? row.state) },
  { title: 'Holder', kind: 'who', cell: (row) => row.by ?? '–' },
  { title: 'Fence', kind: 'num', cell: (row) => count(row.fence) },
  { title: 'Since', kind: 'time', cell: (row) => since(row.since) },
  { title: 'Until', kind: 'time', cell: (row) => (row.until ? until(row.until) : '–') },
  { title: '', kind: 'tight', cell: (row) => row.state === 'stale' && h('div', { class: 'row-actions' }, releasing(row, then)) },
];

// Whoever asks again takes it over; this is for claims of which nobody will.
function releasing(row, then) {
  return action({
    label: 'Release', kind: 'small', then, what: `The claim “${row.key}” is free again, if nobody is at it. “${row.by}” was at it last; what it had done by then stays done.`,
    request: () => ({ method: 'POST', path: 'abandoned-claims/release', body: { claim: row.key } }), done: () => `Done: the claim “${row.key}” is free.`,
  });
}

const QUOTAS = [
  { title: 'Quota', kind: 'wrap main-cell', cell: (row) => h('span', { class: 'name' }, row.key.replace(/^quota\//, '')) },
  { title: 'Taken', kind: 'num', cell: (row) => count(row.used) },
  { title: 'As much again', kind: 'time', cell: (row) => (row.resets_at ? until(row.resets_at) : 'never') },
];
