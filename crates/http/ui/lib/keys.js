// Keyboard shortcuts of every screen.

import { h } from './h.js';
import { button, open } from './dialog.js';
import { go } from './router.js';

const GOING = 1000;

/** Starts listening. `screens`: [{ letter, path, title }]. */
export function begin(screens) {
  let going = 0;
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') return leave(event.target);
    if (event.target.matches('input, textarea, select')) return;
    const screen = Date.now() - going < GOING && screens.find(({ letter }) => letter === event.key);
    if (screen) { going = 0; event.preventDefault(); return go(screen.path); }
    if (event.key === 'g') going = Date.now();
    if (event.key === '/') { event.preventDefault(); search()?.focus(); }
    if (event.key === '?') { event.preventDefault(); help(screens); }
  });
}

const search = () => document.querySelector('#main [data-search]') ?? document.querySelector('#main input[type=search]');

function leave(element) {
  if (element.matches('input')) {
    if (element.type === 'search' && element.value !== '') {
      element.value = '';
      element.dispatchEvent(new Event('input', { bubbles: true }));
    } else element.blur();
  }
}

/** Shows the shortcuts. */
export function help(screens) {
  const line = (keys, what) => h('div', { class: 'key-line' }, h('dt', null, keys.map((key) => h('kbd', null, key))), h('dd', null, what));
  const dialog = open({
    title: 'Keyboard',
    body: h('dl', { class: 'keys' },
      line(['/'], 'Search or filter on this screen'), line(['↑', '↓'], 'From row to row; also k and j'), line(['Enter'], 'Open what the focus is on'),
      line(['Esc'], 'Close, clear or leave a field'), line(['?'], 'This list'), screens.map(({ letter, title }) => line(['g', letter], title))),
    foot: [button('Close', () => dialog.close(), { kind: 'primary' })],
  });
}
