// The doctor: why is this not moving? Each finding names its subject, says since when, and has a button for each remedy.

import { h, fill } from '../lib/h.js';
import { get } from '../lib/api.js';
import { since } from '../lib/clock.js';
import { button } from '../lib/dialog.js';
import { badge, plural } from '../lib/format.js';
import { head } from '../lib/screen.js';
import { remedy } from './doctor/remedy.js';

export async function show({ place, signal }) {
  const [verdict, findings] = [h('div', null), h('div', { class: 'findings', role: 'list' })];
  let far = {};
  const again = button('Examine again', () => examine());
  place.append(...head('Doctor', { actions: again, lead: 'Why is this not moving? What is stuck, since when, and what fixes it.' }).filter(Boolean), verdict, findings);
  await examine();

  // Extended limits stay in force for later examinations.
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

// Errors first, information last.
function worst(findings) {
  const order = ['error', 'warning', 'info'];
  return findings.toSorted((one, other) => order.indexOf(one.severity) - order.indexOf(other.severity));
}

// Only the first few findings of each kind are shown.
function more(kinds = {}) {
  return Object.entries(kinds).map(([kind, many]) => h('p', { class: 'note' }, `And ${plural(many, `more of the kind “${word(kind)}”`, `more of the kind “${word(kind)}”`)}.`));
}

function banner({ healthy, errors }) {
  const text = healthy ? 'This store is healthy: nothing is stuck.' : `${plural(errors, 'problem needs', 'problems need')} attention.`;
  return h('div', { class: `banner ${healthy ? 'good' : 'bad'}`, role: 'status' }, h('span', { class: 'banner-text' }, text));
}

function card(finding, then) {
  const { advice, actions } = remedies(finding.remedy);
  return h('article', { class: `card finding ${finding.severity ?? 'error'}`, role: 'listitem' },
    h('div', { class: 'finding-head' }, badge(word(finding.kind)), h('span', { class: 'finding-subject' }, finding.subject), finding.since && h('span', { class: 'note' }, since(finding.since))),
    h('p', { class: 'finding-what' }, finding.what), advice && h('p', { class: 'hint' }, advice),
    actions.map(({ command }) => command && h('code', null, command)),
    h('div', { class: 'finding-remedy' }, actions.map((action) => remedy(finding, action, then))));
}

const word = (kind) => String(kind).replaceAll('_', ' ');

// The advice and the actions of a finding.
function remedies(remedy) {
  if (!remedy) return { actions: [] };
  return { advice: remedy.advice, actions: remedy.actions ?? [] };
}
