// Orders entries by cause and effect.

import { href } from '../../lib/router.js';
import { timeline } from '../run/timeline.js';

const TONES = { event: '', reaction: 'violet', run: 'good' };
const STATES = { blocked: 'bad', failed: 'bad', terminated: 'bad', waiting: 'waiting', cancelled: 'warn' };

/**
 * Rows for a waterfall: each thing below what led to it, and those of one cause in the order of time.
 * `histories`: what happened in runs, by the id of the run, as far as it was read; it stands below its run, among what that led to.
 */
export function tree(things, histories = new Map()) {
  const known = new Map(things.map((thing) => [String(thing.id), thing]));
  const under = new Map();
  for (const thing of things) {
    const cause = known.has(String(thing.causation)) && thing.causation !== thing.id ? String(thing.causation) : '';
    under.set(cause, [...(under.get(cause) ?? []), thing]);
  }
  const [rows, seen] = [[], new Set()];
  const walk = (cause, depth, inside = []) => {
    const below = [...(under.get(cause) ?? []).map((thing) => ({ at: when(thing), thing })), ...inside.map((step) => ({ at: step.from, step }))];
    for (const { thing, step } of below.sort((a, b) => a.at - b.at)) {
      if (step) rows.push({ ...step, depth });
      if (!thing || seen.has(thing)) continue;
      seen.add(thing);
      rows.push(row(thing, depth));
      walk(String(thing.id), depth + 1, steps(thing, histories));
    }
  };
  walk('', 0);
  // A cycle of causes has no root, and is shown all the same.
  for (const thing of things) if (!seen.has(thing)) rows.push(row(thing, 0));
  return rows;
}

// The steps and waits of a run. Its start and its end are those of its own row.
function steps(thing, histories) {
  const entries = thing.kind === 'run' ? histories.get(thing.run) ?? [] : [];
  const told = entries.filter(({ kind }) => !['started', 'completed'].includes(kind));
  return timeline(told, Date.parse(thing.at)).map((step) => ({ ...step, to: step.to ?? ended(thing) ?? null, href: destination(thing) }));
}

const ended = (thing) => (thing.until ? Date.parse(thing.until) : null);

const when = (thing) => Date.parse(thing.at);

function row(thing, depth) {
  const [from, until, open] = [when(thing), ended(thing), ['open', 'waiting', 'blocked'].includes(thing.state)];
  return {
    depth, from, to: until ?? (open ? null : from), moment: until === null && !open,
    what: thing.name, where: place(thing), tone: thing.error ? 'bad' : STATES[thing.state] ?? TONES[thing.kind] ?? '', href: destination(thing),
  };
}

function place(thing) {
  if (thing.error) return `${thing.where}: ${thing.error}`;
  if (thing.kind === 'run') return `run ${thing.where}, ${thing.state}`;
  return thing.kind === 'reaction' ? `${thing.where}, ${thing.state}` : thing.where;
}

function destination(thing) {
  if (thing.run) return href(['runs', thing.run]);
  if (thing.kind === 'reaction') return href(['reactions', thing.reaction]);
  return thing.stream ? href(['streams', thing.stream]) : undefined;
}
