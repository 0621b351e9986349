// One scope: its document, live.

import { h, fill } from '../lib/h.js';
import { at, follow, get } from '../lib/api.js';
import { until } from '../lib/clock.js';
import { count } from '../lib/format.js';
import { differences, viewer } from '../lib/json.js';
import { href } from '../lib/router.js';
import { facts, head } from '../lib/screen.js';

export async function show({ place, path: [kind, id], signal }) {
  const [about, shown] = [h('div', null), h('div', null)];
  place.append(...head(`${kind} / ${id}`, { crumb: [h('a', { href: href(['scopes']) }, 'Scopes'), ' /'] }).filter(Boolean), about, shown);
  let before;
  draw(await get(at`scopes/${kind}/${id}`, {}, { signal }));
  follow(at`scopes/${kind}/${id}/watch`, {}, { signal, on: (type, scope) => draw(scope) }).catch(() => {});

  function draw(scope) {
    if (!scope || scope.state === undefined) return;
    fill(about, facts([['Kind', kind], ['Revision', count(scope.revision)], ['Expires', scope.expires_at ? until(scope.expires_at) : 'never']]));
    const changed = before === undefined ? new Set() : differences(before, scope.state);
    if (before !== undefined && changed.size === 0) return;
    before = scope.state;
    fill(shown, viewer(scope.state, { label: `State of ${kind} ${id}`, changed, before: shown.firstElementChild }));
  }
}
