// Operators' actions on work items: the same buttons for items of queues and for targets of reactions.

import { h } from './h.js';
import { action } from './act.js';
import { field } from './dialog.js';
import { capital, plural } from './format.js';

const MINUTE = 60_000;

/**
 * Buttons for actions on one item. `resource`: `leases` or `reactions`; `body`: the fields that select it; `named`: its name in texts.
 * `row` is the item, and `reset`, if it can start over, describes what that does.
 */
export function adjustments({ resource, body, named, row, reset, then }) {
  const adjust = (verb, label, what, more) => adjusting({ resource, verb, label, what, body, then, kind: 'small', ...more });
  const rest = [deferring(adjust, named), prioritizing(adjust, named, row), reset && adjust('reset', reset.label, reset.what)];
  return [
    row.blocked && adjust('unblock', 'Unblock', `${capital(named)} continues where it stopped. Nothing is skipped: the failed work is retried first.`),
    h('details', { class: 'more' }, h('summary', { 'aria-label': `More actions on ${named}` }, 'More'), h('div', { class: 'more-actions' }, rest)),
  ];
}

/** A button for a bulk action: confirms, sends, and says how many items were changed. `more()` is added to the body. */
export function adjusting({ resource, verb, label, what, body, then, kind, fields, more = () => ({}) }) {
  const noun = resource === 'reactions' ? 'target' : 'item';
  return action({
    label, kind, what, fields, then,
    request: () => ({ method: 'POST', path: `${resource}/${verb}`, body: { ...body, ...more() } }),
    done: (answer) => `Done: ${plural(answer.changed, noun)} changed (${verb}).`,
  });
}

function deferring(adjust, named) {
  const minutes = number({ name: 'minutes', min: 0, max: 525_600, value: 60 });
  return adjust('defer', 'Defer', `${capital(named)} is not leased before the time is over. A lease in force is not affected.`, {
    fields: field('For how many minutes', minutes, '0: it is due at once.'),
    more: () => ({ in_ms: whole(minutes) * MINUTE }),
  });
}

function prioritizing(adjust, named, row) {
  const priority = number({ name: 'priority', min: -100, max: 100, value: row.priority ?? 0 });
  return adjust('prioritize', 'Prioritize', `${capital(named)} gets this priority. Among due items, the highest priority is first.`, {
    fields: field('Priority', priority, 'From -100 to 100.'),
    more: () => ({ priority: whole(priority) }),
  });
}

function number({ name, min, max, value }) {
  return h('input', { class: 'input', type: 'number', name, min, max, step: 1, required: true, value });
}

function whole(input) {
  if (!/^-?\d+$/.test(input.value)) throw new Error(`${input.name}: a whole number is needed`);
  return Number(input.value);
}
