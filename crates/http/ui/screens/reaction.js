// One reaction: its targets with their lag and errors, and operators' actions.

import { h } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { action } from '../lib/act.js';
import { adjusting, adjustments } from '../lib/adjust.js';
import { now, since, until } from '../lib/clock.js';
import { choice, field } from '../lib/dialog.js';
import { badge, capital, count, errorText, streamLink } from '../lib/format.js';
import { href } from '../lib/router.js';
import { filters, head, like, list, searchField } from '../lib/screen.js';
import { showSkipped, skipping } from './skipped.js';

export function show({ place, path: [reaction, part], query, signal }) {
  if (part === 'skipped') return showSkipped({ place, reaction, signal });
  let asked = { blocked: query.blocked ?? '', target: query.target ?? '' };
  const table = list({
    label: 'Targets', noun: 'target', signal, key: (row) => row.target, columns: columns(reaction, () => table.refresh()),
    load: (after) => get(at`reactions/${reaction}/targets`, { target: asked.target && like(asked.target), blocked: asked.blocked, after, limit: 50 }, { signal }),
    empty: { title: 'No such target', hint: 'A target exists once an event was routed to it.' },
  });
  const all = adjusting({ resource: 'reactions', label: 'Unblock all', verb: 'unblock', body: { reaction }, what: `Every blocked target of the reaction “${reaction}” continues where it stopped. Nothing is skipped.`, then: () => table.refresh() });
  const search = searchField('target', 'Targets that begin with…', asked.target);
  const state = choice([['', 'All targets'], ['true', 'Blocked'], ['false', 'Not blocked']], asked.blocked, { name: 'blocked', 'aria-label': 'State' });
  place.append(...head(reaction, { crumb: [h('a', { href: href(['reactions']) }, 'Reactions'), ' /'], actions: [h('a', { class: 'button', href: href(['reactions', reaction, 'skipped']) }, 'Skipped events'), all, rerouting(reaction, () => table.refresh())] }).filter(Boolean),
    filters([search, state], (values) => { asked = { blocked: '', target: '', ...values }; table.restart(); }), table.element);
}

function columns(reaction, then) {
  return [
    { title: 'Target', kind: 'wrap main-cell', cell: (row) => [row.unrouted ? h('span', { class: 'name' }, row.target) : streamLink(row.target), Number(row.priority) !== 0 && h('span', { class: 'under' }, `priority ${row.priority}`), errorText(row.error)] },
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
  const named = `the target “${row.target}” of the reaction “${reaction}”`;
  const reset = { label: 'Rebuild', what: `${capital(named)} starts over at its first event. Completed effects are not repeated.` };
  const adjust = adjustments({ resource: 'reactions', body: { reaction, target: row.target }, named, row, then, reset: row.unrouted ? null : reset });
  return [row.blocked && skipping({ reaction, row, named, then }), ...adjust];
}

/** A button that reroutes a reaction. */
export function rerouting(reaction, then, kind) {
  const from = choice([['beginning', 'From the first event'], ['now', 'From the next event']], 'now', { name: 'from' });
  return action({
    label: 'Reroute', kind, then, title: `Reroute ${reaction}`, fields: field('From where', from),
    what: `The events of the reaction “${reaction}” are routed again: for a reaction whose routing has stopped because the log is not the one that it knew. Events that are routed again to computed targets are handled again; those that are left out are not handled.`,
    request: () => ({ method: 'POST', path: 'reactions/reroute', body: { reaction, from: from.value } }),
    done: () => `Done: the reaction “${reaction}” is rerouted from ${from.value === 'now' ? 'the next event' : 'the first event'}.`,
  });
}
