// What mends a finding, as a button: every action that the doctor knows has one.
//
// What can be sent is asked about and sent. What has to be decided first is asked. What can only be done elsewhere is a command to be copied.

import { h } from '../../lib/h.js';
import { action } from '../../lib/act.js';
import { length } from '../../lib/clock.js';
import { button, toast } from '../../lib/dialog.js';
import { capital, plural } from '../../lib/format.js';
import { href } from '../../lib/router.js';
import { decision } from '../run/decision.js';

/** The button for one action. `again()` has the doctor look anew, and `again({ scan, runs })` further. */
export function remedy(finding, offered, again) {
  const { request } = offered;
  if (offered.action === 'resolve') return decision(offered.run, offered.step, again);
  if (offered.action === 'look_at_event') return h('a', { class: 'button', href: href(['feed'], { after: before(offered.position) }) }, 'Look at it');
  if (['look_further', 'look_at_more_runs'].includes(offered.action) && request) return button('Look further', () => again({ scan: offered.scan, runs: offered.runs }));
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

// What the button is called, and what it does, in a sentence.
function described(it) {
  const meant = capital(work(it));
  const words = {
    unblock: () => ['Unblock', `${meant} is tried again, from where it stopped. Mend the cause first.`],
    defer: () => (Number(it.wait_ms) === 0 ? ['Try at once', `${meant} is tried at once, and not only when its pause is over.`] : [`Defer for ${length(Number(it.wait_ms))}`, `${meant} is not tried for ${length(Number(it.wait_ms))}.`]),
    resume: () => ['Resume', `The run “${it.run}” is tried again now. Deploy code that can go on with it first.`],
    cancel: () => ['Cancel the run', `The run “${it.run}” is asked to cancel. Its function hears of it, and can undo what it did before it ends.`],
    reroute: () => (it.from_beginning
      ? ['Reroute from the beginning', `The events of the reaction “${it.reaction}” are routed again, from the first. Those routed again to computed targets are handled again.`]
      : ['Reroute from now', `The events of the reaction “${it.reaction}” are routed from the next that comes. Those before it that were not routed are left out.`]),
    release: () => ['Release', `The claim “${it.claim}” is free again, if nobody is at it. What its claimant had done by then stays done.`],
  };
  const [label, does] = words[it.action]?.() ?? [capital(String(it.action).replaceAll('_', ' ')), 'The request below is sent.'];
  return { label, does };
}

function work({ reaction, target, queue, key }) {
  if (target !== undefined) return `the target “${target}” of the reaction “${reaction}”`;
  return key === undefined ? `every item of the queue “${queue}”` : `the item “${key}” of the queue “${queue}”`;
}

// Not from here: the command is for a shell that has what this server has not. A page that may not use the clipboard says so.
function copying(command) {
  return button('Copy the command', async () => {
    try {
      await navigator.clipboard.writeText(command);
      toast('The command is copied: fill in what is in capitals, and run it in a shell.');
    } catch {
      toast('The browser does not let this page copy: select the command and copy it.', 'warn');
    }
  });
}

const before = (position) => String(BigInt(String(position)) - 1n);
