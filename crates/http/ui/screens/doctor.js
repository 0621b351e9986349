// The doctor: why is this not moving? Each finding names the thing, says since when, and has a button for what mends it.

import { h, fill } from '../lib/h.js';
import { get } from '../lib/api.js';
import { since } from '../lib/clock.js';
import { button } from '../lib/dialog.js';
import { badge, plural } from '../lib/format.js';
import { head } from '../lib/screen.js';
import { cure } from './doctor/cure.js';

export async function show({ place, signal }) {
  const [verdict, findings] = [h('div', null), h('div', { class: 'findings', role: 'list' })];
  let far = {};
  const again = button('Examine again', () => examine());
  place.append(...head('Doctor', { actions: again, lead: 'Why is this not moving? What is stuck, since when, and what mends it.' }).filter(Boolean), verdict, findings);
  await examine();

  // Once somebody wanted to look further, that is how far is looked.
  async function examine(further = {}) {
    again.disabled = true;
    far = { scan: further.scan ?? far.scan, runs: further.runs ?? far.runs };
    try {
      const exam = await get('doctor', far, { signal });
      fill(verdict, banner(exam));
      fill(findings, worst(exam.findings).map((finding) => card(finding, examine)), more(exam.more));
    } finally {
      again.disabled = false;
    }
  }
}

// What does not mend by itself comes first, mere facts last.
function worst(findings) {
  const order = ['sick', 'notice', 'fact'];
  return findings.toSorted((one, other) => order.indexOf(one.severity) - order.indexOf(other.severity));
}

// Of each kind only the first few are shown.
function more(kinds = {}) {
  return Object.entries(kinds).map(([kind, many]) => h('p', { class: 'note' }, `And ${plural(many, `more of the kind “${word(kind)}”`, `more of the kind “${word(kind)}”`)}.`));
}

function banner({ healthy, sick }) {
  const text = healthy ? 'This store is healthy: nothing is stuck.' : `${plural(sick, 'thing does not mend by itself', 'things do not mend by themselves')}.`;
  return h('div', { class: `banner ${healthy ? 'good' : 'bad'}`, role: 'status' }, h('span', { class: 'banner-text' }, text));
}

function card(finding, then) {
  const { advice, actions } = cures(finding.cure);
  return h('article', { class: `card finding ${finding.severity ?? 'sick'}`, role: 'listitem' },
    h('div', { class: 'finding-head' }, badge(word(finding.kind)), h('span', { class: 'finding-thing' }, finding.thing), finding.since && h('span', { class: 'note' }, since(finding.since))),
    h('p', { class: 'finding-what' }, finding.what), advice && h('p', { class: 'hint' }, advice),
    actions.map(({ command }) => command && h('code', null, command)),
    h('div', { class: 'finding-cure' }, actions.map((action) => cure(finding, action, then))));
}

const word = (kind) => String(kind).replaceAll('_', ' ');

// What mends it: what people should know first, and what can be done for them.
function cures(cure) {
  if (!cure) return { actions: [] };
  return { advice: cure.advice, actions: cure.actions ?? (cure.command || cure.request ? [cure] : []) };
}
