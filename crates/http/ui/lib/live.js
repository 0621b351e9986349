// Live updates: one event stream that all screens share. Lists reload when a sample arrives, so that a tab costs one open
// stream and not one per table.

import { follow } from './api.js';

const listeners = new Set();
const stateListeners = new Set();
let last = null;
let state = 'waiting';

/** Starts listening, until the page is closed. */
export function begin() {
  const endless = new AbortController();
  follow('overview/live', {}, { signal: endless.signal, on: beat, state: turned })
    .catch((error) => turned('waiting', error.message));
}

/** Calls back on every sample until `signal` aborts. */
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
