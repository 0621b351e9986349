// Where a run stands, in words.

import { h } from '../../lib/h.js';
import { since, until } from '../../lib/clock.js';
import { errorText, runLink } from '../../lib/format.js';
import { viewer } from '../../lib/json.js';

/** A sentence for each thing to be said. */
export function standing(it) {
  const [kind, given] = Object.entries(it ?? {})[0] ?? ['', {}];
  const lines = {
    running: () => [['Worker ', h('strong', null, given.worker), ' drives it, since ', since(given.since), '; its lease ends ', until(given.until), '.']],
    due: () => [['It has been due for a worker that has its workflow, since ', since(given.since), '.']],
    waiting: () => waiting(given),
    parked: () => [['It could not be driven, and is neither failed nor lost.'], [errorText(given.error)], given.again_at ? ['It is tried again ', until(given.again_at), '.'] : ['It is not tried again by itself.']],
    ended: () => [[`It has ended: ${Object.keys(given)[0] ?? given}.`]],
  }[kind]?.() ?? [['Where it stands is not known to this page.']];
  return lines.map((line) => h('p', { class: 'standing' }, line));
}

function waiting({ on = [], until: moment }) {
  const lines = on.map(waitsFor);
  if (moment) lines.push(['It goes on by itself ', until(moment), '.']);
  return lines.length === 0 ? [['It waits.']] : lines;
}

function waitsFor(awaited) {
  const [kind, it] = Object.entries(awaited)[0];
  return {
    time: () => ['Sleeps in ', name(it.name), ': wakes ', until(it.until), '.'],
    signal: () => ['Waits for the signal ', name(it.signal), ' in ', name(it.name), it.until ? [', until ', until(it.until)] : '', '.'],
    child: () => ['Waits for the run ', runLink(it.run), ', its ', name(it.name), '.'],
    attempt: () => ['The step ', name(it.step), ` failed ${it.failed} times and is tried again `, until(it.again_at), '. ', errorText(it.error)],
    verdict: () => ['Nobody knows whether the step ', name(it.step), ' was done: the worker died while it was at it. Somebody has to say so.'],
  }[kind]?.() ?? [kind];
}

const name = (text) => h('span', { class: 'name' }, text);

/** How it ended, whole. */
export function ending(it) {
  const outcome = it?.ended;
  if (!outcome) return null;
  const [kind, value] = Object.entries(outcome)[0];
  return [h('h2', null, kind === 'completed' ? 'Its result' : 'How it ended'), kind === 'failed' ? errorText(value.error) : viewer(value, { label: 'Result' })];
}
