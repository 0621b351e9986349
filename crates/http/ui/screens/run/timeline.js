// From the history of a run to bars on an axis of time: each step, sleep, wait and child from its beginning to its end, with its
// failed attempts. A step is recorded when it is over, so it is drawn from the entry before it.

const ENDS = { step: 'good', 'step-failed': 'bad', fired: 'waiting', received: 'waiting', 'timed-out': 'warn', 'child-ended': 'violet', interrupted: 'warn', dropped: 'waiting' };
const BEGINS = { timer: 'waiting', waiting: 'waiting', child: 'violet', intent: 'good' };
const MOMENTS = {
  started: 'began', signalled: 'signal came', 'taken-over': 'taken over by another worker', completed: 'completed', failed: 'failed', cancelled: 'cancelled',
  terminated: 'terminated', continued: 'began again', retried: 'retried', 'out-of-time': 'its time was up',
};
const MOMENT_TONES = { completed: 'good', failed: 'bad', terminated: 'bad', cancelled: 'warn', 'taken-over': 'warn', 'out-of-time': 'warn' };
const WORDS = { timer: 'sleep', waiting: 'wait', child: 'child', step: 'step', 'step-failed': 'step', intent: 'step', 'attempt-failed': 'step', ambiguous: 'step' };

/** Rows for `fall`. `entries`: [{ kind, recorded_at, data }]; the first came after `begun`, if that is known. */
export function timeline(entries, begun = null) {
  const [rows, open] = [[], new Map()];
  let before = begun;
  for (const entry of entries) {
    const [type, at, data] = [entry.kind, Date.parse(entry.recorded_at), entry.data ?? {}];
    take(rows, open, { type, at, data, before: before ?? at });
    before = at;
  }
  return rows;
}

function take(rows, open, { type, at, data, before }) {
  if (type in MOMENTS) return void rows.push({ what: data.signal ?? MOMENTS[type], where: data.signal ? MOMENTS[type] : undefined, from: at, to: at, moment: true, tone: MOMENT_TONES[type] ?? '' });
  if (data.name === undefined) return;
  let row = open.get(data.name);
  if (!row && (type in ENDS || type in BEGINS || type === 'attempt-failed' || type === 'ambiguous')) {
    row = { what: data.name, where: described(type, data), from: type in BEGINS ? at : before, to: null, tone: BEGINS[type] ?? 'good', ticks: [] };
    rows.push(row);
    open.set(data.name, row);
  }
  if (!row) return;
  if (type === 'attempt-failed') { row.ticks.push(at); row.where = `attempt ${data.attempt} failed: ${data.error}`; }
  if (type === 'ambiguous') { row.tone = 'warn'; row.where = 'nobody knows whether it was done'; }
  if (type in ENDS) {
    Object.assign(row, { to: at, tone: row.tone === 'waiting' && ENDS[type] === 'good' ? 'waiting' : ENDS[type] });
    if (type === 'step-failed') row.where = `failed for good: ${data.error}`;
    if (type === 'timed-out') row.where = 'nothing came in time';
    open.delete(data.name);
  }
}

function described(type, data) {
  if (type === 'waiting') return `wait for the signal ${data.signal}`;
  if (type === 'child') return `child run ${data.run}`;
  return WORDS[type] ?? '';
}
