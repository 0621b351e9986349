// Sends a signal to a run.

import { h } from '../../lib/h.js';
import { at } from '../../lib/api.js';
import { action } from '../../lib/act.js';
import { field } from '../../lib/dialog.js';

/** A button that sends a signal; the one that the run waits for is filled in. */
export function signalAction(run, status, then) {
  const awaited = (status?.waiting?.on ?? []).find((on) => on.signal)?.signal.signal ?? '';
  const name = h('input', { class: 'input', name: 'signal', required: true, value: awaited, autocomplete: 'off' });
  const payload = h('textarea', { class: 'input', name: 'payload', spellcheck: 'false' });
  payload.value = 'null';
  return action({
    label: 'Signal', role: 'writer', title: `Send a signal to ${run}`, then,
    what: `An entry with this name and payload is added to the history of the run “${run}”, which receives it once.`,
    fields: [field('Name', name), field('Payload', payload, 'JSON')],
    request: () => ({ method: 'POST', path: at`runs/${run}/signals`, body: { name: name.value, payload: json(payload.value) } }),
    done: () => `Done: the signal “${name.value}” was sent to the run “${run}”.`,
  });
}

function json(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the payload is not JSON: ${error.message}`);
  }
}
