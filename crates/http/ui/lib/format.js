// Small things that are shown everywhere in the same way: counts, names, states.

import { h, visible } from './h.js';
import { href } from './router.js';

const COUNT = new Intl.NumberFormat('en-US');

/** 1,234,567. What is too large to be counted exactly is shown digit by digit. */
export function count(value) {
  if (value === undefined || value === null) return '–';
  return typeof value === 'number' ? COUNT.format(value) : String(value);
}

/** A rate, with as many digits as mean something. */
export function rate(value) {
  const number = Number(value ?? 0);
  if (number === 0) return '0';
  return number < 10 ? number.toFixed(1) : COUNT.format(Math.round(number));
}

/** One thing or many: plural(3, 'event'). */
export function plural(many, one, more = `${one}s`) {
  return `${count(many)} ${Number(many) === 1 ? one : more}`;
}

/** As a sentence begins. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const TONES = {
  good: ['ok', 'healthy', 'completed', 'done', 'live', 'held', 'running', 'routing', 'won'],
  warn: ['waiting', 'retrying', 'parked', 'expired', 'due', 'lagging', 'ambiguous', 'warning', 'over', 'compensating', 'cancelled', 'cancelling', 'nobody routes'],
  bad: ['blocked', 'failed', 'unhealthy', 'terminated', 'refused', 'unrouted', 'error'],
};

/** A state as a badge: a word, and a color that only repeats it. */
export function badge(state, title) {
  const tone = Object.keys(TONES).find((tone) => TONES[tone].includes(state)) ?? 'plain';
  return h('span', { class: `badge ${tone}`, title }, state);
}

export const streamLink = (name) => link(['streams', name], name);
export const runLink = (id) => link(['runs', id], id);
export const correlationLink = (id, around) => link(['correlations', id], id, { around });

/** A name that leads to its screen. */
export function link(path, name, query) {
  return h('a', { href: href(path, query), class: 'name', title: visible(String(name)) }, name);
}

/** An error as it was kept: all of it, on lines of its own. */
export function errorText(error) {
  return error ? h('span', { class: 'error-text', title: visible(error) }, error) : null;
}
