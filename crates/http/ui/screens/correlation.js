// A correlation as a waterfall: cause and effect across streams, reactions and runs.

import { h, fill } from '../lib/h.js';
import { at, get } from '../lib/api.js';
import { now } from '../lib/clock.js';
import { button, emptiness } from '../lib/dialog.js';
import { waterfall } from '../lib/waterfall.js';
import { plural, count } from '../lib/format.js';
import { go } from '../lib/router.js';
import { head, searchField } from '../lib/screen.js';
import { tree } from './correlation/tree.js';

// The maximum number of runs whose history is shown, and of entries of each.
const [RUNS, ENTRIES] = [10, 100];

export async function show({ place, path: [id], query, signal }) {
  const search = searchField('id', 'Correlation id', id ?? '');
  const around = h('input', { class: 'input', name: 'around', inputmode: 'numeric', pattern: '[0-9]*', placeholder: 'Around position', 'aria-label': 'Around position', value: query.around ?? '' });
  const form = h('form', { class: 'filters', role: 'search', on: { submit: (event) => { event.preventDefault(); if (search.value) go(['correlations', search.value], { around: around.value }); } } },
    search, around, button('Show', () => form.requestSubmit()));
  const shown = h('div', null);
  place.append(...head('Correlation', { lead: 'Everything that one request led to: events, reactions and runs, in the order of cause and effect.' }).filter(Boolean), form, shown);
  if (!id) return void fill(shown, emptiness('Which correlation?', 'Enter a correlation id, or open an event and follow its link.'));

  const [found, histories] = [[], new Map()];
  await look(null);

  async function look(after) {
    const page = await get(at`correlations/${id}`, { around: query.around, after }, { signal });
    found.push(...(page.items ?? []));
    await readRuns();
    fill(shown, found.length === 0 ? emptiness('Nothing found', searched(page)) : drawn(page));
  }

  // The history of the first runs; the screen of each run has the rest.
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
      h('p', { class: 'note' }, `${plural(found.length, 'entry', 'entries')}. ${searched(page)}`),
      h('div', { class: 'legend', 'aria-hidden': 'true' }, h('span', null, 'event'), h('span', { class: 'violet' }, 'reaction'), h('span', { class: 'good' }, 'run and its steps'), h('span', { class: 'waiting' }, 'sleep or wait')),
      waterfall(rows, { label: `What ${id} led to`, now: now() }),
      page.next && h('div', { class: 'pager' }, button('Search further', () => look(page.next), { kind: 'small' })),
    ];
  }
}

function searched({ range }) {
  if (!range) return '';
  return `Searched positions ${count(range.from)} to ${count(range.to)}.`;
}

