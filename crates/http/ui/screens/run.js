// One run: its status, its timeline, and operators' actions.

import { h, fill } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { action } from '../lib/act.js';
import { now, since, until } from '../lib/clock.js';
import { emptiness, field } from '../lib/dialog.js';
import { waterfall } from '../lib/waterfall.js';
import { badge, count, runLink, streamLink } from '../lib/format.js';
import { viewer } from '../lib/json.js';
import { onBeat } from '../lib/live.js';
import { href } from '../lib/router.js';
import { facts, head } from '../lib/screen.js';
import { decision } from './run/decision.js';
import { signalAction } from './run/signal.js';
import { ending, status } from './run/status.js';
import { timeline } from './run/timeline.js';

const [PAGE, MOST] = [200, 2000];

export async function show({ place, path: [id], signal }) {
  const [about, where, line, said] = ['div', 'div', 'div', 'div'].map((tag) => h(tag, null));
  const [state, actions] = [h('span', null), h('div', { class: 'actions' })];
  place.append(...head(id, { crumb: [h('a', { href: href(['runs']) }, 'Runs'), ' /'], beside: [state, actions] }).filter(Boolean), about, where,
    h('section', { class: 'section' }, h('h2', null, 'Timeline'), line), h('section', { class: 'section' }, said));
  const entries = [];
  let [after, seen, reading] = [null, '', false];

  await read();
  onBeat(() => { if (!document.querySelector('dialog[open]')) read(); }, signal);

  async function read() {
    if (reading) return;
    reading = true;
    try {
      const [run] = await Promise.all([get(at`runs/${id}`, {}, { signal }), readOn()]);
      const published = await get(at`runs/${id}/published`, {}, { signal }).catch(() => null);
      draw(run, published);
    } finally {
      reading = false;
    }
  }

  // Only new entries are read.
  async function readOn() {
    while (entries.length < MOST) {
      const page = await get(at`runs/${id}/history`, { after, limit: PAGE }, { signal });
      entries.push(...page.items);
      if (page.items.length > 0) after = page.items.at(-1).version;
      if (!page.next || page.items.length === 0) return;
    }
  }

  function draw(run, published) {
    const text = JSON.stringify([run, entries.length, published]);
    if (text === seen) return;
    seen = text;
    const running = !run.ended_at;
    fill(state, badge(run.state));
    fill(actions, buttons(id, run, running, read));
    fill(about, facts([
      ['Workflow', h('span', { class: 'name' }, `${run.workflow}@${run.version}`)], ['Started', since(run.started_at)], run.ended_at && ['Ended', since(run.ended_at)],
      run.deadline_at && ['Deadline', until(run.deadline_at)], run.generation > 1 && ['Generation', count(run.generation)],
      run.parent && ['Parent', runLink(run.parent)], ...Object.entries(run.attributes ?? {}),
    ]));
    fill(where, h('div', { class: 'card' }, status(run.status), (run.status?.waiting?.on ?? []).filter((on) => on.verdict).map((on) => decision(id, on.verdict.step, read))));
    const rows = timeline(entries);
    fill(line, rows.length === 0 ? emptiness('Nothing happened yet', 'The run waits for a worker with its workflow.') : [legend(), waterfall(rows, { label: `What run ${id} did`, now: now() })],
      entries.length >= MOST && h('p', { class: 'note' }, `The first ${count(MOST)} entries; the rest is in `, streamLink(`~run/${id}`)));
    fill(said, published?.published !== undefined && published?.published !== null && [h('h2', null, 'Published'), viewer(published.published, { label: 'Published' })], ending(run.status));
  }
}

function legend() {
  return h('div', { class: 'legend', 'aria-hidden': 'true' }, h('span', { class: 'good' }, 'step'), h('span', { class: 'waiting' }, 'sleep or wait'),
    h('span', { class: 'violet' }, 'child'), h('span', { class: 'bad' }, 'failed attempt'), h('span', { class: 'warn' }, 'unknown outcome'));
}

function buttons(id, run, running, then) {
  const because = (label, verb, what, kind) => {
    const reason = h('input', { class: 'input', name: 'reason', required: true, value: 'requested in the inspector' });
    return action({
      label, kind, what, then, title: `${label}: ${id}`, fields: field('Reason', reason, 'Kept in the history of the run.'),
      request: () => ({ method: 'POST', path: at`runs/${id}/` + verb, body: { reason: reason.value } }), done: () => `Done: ${label.toLowerCase()} was requested for the run “${id}”.`,
    });
  };
  const plain = (label, verb, what) => action({ label, what, then, title: `${label}: ${id}`, request: () => ({ method: 'POST', path: at`runs/${id}/` + verb, body: {} }), done: () => `Done: the run “${id}” goes on.` });
  return [
    running && signalAction(id, run.status, then),
    run.status?.parked && plain('Resume', 'resume', `The run “${id}” is tried again now, before its backoff is over.`),
    run.state === 'failed' && because('Retry', 'retry', `The run “${id}” continues at the failed step. Completed steps are not repeated.`),
    running && because('Cancel', 'cancel', `The run “${id}” is asked to cancel. Its function can clean up before it ends.`),
    running && because('Terminate', 'terminate', `The run “${id}” ends at once. Nothing is undone.`, 'danger'),
  ];
}

