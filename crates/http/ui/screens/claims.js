// Claims, locks and quotas: holders, leases and usage.

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
    empty: { title: 'No such claim', hint: 'A claim exists from its first claimant on, until its result expires.' },
  });
  const quotas = list({
    label: 'Quotas', noun: 'quota', signal, key: (row) => row.key, columns: QUOTAS,
    load: (after) => get('quotas', { after, limit: 20 }, { signal }),
    empty: { title: 'No quota is in use', hint: 'A quota is listed while units of the current period are in use. Its limit is in the code that takes from it.' },
  });
  const inputs = [
    searchField('prefix', 'Claims that begin with… (lock/, idempotency/)', asked.prefix),
    choice(STATES, asked.state, { name: 'state', 'aria-label': 'State' }),
  ];
  place.append(...head('Claims and quotas', { lead: 'Exclusive rights to do something: their holders and leases.' }).filter(Boolean),
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

// The next claimant takes over anyway; this is for claims that are never requested again.
function releasing(row, then) {
  return action({
    label: 'Release', kind: 'small', then, what: `The claim “${row.key}” is released, if it is not held. Its last holder was “${row.by}”; work already done is not undone.`,
    request: () => ({ method: 'POST', path: 'abandoned-claims/release', body: { claim: row.key } }), done: () => `Done: the claim “${row.key}” is free.`,
  });
}

const QUOTAS = [
  { title: 'Quota', kind: 'wrap main-cell', cell: (row) => h('span', { class: 'name' }, row.key.replace(/^quota\//, '')) },
  { title: 'Used', kind: 'num', cell: (row) => count(row.used) },
  { title: 'Resets', kind: 'time', cell: (row) => (row.resets_at ? until(row.resets_at) : 'never') },
];
