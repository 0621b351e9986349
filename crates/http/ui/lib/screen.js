// What screens have in common: a head, filters that stay in the address, and a list with live updates.

import { h } from './h.js';
import { keep } from './router.js';
import { onBeat } from './live.js';
import { paged } from './paged.js';

/** The head of a screen: breadcrumb, title, actions. */
export function head(title, { crumb, beside, actions, lead } = {}) {
  return [
    crumb && h('div', { class: 'crumb' }, crumb),
    h('div', { class: 'head' }, h('h1', { tabindex: '-1' }, title), beside, actions && h('div', { class: 'actions' }, actions)),
    lead && h('p', { class: 'lead' }, lead),
  ];
}

/** A search field, which `/` focuses. */
export function searchField(name, placeholder, value = '') {
  return h('input', { class: 'input', type: 'search', name, placeholder, 'aria-label': placeholder, value, 'data-search': true, autocomplete: 'off', spellcheck: 'false' });
}

/** A row of filters. `changed(values)` is called once typing pauses; the address keeps the values. */
export function filters(inputs, changed) {
  let timer = null;
  const values = () => Object.fromEntries(inputs.map((input) => [input.name, input.value]).filter(([, value]) => value !== ''));
  const tell = () => { keep(values()); changed(values()); };
  const form = h('form', { class: 'filters', role: 'search', on: { submit: (event) => { event.preventDefault(); tell(); } } }, inputs);
  form.addEventListener('input', (event) => {
    clearTimeout(timer);
    timer = setTimeout(tell, event.target.matches('select') ? 0 : 250);
  });
  return form;
}

/** A list that reloads when a sample arrives. */
export function list(given) {
  const made = paged(given);
  made.restart();
  onBeat(() => { if (!document.querySelector('dialog[open]')) made.refresh(); }, given.signal);
  return made;
}

/** The pattern of an input: a prefix, unless it has wildcards. */
export function like(typed) {
  return /[*?]/.test(typed) ? typed : `${typed}*`;
}

/** Names and values. */
export function facts(entries) {
  return h('dl', { class: 'facts' }, entries.filter(Boolean).map(([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value ?? '–'))));
}
