// Dialogs. The browser's own dialog element traps the focus, closes on Esc and restores the focus.

import { h } from './h.js';

/** Opens a dialog and returns it; `onClose` is called however it closes. */
export function open({ title, body, foot, onClose }) {
  const heading = h('h2', { class: 'dialog-title', id: 'dialog-title' }, title);
  const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'dialog-title' },
    heading, h('div', { class: 'dialog-body' }, body), h('div', { class: 'dialog-foot' }, foot));
  dialog.addEventListener('close', () => { dialog.remove(); onClose?.(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A button. `why` disables it with a reason: it stays focusable, and shows the reason when pressed. */
export function button(label, press, { kind = '', why = null, title } = {}) {
  const off = why !== null;
  const element = h('button', {
    type: 'button', class: `button ${kind}`, title: why ?? title, 'aria-disabled': off ? 'true' : null,
    on: { click: () => (off ? toast(why, 'warn') : press(element)) },
  }, label);
  return element;
}

/** Shows a toast. */
export function toast(text, tone = 'good') {
  const note = h('div', { class: `toast ${tone}` }, text);
  document.getElementById('toasts').append(note);
  setTimeout(() => note.remove(), 8000);
}

/** An error with the server's message, and a button to retry. */
export function trouble(error, again) {
  return h('div', { class: 'trouble', role: 'alert' },
    h('strong', null, error.title || 'That did not work'),
    h('p', null, error.message),
    again && button('Try again', again));
}

/** An empty state: why nothing is here, and what would change that. */
export function emptiness(title, hint) {
  return h('div', { class: 'empty' }, h('strong', null, title), hint && h('p', null, hint));
}

/** A field with its label. */
export function field(label, input, hint) {
  const id = input.id || `field-${Math.random().toString(36).slice(2)}`;
  input.id = id;
  return h('div', { class: 'field' }, h('label', { for: id }, label), input, hint && h('p', { class: 'hint' }, hint));
}

/** A select: [[value, label], …]. */
export function choice(options, chosen, attributes) {
  return h('select', { class: 'input', ...attributes },
    options.map(([value, label]) => h('option', { value, selected: value === chosen }, label)));
}

