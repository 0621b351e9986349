// A conversation as a waterfall: what led to what, across streams, reactions and runs.

import { h, fill } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { now } from '../lib/clock.js';
import { button, emptiness } from '../lib/dialog.js';
import { fall } from '../lib/fall.js';
import { plural, count } from '../lib/format.js';
import { go } from '../lib/router.js';
import { head, searchField } from '../lib/screen.js';
import { tree } from './correlation/tree.js';

// Runs of which is shown what they did, and how much of it, at most.
const [RUNS, ENTRIES] = [10, 100];

export async function show({ place, path: [id], query, signal }) {
  const search = searchField('id', 'Correlation id', id ?? '');
  const around = h('input', { class: 'input', name: 'around', inputmode: 'numeric', pattern: '[0-9]*', placeholder: 'Around position', 'aria-label': 'Around position', value: query.around ?? '' });
  const form = h('form', { class: 'filters', role: 'search', on: { submit: (event) => { event.preventDefault(); if (search.value) go(['correlations', search.value], { around: around.value }); } } },
    search, around, button('Show', () => form.requestSubmit()));
  const shown = h('div', null);
  place.append(...head('Correlation', { lead: 'Everything that one request led to: events, the reactions that handled them, and runs, in the order of cause and effect.' }).filter(Boolean), form, shown);
  if (!id) return void fill(shown, emptiness('Which conversation?', 'Type its correlation id, or open an event and follow its correlation from there.'));

  const [found, histories] = [[], new Map()];
  await look(null);

  async function look(after) {
    const page = await get(at`correlations/${id}`, { around: query.around, after }, { signal });
    found.push(...(page.items ?? []));
    await readRuns();
    fill(shown, found.length === 0 ? emptiness('Nothing of it was found there', range(page)) : drawn(page));
  }

  // What the first runs did; the screen of each tells the rest.
  async function readRuns() {
    const runs = found.filter((thing) => thing.kind === 'run' && !histories.has(thing.run)).slice(0, RUNS - histories.size);
    await Promise.all(runs.map(async ({ run }) => {
      const page = await get(at`runs/${run}/history`, { limit: ENTRIES }, { signal }).catch(() => ({ items: [] }));
      histories.set(run, page.items);
    }));
  }

  function drawn(page) {
    const rows = tree(found, histories);
    return [
      h('p', { class: 'note' }, `${plural(found.length, 'thing')}. ${range(page)}`),
      h('div', { class: 'legend', 'aria-hidden': 'true' }, h('span', null, 'event'), h('span', { class: 'violet' }, 'reaction'), h('span', { class: 'good' }, 'run and its steps'), h('span', { class: 'waiting' }, 'sleep or wait')),
      fall(rows, { label: `What ${id} led to`, now: now() }),
      page.next && h('div', { class: 'pager' }, button('Look further', () => look(page.next), { kind: 'small' })),
    ];
  }
}

function range({ looked }) {
  if (!looked) return '';
  return `Looked at positions ${count(looked.from)} to ${count(looked.to)}.`;
}

