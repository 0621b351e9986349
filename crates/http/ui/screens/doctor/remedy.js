// The remedies of a finding, as buttons: every action of the doctor has one.
//
// Requests are confirmed and sent; decisions are asked for first; actions outside the server are commands to copy.

import { h } from '../../lib/h.js';
import { action } from '../../lib/act.js';
import { length } from '../../lib/clock.js';
import { button, toast } from '../../lib/dialog.js';
import { capital, plural } from '../../lib/format.js';
import { href } from '../../lib/router.js';
import { decision } from '../run/decision.js';

/** The button for one action. `again()` examines again, and `again({ scan, runs })` with higher limits. */
export function remedy(finding, offered, again) {
  const { request } = offered;
  if (offered.action === 'resolve') return decision(offered.run, offered.step, again);
  if (offered.action === 'show_event') return h('a', { class: 'button', href: href(['feed'], { after: before(offered.position) }) }, 'Open');
  if (['raise_scan_limit', 'raise_run_limit'].includes(offered.action) && request) return button('Examine more', () => again({ scan: offered.scan, runs: offered.runs }));
  return request ? sending(finding, offered, again) : copying(offered.command);
}

function sending({ subject, what }, offered, then) {
  const { label, does } = described(offered);
  return action({
    label, kind: 'primary', then, title: `Fix ${subject}`, what: [does, ' ', h('span', { class: 'hint' }, `Problem: ${what}`)],
    request: () => ({ ...offered.request, path: offered.request.path.replace(/^\/?v1\//, '') }),
    done: (answer) => (answer?.changed === undefined ? `Done: ${label.toLowerCase()}.` : `Done: ${plural(answer.changed, 'item')} changed.`),
  });
}

// The button's label, and a sentence about what it does.
function described(it) {
  const meant = capital(work(it));
  const words = {
    unblock: () => ['Unblock', `${meant} continues where it stopped. Fix the cause first.`],
    defer: () => (Number(it.wait_ms) === 0 ? ['Try at once', `${meant} is tried at once, before its backoff is over.`] : [`Defer for ${length(Number(it.wait_ms))}`, `${meant} is not tried for ${length(Number(it.wait_ms))}.`]),
    resume: () => ['Resume', `The run “${it.run}” is tried again now. Deploy code that can continue it first.`],
    cancel: () => ['Cancel the run', `The run “${it.run}” is asked to cancel. Its function can clean up before it ends.`],
    reroute: () => (it.from_beginning
      ? ['Reroute from the beginning', `The events of the reaction “${it.reaction}” are routed again, from the first. Those routed again to computed targets are handled again.`]
      : ['Reroute from now', `The events of the reaction “${it.reaction}” are routed from the next one on. Earlier ones that were not routed are skipped.`]),
    release: () => ['Release', `The claim “${it.claim}” is released, if it is not held. Work already done is not undone.`],
  };
  const [label, does] = words[it.action]?.() ?? [capital(String(it.action).replaceAll('_', ' ')), 'The request below is sent.'];
  return { label, does };
}

function work({ reaction, target, queue, key }) {
  if (target !== undefined) return `the target “${target}” of the reaction “${reaction}”`;
  return key === undefined ? `every item of the queue “${queue}”` : `the item “${key}” of the queue “${queue}”`;
}

// The command needs a shell with resources that the server does not have.
function copying(command) {
  return button('Copy the command', async () => {
    try {
      await navigator.clipboard.writeText(command);
      toast('Copied: replace the words in capitals, and run the command in a shell.');
    } catch {
      toast('The browser does not allow copying: select the command and copy it.', 'warn');
    }
  });
}

const before = (position) => String(BigInt(String(position)) - 1n);
