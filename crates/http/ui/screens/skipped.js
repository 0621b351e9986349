// The events of a reaction that operators skipped, and why; and the button that skips one.

import { h } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { action } from '../lib/act.js';
import { since } from '../lib/clock.js';
import { field } from '../lib/dialog.js';
import { capital, count, errorText, streamLink } from '../lib/format.js';
import { href } from '../lib/router.js';
import { head, list } from '../lib/screen.js';

export function showSkipped({ place, reaction, signal }) {
  const table = list({
    label: 'Skipped events', noun: 'event', signal, key: (row) => row.event, columns: COLUMNS,
    load: (after) => get(at`reactions/${reaction}/skipped`, { after, limit: 50 }, { signal }),
    empty: { title: 'No event was skipped', hint: 'A blocked target can go on without the event that it is blocked on.' },
  });
  const crumb = [h('a', { href: href(['reactions']) }, 'Reactions'), ' / ', h('a', { href: href(['reactions', reaction]) }, reaction), ' /'];
  place.append(...head('Skipped events', { crumb }).filter(Boolean), table.element);
}

const COLUMNS = [
  { title: 'Target', kind: 'wrap main-cell', cell: (row) => [h('span', { class: 'name' }, row.target), h('span', { class: 'under' }, row.reason), errorText(row.error)] },
  { title: 'Event', kind: 'wrap', cell: (row) => [streamLink(row.stream), h('span', { class: 'under' }, row.type)] },
  { title: 'Version', kind: 'num', cell: (row) => count(row.version) },
  { title: 'Position', kind: 'num', cell: (row) => count(row.position) },
  { title: 'When', kind: 'time', cell: (row) => since(row.skipped_at) },
];

/** A button that skips the event on which a target is blocked. */
export function skipping({ reaction, row, named, then }) {
  const why = h('input', { class: 'input', name: 'reason', required: true, maxlength: 1000, autocomplete: 'off' });
  return action({
    label: 'Skip', kind: 'small', then, title: 'Skip one event', fields: field('Why', why, 'Kept with the event.'),
    what: `${capital(named)} goes on without the event that it is blocked on. That event is never handled, and is recorded with the reason.`,
    request: () => ({ method: 'POST', path: 'reactions/skip', body: { reaction, target: row.target, at: row.at, reason: why.value } }),
    done: () => 'Done: the next worker skips the event.',
  });
}
