// The status of a run, as text.

import { h } from '../../lib/h.js';
import { since, until } from '../../lib/clock.js';
import { capital, errorText, runLink } from '../../lib/format.js';
import { viewer } from '../../lib/json.js';

/** Paragraphs that describe the status. */
export function status(it) {
  const [kind, given] = Object.entries(it ?? {})[0] ?? ['', {}];
  const lines = {
    running: () => [['Worker ', h('strong', null, given.worker), ' has driven it since ', since(given.since), '; the lease expires ', until(given.until), '.']],
    due: () => [['Waiting for a worker with its workflow since ', since(given.since), '.']],
    waiting: () => waiting(given),
    parked: () => [['Parked: it could not be driven, and has not failed.'], [errorText(given.error)], given.again_at ? ['Next attempt ', until(given.again_at), '.'] : ['It is not tried again by itself.']],
    ended: () => [[`${capital(Object.keys(given)[0] ?? given)}.`]],
  }[kind]?.() ?? [['Unknown status.']];
  return lines.map((line) => h('p', { class: 'run-status' }, line));
}

function waiting({ on = [], until: moment }) {
  const lines = on.map(waitsFor);
  if (moment) lines.push(['It continues ', until(moment), '.']);
  return lines.length === 0 ? [['Waiting.']] : lines;
}

function waitsFor(awaited) {
  const [kind, it] = Object.entries(awaited)[0];
  return {
    time: () => ['Sleeps in ', name(it.name), ': wakes ', until(it.until), '.'],
    signal: () => ['Waits for the signal ', name(it.signal), ' in ', name(it.name), it.until ? [', until ', until(it.until)] : '', '.'],
    child: () => ['Waits for the run ', runLink(it.run), ', its ', name(it.name), '.'],
    attempt: () => ['The step ', name(it.step), ` failed ${it.failed} times and is tried again `, until(it.again_at), '. ', errorText(it.error)],
    verdict: () => ['The step ', name(it.step), ' has an unknown outcome: its worker died during it. An operator has to decide.'],
  }[kind]?.() ?? [kind];
}

const name = (text) => h('span', { class: 'name' }, text);

/** The result, or the error. */
export function ending(it) {
  const outcome = it?.ended;
  if (!outcome) return null;
  const [kind, value] = Object.entries(outcome)[0];
  return [h('h2', null, kind === 'completed' ? 'Result' : 'Outcome'), kind === 'failed' ? errorText(value.error) : viewer(value, { label: 'Result' })];
}
