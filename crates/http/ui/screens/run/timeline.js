// Converts the history of a run to bars on a time axis: each step, sleep, wait and child from start to end, with its
// failed attempts. A step is recorded when it ends, so its bar starts at the previous entry.

const ENDS = { step: 'good', 'step-failed': 'bad', fired: 'waiting', received: 'waiting', 'timed-out': 'warn', 'child-ended': 'violet', interrupted: 'warn', dropped: 'waiting' };
const BEGINS = { timer: 'waiting', waiting: 'waiting', child: 'violet', intent: 'good' };
const MOMENTS = {
  started: 'started', signalled: 'signal received', 'taken-over': 'taken over by another worker', completed: 'completed', failed: 'failed', cancelled: 'cancelled',
  terminated: 'terminated', continued: 'continued as new', retried: 'retried', 'out-of-time': 'timed out',
};
const MOMENT_TONES = { completed: 'good', failed: 'bad', terminated: 'bad', cancelled: 'warn', 'taken-over': 'warn', 'out-of-time': 'warn' };
const WORDS = { timer: 'sleep', waiting: 'wait', child: 'child', step: 'step', 'step-failed': 'step', intent: 'step', 'attempt-failed': 'step', 'unknown-outcome': 'step' };

/** Rows for `waterfall`. `entries`: [{ kind, recorded_at, data }]; the first came after `begun`, if that is known. */
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
  if (!row && (type in ENDS || type in BEGINS || type === 'attempt-failed' || type === 'unknown-outcome')) {
    row = { what: data.name, where: described(type, data), from: type in BEGINS ? at : before, to: null, tone: BEGINS[type] ?? 'good', ticks: [] };
    rows.push(row);
    open.set(data.name, row);
  }
  if (!row) return;
  if (type === 'attempt-failed') { row.ticks.push(at); row.where = `attempt ${data.attempt} failed: ${data.error}`; }
  if (type === 'unknown-outcome') { row.tone = 'warn'; row.where = 'unknown outcome'; }
  if (type in ENDS) {
    Object.assign(row, { to: at, tone: row.tone === 'waiting' && ENDS[type] === 'good' ? 'waiting' : ENDS[type] });
    if (type === 'step-failed') row.where = `failed: ${data.error}`;
    if (type === 'timed-out') row.where = 'timed out';
    open.delete(data.name);
  }
}

function described(type, data) {
  if (type === 'waiting') return `wait for the signal ${data.signal}`;
  if (type === 'child') return `child run ${data.run}`;
  return WORDS[type] ?? '';
}
