// The pulse of the store: one stream of events that the whole page shares, whatever screen is shown. Screens that show lists read
// theirs anew when it beats, so that a tab costs one open stream and not one per table.

import { follow } from './api.js';

const listeners = new Set();
const stateListeners = new Set();
let last = null;
let state = 'waiting';

/** Begins to listen, for as long as the page is there. */
export function begin() {
  const endless = new AbortController();
  follow('overview/live', {}, { signal: endless.signal, on: beat, state: turned })
    .catch((error) => turned('waiting', error.message));
}

/** Hears every beat until `signal` says otherwise. */
export function onBeat(listener, signal) {
  listeners.add(listener);
  signal.addEventListener('abort', () => listeners.delete(listener));
  if (last) listener(last);
}

export function onState(listener) {
  stateListeners.add(listener);
  listener(state);
}

function beat(type, sample) {
  if (type === 'problem') return;
  last = sample;
  listeners.forEach((listener) => listener(sample));
}

function turned(to, why) {
  state = to;
  stateListeners.forEach((listener) => listener(to, why));
}
