// The feed: the events of all streams in the order in which they became visible, newest first, live.

import { h, fill } from '../lib/h.js';
import { get } from '../lib/api.js';
import { emptiness, button } from '../lib/dialog.js';
import { arrive, eventLine, follower } from '../lib/events.js';
import { plural } from '../lib/format.js';
import { filters, head, searchField } from '../lib/screen.js';

const PAGE = 100;

export async function show({ place, query, signal }) {
  const asked = { types: query.types ?? '', after: query.after ?? '' };
  const events = h('div', { class: 'events', role: 'group', 'aria-label': 'Events' });
  const note = h('span', { class: 'note', role: 'status' });
  const more = button('Load more', () => read(), { kind: 'small' });
  const nothing = emptiness('Nothing here yet', 'Events are shown as they happen. To read older ones, enter a position.');
  let cursor = null;
  const live = follower({ signal, query: () => ({ types: asked.types, after: cursor }), on: (event) => arrived(event) });
  const from = h('input', { class: 'input', name: 'after', inputmode: 'numeric', pattern: '[0-9]*', placeholder: 'After position', 'aria-label': 'After position', value: asked.after });

  place.append(...head('Feed', { actions: [live.element], lead: 'The events of all streams, in one total order.' }).filter(Boolean),
    filters([searchField('types', 'Types, separated by commas', asked.types), from], (values) => { Object.assign(asked, { types: '', after: '' }, values); restart(); }),
    events, h('div', { class: 'pager' }, note, more));
  await restart();

  async function restart() {
    live.stop();
    fill(events);
    cursor = asked.after === '' ? null : asked.after;
    await read();
    live.begin();
  }

  async function read() {
    // The first page is the last of the feed: the server counts events, because positions have gaps.
    const from = cursor === null ? { last: PAGE } : { after: cursor };
    const page = await get('events', { ...from, types: asked.types, limit: PAGE }, { signal });
    for (const event of page.items) arrived(event);
    cursor = page.next ?? String(page.position);
    more.hidden = !page.next || page.items.length < PAGE;
    told();
  }

  function arrived(event) {
    nothing.remove();
    if (events.querySelector(`[data-position="${CSS.escape(String(event.position))}"]`)) return;
    cursor = String(event.position);
    arrive(events, eventLine(event, { withStream: true }), true);
    told();
  }

  function told() {
    if (events.children.length === 0) events.append(nothing);
    note.textContent = plural(events.querySelectorAll('.event').length, 'event');
  }
}
