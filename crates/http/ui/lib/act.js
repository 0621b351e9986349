// Operators' actions: a confirmation dialog that says what will happen, and then what happened.

import { h, fill } from './h.js';
import { send, Problem } from './api.js';
import { button, open, toast, trouble } from './dialog.js';
import { print } from './exact.js';
import { reason } from './session.js';

/**
 * A button for an action.
 * `what` says in a sentence what will happen; `request()` gives { method, path, body }; `done(answer)` says what happened.
 * `fields` are shown in the dialog and may be read by `request`. `then` is called afterwards, whatever the answer was.
 */
export function action({ label, role = 'operator', kind = '', title, what, fields, request, done, then }) {
  const why = reason(role);
  return button(label, () => confirm({ label, title: title ?? label, what, fields, request, done, then }), { kind, why });
}

function confirm({ label, title, what, fields, request, done, then }) {
  const key = crypto.randomUUID?.() ?? String(Math.random());
  const shown = h('pre', { class: 'request' });
  const answer = h('div', { class: 'answer', 'aria-live': 'polite' });
  const refresh = () => fill(shown, described(request));
  const form = h('form', { on: { submit: (event) => { event.preventDefault(); go.click(); }, input: refresh } },
    h('p', { class: 'what' }, what), fields, h('details', { class: 'request-box' }, h('summary', null, 'The request'), shown), answer);
  const cancel = button('Cancel', () => dialog.close());
  const go = button(label, () => run(), { kind: 'primary' });
  const dialog = open({ title, body: form, foot: [cancel, go] });
  refresh();
  // Enter without reading must not confirm.
  if (!fields) cancel.focus();

  async function run() {
    if (!form.reportValidity()) return;
    go.disabled = true;
    try {
      const { method, path, body } = request();
      const text = done(await send(method, path, body, key));
      fill(answer, h('p', { class: 'done' }, text));
      toast(text);
      cancel.textContent = 'Close';
      go.remove();
      cancel.focus();
    } catch (error) {
      go.disabled = false;
      fill(answer, trouble(error instanceof Problem ? error : { title: 'Nothing was sent', message: error.message }));
    }
    then?.();
  }
}

function described(request) {
  try {
    const { method, path, body } = request();
    return `${method} /v1/${path}${body === undefined ? '' : `\n${print(body)}`}`;
  } catch (error) {
    return error.message;
  }
}
