// What operators do to work items: the same buttons for items of queues and for targets of reactions.

import { h } from './h.js';
import { action } from './act.js';
import { field } from './dialog.js';
import { capital, plural } from './format.js';

const MINUTE = 60_000;

/**
 * Buttons for what can be done to one item. `resource`: `leases` or `reactions`; `body`: what names it there; `named`: what people call it.
 * `row` is the item as it stands, and `reset`, if it can begin anew, says what that means.
 */
export function adjustments({ resource, body, named, row, reset, then }) {
  const adjust = (verb, label, what, more) => adjusting({ resource, verb, label, what, body, then, kind: 'small', ...more });
  const rest = [deferring(adjust, named), prioritizing(adjust, named, row), reset && adjust('reset', reset.label, reset.what)];
  return [
    row.blocked && adjust('unblock', 'Unblock', `${capital(named)} is tried again, from where it stopped. Nothing is skipped: what failed is tried first.`),
    h('details', { class: 'more' }, h('summary', { 'aria-label': `More that can be done to ${named}` }, 'More'), h('div', { class: 'more-actions' }, rest)),
  ];
}

/** A button for what is done to items: asks, sends, and says how many were changed. `more()` is added to the body. */
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
  return adjust('defer', 'Defer', `${capital(named)} is not tried before the time is over. A lease that stands is not touched.`, {
    fields: field('For how many minutes', minutes, '0 lets it be tried at once.'),
    more: () => ({ in_ms: whole(minutes) * MINUTE }),
  });
}

function prioritizing(adjust, named, row) {
  const priority = number({ name: 'priority', min: -100, max: 100, value: row.priority ?? 0 });
  return adjust('prioritize', 'Prioritize', `${capital(named)} gets this priority. Among what is due, the higher goes first.`, {
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
