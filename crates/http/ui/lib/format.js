// Formatting of counts, names and states.

import { h, visible } from './h.js';
import { href } from './router.js';

const COUNT = new Intl.NumberFormat('en-US');

/** 1,234,567. Exact for numbers of any size. */
export function count(value) {
  if (value === undefined || value === null) return '–';
  return typeof value === 'number' ? COUNT.format(value) : String(value);
}

/** A rate, with its significant digits. */
export function rate(value) {
  const number = Number(value ?? 0);
  if (number === 0) return '0';
  return number < 10 ? number.toFixed(1) : COUNT.format(Math.round(number));
}

/** Singular or plural: plural(3, 'event'). */
export function plural(many, one, more = `${one}s`) {
  return `${count(many)} ${Number(many) === 1 ? one : more}`;
}

/** Capitalizes the first letter. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const TONES = {
  good: ['ok', 'healthy', 'completed', 'done', 'live', 'held', 'running', 'routing', 'won'],
  warn: ['waiting', 'retrying', 'parked', 'expired', 'due', 'lagging', 'unknown outcome', 'warning', 'over', 'compensating', 'cancelled', 'cancelling', 'not routed'],
  bad: ['blocked', 'failed', 'unhealthy', 'terminated', 'refused', 'unrouted', 'error'],
};

/** A state as a badge: a word, and a color that repeats it. */
export function badge(state, title) {
  const tone = Object.keys(TONES).find((tone) => TONES[tone].includes(state)) ?? 'plain';
  return h('span', { class: `badge ${tone}`, title }, state);
}

export const streamLink = (name) => link(['streams', name], name);
export const runLink = (id) => link(['runs', id], id);
export const correlationLink = (id, around) => link(['correlations', id], id, { around });

/** A name that links to its screen. */
export function link(path, name, query) {
  return h('a', { href: href(path, query), class: 'name', title: visible(String(name)) }, name);
}

/** An error's full text. */
export function errorText(error) {
  return error ? h('span', { class: 'error-text', title: visible(error) }, error) : null;
}
