// One stream: its events, paged or live, and the state that they fold into at any version.

import { h, fill } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { since } from '../lib/clock.js';
import { button, emptiness, trouble } from '../lib/dialog.js';
import { arrive, eventLine, follower, shorten } from '../lib/events.js';
import { inline, isLater } from '../lib/exact.js';
import { badge, count, plural } from '../lib/format.js';
import { facts, filters, head, searchField } from '../lib/screen.js';
import { href } from '../lib/router.js';
import { traveller } from './stream/travel.js';

const PAGE = 50;

export async function show({ place, path: [name], query, signal }) {
  const state = { wanted: query.find ?? '', newest: true, from: null, position: null };
  const events = h('div', { class: 'events', 'aria-label': 'Events', role: 'group' });
  const note = h('span', { class: 'note', role: 'status' });
  const about = h('div', null);
  const more = button('Load more', () => read(), { kind: 'small' });
  const travel = traveller({ stream: name, signal });
  const order = button(label(), () => { state.newest = !state.newest; order.textContent = label(); restart(); }, { title: 'Reverse the order' });
  const live = follower({ signal, query: () => ({ stream: name, after: state.position }), on: (event) => arrived(event) });

  place.append(...head(name, {
    crumb: [h('a', { href: href(['streams']) }, 'Streams'), ' /'], actions: [travel.button, order, live.element],
  }).filter(Boolean), about, travel.panel, filters([searchField('find', 'Filter by type or text', state.wanted)], ({ find = '' }) => { state.wanted = find; sift(); }),
  events, h('div', { class: 'pager' }, note, more));

  await look();
  await restart();

  function label() { return state.newest ? 'Newest first' : 'Oldest first'; }

  async function look() {
    const info = await get(at`streams/${name}`, {}, { signal });
    state.version = info.version;
    fill(about, facts([
      ['State', badge(info.closed ? 'closed' : 'open')], ['Version', count(info.version)], ['Events', count(info.events)],
      ['Last event', info.last_type], ['When', since(info.last_at)],
    ]));
    travel.reaches(info.version);
  }

  async function restart() {
    live.stop();
    Object.assign(state, { from: null, position: null });
    fill(events);
    await read();
    live.begin();
  }

  async function read() {
    events.setAttribute('aria-busy', 'true');
    try {
      const page = await get(at`streams/${name}/events`, { from: state.from, backward: state.newest || null, limit: PAGE }, { signal });
      showPage(page);
    } catch (error) {
      if (!signal.aborted) events.append(trouble(error, read));
    } finally {
      events.removeAttribute('aria-busy');
    }
  }

  function showPage({ items, next }) {
    state.from = next;
    for (const event of items) noted(event);
    events.append(...items.map((event) => line(event)));
    shorten(events, false);
    more.hidden = next === null || next === undefined;
    if (events.children.length === 0) fill(events, emptiness('No events', 'They were trimmed, or nothing was ever appended.'));
    sift();
  }

  function noted(event) {
    if (state.position === null || isLater(event.position, state.position)) state.position = event.position;
  }

  function line(event) {
    const made = eventLine(event, { more: () => travel.known && button('State after this event', () => travel.open(event.version), { kind: 'small' }) });
    made.dataset.text = `${event.type} ${inline(event.data, 20_000)}`.toLowerCase();
    return made;
  }

  function arrived(event) {
    if (events.querySelector(`[data-position="${CSS.escape(String(event.position))}"]`)) return;
    events.querySelector('.empty')?.remove();
    noted(event);
    travel.reaches(event.version);
    arrive(events, line(event), state.newest);
    sift();
  }

  function sift() {
    const wanted = state.wanted.toLowerCase();
    const lines = [...events.querySelectorAll('.event')];
    for (const made of lines) made.hidden = wanted !== '' && !made.dataset.text.includes(wanted);
    const seen = lines.filter((made) => !made.hidden).length;
    note.textContent = wanted === '' ? plural(seen, 'event') : `${seen} of ${plural(lines.length, 'event')} read so far match`;
  }
}

