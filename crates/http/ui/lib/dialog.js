// Questions to whoever sits in front of the page. The browser's own dialog keeps the focus inside, closes on Esc and gives the
// focus back to where it was.

import { h } from './h.js';

/** Opens a dialog and answers with it; `onClose` hears the end, however it comes. */
export function open({ title, body, foot, onClose }) {
  const heading = h('h2', { class: 'dialog-title', id: 'dialog-title' }, title);
  const dialog = h('dialog', { class: 'dialog', 'aria-labelledby': 'dialog-title' },
    heading, h('div', { class: 'dialog-body' }, body), h('div', { class: 'dialog-foot' }, foot));
  dialog.addEventListener('close', () => { dialog.remove(); onClose?.(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A button. `why` says what keeps it from being pressed: it stays where it is, can be reached, and answers with the reason. */
export function button(label, press, { kind = '', why = null, title } = {}) {
  const off = why !== null;
  const element = h('button', {
    type: 'button', class: `button ${kind}`, title: why ?? title, 'aria-disabled': off ? 'true' : null,
    on: { click: () => (off ? toast(why, 'warn') : press(element)) },
  }, label);
  return element;
}

/** Says something in passing. */
export function toast(text, tone = 'good') {
  const note = h('div', { class: `toast ${tone}` }, text);
  document.getElementById('toasts').append(note);
  setTimeout(() => note.remove(), 8000);
}

/** What went wrong, in the server's words, and a way to try again. */
export function trouble(error, again) {
  return h('div', { class: 'trouble', role: 'alert' },
    h('strong', null, error.title || 'That did not work'),
    h('p', null, error.message),
    again && button('Try again', again));
}

/** Nothing is here, why that may be, and what would bring something. */
export function emptiness(title, hint) {
  return h('div', { class: 'empty' }, h('strong', null, title), hint && h('p', null, hint));
}

/** A field with its label. */
export function field(label, input, hint) {
  const id = input.id || `field-${Math.random().toString(36).slice(2)}`;
  input.id = id;
  return h('div', { class: 'field' }, h('label', { for: id }, label), input, hint && h('p', { class: 'hint' }, hint));
}

/** A choice among a few: [[value, label], …]. */
export function choice(options, chosen, attributes) {
  return h('select', { class: 'input', ...attributes },
    options.map(([value, label]) => h('option', { value, selected: value === chosen }, label)));
}

