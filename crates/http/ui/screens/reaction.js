// One reaction: its targets with their lag and their errors, and what an operator can do about them.

import { h } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { action } from '../lib/act.js';
import { now, since, until } from '../lib/clock.js';
import { choice } from '../lib/dialog.js';
import { badge, count, errorText, plural, streamLink } from '../lib/format.js';
import { href } from '../lib/router.js';
import { filters, head, like, list, searchField } from '../lib/screen.js';

export function show({ place, path: [reaction], query, signal }) {
  let asked = { blocked: query.blocked ?? '', target: query.target ?? '' };
  const table = list({
    label: 'Targets', noun: 'target', signal, key: (row) => row.target, columns: columns(reaction, () => table.refresh()),
    load: (after) => get(at`reactions/${reaction}/targets`, { target: asked.target && like(asked.target), blocked: asked.blocked, after, limit: 50 }, { signal }),
    empty: { title: 'No such target', hint: 'A target is there once an event was routed to it.' },
  });
  const all = adjust({ label: 'Unblock all', verb: 'unblock', body: { reaction }, what: `Every blocked target of the reaction “${reaction}” is tried again from where it stopped. Nothing is skipped.`, then: () => table.refresh() });
  const search = searchField('target', 'Targets that begin with…', asked.target);
  const state = choice([['', 'All targets'], ['true', 'Blocked'], ['false', 'Not blocked']], asked.blocked, { name: 'blocked', 'aria-label': 'State' });
  place.append(...head(reaction, { crumb: [h('a', { href: href(['reactions']) }, 'Reactions'), ' /'], actions: all }).filter(Boolean),
    filters([search, state], (values) => { asked = { blocked: '', target: '', ...values }; table.restart(); }), table.element);
}

/** A button for what is done to targets of a reaction. */
function adjust({ label, verb, body, what, then, kind }) {
  return action({ label, kind, what, then, request: () => ({ method: 'POST', path: `reactions/${verb}`, body }), done: (answer) => `Done: ${plural(answer.changed, 'target')} changed (${verb}).` });
}

function columns(reaction, then) {
  return [
    { title: 'Target', kind: 'wrap main-cell', cell: (row) => [row.unrouted ? h('span', { class: 'name' }, row.target) : streamLink(row.target), errorText(row.error)] },
    { title: 'State', kind: 'tight', cell: (row) => badge(doing(row)) },
    { title: 'Lag', kind: 'num', cell: (row) => count(row.lag) },
    { title: 'At', kind: 'num', cell: (row) => count(row.at) },
    { title: 'Failures', kind: 'num', cell: (row) => count(row.failures) },
    { title: 'When', kind: 'time', cell: (row) => moment(row) },
    { title: 'Holder', kind: 'who', cell: (row) => row.holder?.worker ?? '–' },
    { title: '', kind: 'tight', cell: (row) => h('div', { class: 'row-actions' }, actions(reaction, row, then)) },
  ];
}

function doing(row) {
  if (row.blocked) return row.unrouted ? 'unrouted' : 'blocked';
  if (row.holder) return 'held';
  if (row.hold_until && Date.parse(row.hold_until) > now()) return 'retrying';
  return row.due_at ? 'due' : 'idle';
}

function moment(row) {
  if (row.holder && !row.blocked) return until(row.holder.until);
  if (row.hold_until && !row.blocked) return until(row.hold_until);
  return since(row.due_at);
}

function actions(reaction, row, then) {
  const body = { reaction, target: row.target };
  const named = `“${row.target}” of the reaction “${reaction}”`;
  return [
    row.blocked && adjust({ label: 'Unblock', verb: 'unblock', kind: 'small', body, then, what: `The target ${named} is tried again from version ${row.at}. Nothing is skipped: what failed is handled first.` }),
    !row.unrouted && adjust({ label: 'Rebuild', verb: 'reset', kind: 'small plain', body, then, what: `The target ${named} begins again at its first event. Effects that were done are not repeated.` }),
  ];
}
