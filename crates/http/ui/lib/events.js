// Event lists: one line per event, which expands to its details; and following the log live.

import { h } from './h.js';
import { follow } from './api.js';
import { clockTime } from './clock.js';
import { button } from './dialog.js';
import { inline } from './exact.js';
import { correlationLink, count, streamLink } from './format.js';
import { viewer } from './json.js';
import { facts } from './screen.js';

// The maximum number of events that a tab keeps.
const MOST = 300;

/** An event as an expandable line. */
export function eventLine(event, { withStream = false, more } = {}) {
  const body = h('div', { class: 'event-body' });
  const line = h('details', { class: `event${withStream ? ' with-stream' : ''}`, 'data-position': event.position },
    h('summary', null,
      h('span', { class: 'event-number', title: withStream ? `position ${event.position}` : `version ${event.version}` }, count(withStream ? event.position : event.version)),
      h('span', { class: 'event-type' }, event.type),
      withStream && h('span', { class: 'event-stream' }, h('span', { class: 'name' }, event.stream)),
      h('span', { class: 'event-gist' }, inline(event.data)),
      h('span', { class: 'event-time' }, clockTime(event.recorded_at))), body);
  line.addEventListener('toggle', () => { if (line.open && !body.firstChild) body.append(...inside(event, more)); });
  return line;
}

function inside(event, more) {
  const { correlation, causation, actor } = event.metadata ?? {};
  return [
    facts([
      ['Stream', streamLink(event.stream)], ['Version', count(event.version)], ['Position', count(event.position)],
      ['Id', h('span', { class: 'name' }, event.id)],
      correlation && ['Correlation', correlationLink(correlation, event.position)],
      causation && ['Caused by', h('span', { class: 'name' }, causation)],
      actor && ['Actor', actor],
      !correlation && ['Conversation', correlationLink(event.id, event.position)],
    ]),
    h('div', null, h('h3', null, 'Data'), viewer(event.data, { label: `Data of ${event.type}` })),
    Object.keys(event.metadata ?? {}).length > 0 && h('div', null, h('h3', null, 'Metadata'), viewer(event.metadata, { label: 'Metadata', search: false })),
    more?.(event),
  ].filter(Boolean);
}

/** Appends or prepends an event to a bounded list. */
export function arrive(place, line, atTop) {
  line.classList.add('arrived');
  if (atTop) place.prepend(line);
  else place.append(line);
  shorten(place, atTop);
}

/** Trims the list at the other end. */
export function shorten(place, atTop) {
  while (place.children.length > MOST) (atTop ? place.lastElementChild : place.firstElementChild).remove();
}

/** A toggle that follows the log. `query()` returns the start; `on(event)` is called for each event. */
export function follower({ query, on, signal, pressed = false, changed }) {
  let following = null;
  const press = () => (following ? stop() : begin());
  const element = button('Follow', press, { title: 'Show events as they happen' });
  const turn = (label) => { element.textContent = label; element.setAttribute('aria-pressed', String(following !== null)); changed?.(following !== null); };
  function stop() {
    following?.abort();
    following = null;
    turn('Follow');
  }
  function begin() {
    if (following || signal.aborted) return;
    following = new AbortController();
    const { signal: until } = following;
    turn('Following');
    follow('events/follow', query(), { signal: until, on: (type, data) => { if (type === 'event') on(data); } })
      .catch(() => { if (!until.aborted) stop(); });
  }
  signal.addEventListener('abort', stop);
  if (pressed) begin();
  return { element, begin, stop, restart: () => { if (following) { stop(); begin(); } } };
}
