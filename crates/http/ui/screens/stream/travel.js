// Time travel: the state that a stream folds into, at any version, for registered kinds.

import { h, fill } from '../../lib/h.js';
import { at, get } from '../../lib/api.js';
import { button, toast, trouble } from '../../lib/dialog.js';
import { count } from '../../lib/format.js';
import { differences, viewer } from '../../lib/json.js';

/** A button that opens the panel, and the panel. `reaches(version)` sets the newest version. */
export function traveller({ stream, signal }) {
  const [kind, id] = parts(stream);
  const panel = h('section', { class: 'card travel', hidden: true, 'aria-label': 'State at a version' });
  const [shown, number] = [h('div', { class: 'travel-state' }), h('output', { for: 'travel' })];
  const slider = h('input', { type: 'range', id: 'travel', min: 1, max: 1, 'aria-label': 'Version' });
  const step = (by) => () => { slider.value = String(Number(slider.value) + by); go(); };
  let [why, turn] = ['Loading: it is not known yet whether the server can fold this stream.', 0];
  const toggle = h('button', { type: 'button', class: 'button', 'aria-expanded': 'false', 'aria-disabled': 'true', title: why, on: { click: () => (why ? toast(why, 'warn') : turnPanel(panel.hidden)) } }, 'State');
  const self = { button: toggle, panel, known: false, open, reaches };

  slider.addEventListener('input', go);
  fill(panel, h('div', { class: 'travel-tools' }, h('h2', null, 'State at'), number, button('◀', step(-1), { kind: 'small', title: 'One version back' }), slider, button('▶', step(1), { kind: 'small', title: 'One version on' })),
    shown, h('p', { class: 'hint' }, 'Folded from the events up to this version. The changes of this version are highlighted.'));
  return self;

  async function reaches(version) {
    const first = slider.max === '1' && !self.known;
    slider.max = String(version ?? 1);
    if (!first) return;
    slider.value = slider.max;
    const { kinds = [] } = await get('overview', {}, { signal });
    if (!kinds.includes(kind)) {
      why = `This server cannot fold the events of “${kind}” into a state: ${kinds.length > 0 ? `its kinds are ${kinds.join(', ')}` : 'an application that serves its own store can register its kinds'}.`;
      toggle.title = why;
      return;
    }
    [why, self.known] = [null, true];
    toggle.removeAttribute('aria-disabled');
    toggle.title = 'The state that these events fold into, at any version';
  }

  function open(version) {
    slider.value = String(version);
    turnPanel(true);
    panel.scrollIntoView({ block: 'nearest' });
  }

  function turnPanel(on) {
    panel.hidden = !on;
    toggle.setAttribute('aria-expanded', String(on));
    if (on) go();
  }

  async function go() {
    const [mine, wanted] = [++turn, Number(slider.value)];
    number.textContent = `version ${count(wanted)}`;
    try {
      const [now, before] = await Promise.all([state(wanted), wanted > 1 ? state(wanted - 1) : null]);
      if (mine !== turn) return;
      fill(shown, viewer(now.state, { label: `State at version ${wanted}`, changed: before ? differences(before.state, now.state) : new Set(), before: shown.firstElementChild }));
    } catch (error) {
      if (mine === turn && !signal.aborted) fill(shown, trouble(error, go));
    }
  }

  function state(version) {
    return get(at`states/${kind}/${id}`, { version }, { signal });
  }
}

// The stream of an aggregate is named KIND-ID.
function parts(stream) {
  const dash = stream.indexOf('-');
  return dash < 1 ? [stream, ''] : [stream.slice(0, dash), stream.slice(dash + 1)];
}
