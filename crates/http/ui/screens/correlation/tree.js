// From things that name their cause to rows in the order of cause and effect.

import { href } from '../../lib/router.js';

const TONES = { event: '', reaction: 'violet', run: 'good' };

/** Rows for a waterfall: each thing below what led to it, and those of one cause in the order of time. */
export function tree(found) {
  const things = folded(found);
  const known = new Map(things.map((thing) => [String(thing.id), thing]));
  const under = new Map();
  for (const thing of things) {
    const cause = known.has(String(thing.causation)) && thing.causation !== thing.id ? String(thing.causation) : '';
    under.set(cause, [...(under.get(cause) ?? []), thing]);
  }
  const [rows, seen] = [[], new Set()];
  const walk = (cause, depth) => {
    for (const thing of (under.get(cause) ?? []).sort((a, b) => when(a) - when(b))) {
      if (seen.has(thing)) continue;
      seen.add(thing);
      rows.push(row(thing, depth));
      walk(String(thing.id), depth + 1);
    }
  };
  walk('', 0);
  // What names each other as its cause in a circle has no beginning, and is shown all the same.
  for (const thing of things) if (!seen.has(thing)) rows.push(row(thing, 0));
  return rows;
}

// What happened in a run is many events of one stream, named after the run: here they are one thing, from its first to its last.
const RUN = '~run/';

function folded(found) {
  const [things, runs] = [[], new Map()];
  for (const thing of found) {
    const run = thing.kind === 'event' && thing.stream.startsWith(RUN) ? thing.stream.slice(RUN.length) : null;
    const row = runs.get(run);
    if (row) Object.assign(row, { until: thing.at, ids: [...row.ids, thing.id] });
    else if (run === null) things.push(thing);
    else runs.set(run, { ...thing, kind: 'run', name: run, where: 'run', run, until: thing.at, ids: [thing.id] });
  }
  // What one of a run's events led to, the run led to.
  const inside = new Map([...runs.values()].flatMap((row) => row.ids.map((id) => [id, row.id])));
  return [...things, ...runs.values()].map((thing) => ({ ...thing, causation: inside.get(thing.causation) ?? thing.causation }));
}

const when = (thing) => Date.parse(thing.at);

function row(thing, depth) {
  return {
    depth, from: when(thing), to: thing.until ? Date.parse(thing.until) : when(thing), moment: !thing.until,
    what: thing.name, where: thing.where, tone: thing.error ? 'bad' : TONES[thing.kind] ?? '', href: destination(thing),
  };
}

function destination(thing) {
  if (thing.kind === 'run') return href(['runs', thing.run]);
  if (thing.kind === 'reaction') return href(['reactions', thing.reaction]);
  return thing.stream ? href(['streams', thing.stream]) : undefined;
}
