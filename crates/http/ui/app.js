// The application shell: bar, navigation, and the current screen. A screen is given an element and an abort signal, and nothing
// else.

import { h, fill } from './lib/h.js';
import { begin as beginClock } from './lib/clock.js';
import { button, trouble } from './lib/dialog.js';
import { icon, mark } from './lib/icons.js';
import { here, href } from './lib/router.js';
import * as keys from './lib/keys.js';
import * as live from './lib/live.js';
import * as session from './lib/session.js';
import * as theme from './lib/theme.js';

import * as audit from './screens/audit.js';
import * as claims from './screens/claims.js';
import * as correlation from './screens/correlation.js';
import * as doctor from './screens/doctor.js';
import * as feed from './screens/feed.js';
import * as leases from './screens/leases.js';
import * as overview from './screens/overview.js';
import * as reactions from './screens/reactions.js';
import * as reaction from './screens/reaction.js';
import * as run from './screens/run.js';
import * as runs from './screens/runs.js';
import * as scope from './screens/scope.js';
import * as scopes from './screens/scopes.js';
import * as stream from './screens/stream.js';
import * as streams from './screens/streams.js';

// In the order of the navigation. `one` is the detail screen, by name.
const SCREENS = [
  { name: 'overview', title: 'Overview', letter: 'o', path: [], all: overview },
  { name: 'streams', title: 'Streams', letter: 's', path: ['streams'], all: streams, one: stream },
  { name: 'feed', title: 'Feed', letter: 'f', path: ['feed'], all: feed },
  { name: 'correlations', title: 'Correlations', letter: 'c', path: ['correlations'], all: correlation, one: correlation },
  { name: 'reactions', title: 'Reactions', letter: 'r', path: ['reactions'], all: reactions, one: reaction },
  { name: 'runs', title: 'Runs', letter: 'u', path: ['runs'], all: runs, one: run },
  { name: 'leases', title: 'Leases', letter: 'l', path: ['leases'], all: leases },
  { name: 'scopes', title: 'Scopes', letter: 'p', path: ['scopes'], all: scopes, one: scope },
  { name: 'claims', title: 'Claims and quotas', letter: 'q', path: ['claims'], all: claims },
  { name: 'doctor', title: 'Doctor', letter: 'd', path: ['doctor'], all: doctor },
  { name: 'audit', title: 'Audit', letter: 'a', path: ['audit'], all: audit },
];

const [bar, nav, main] = ['bar', 'nav', 'main'].map((id) => document.getElementById(id));
let leaving = new AbortController();

// Leaving a screen aborts its requests. The rejections that this causes are not errors.
for (const told of ['unhandledrejection', 'error']) {
  addEventListener(told, (event) => { if ((event.reason ?? event.error)?.name === 'AbortError') event.preventDefault(); });
}

function show() {
  leaving.abort();
  leaving = new AbortController();
  const { path, query } = here();
  const screen = SCREENS.find(({ path: [first] }) => first === path[0]);
  const shown = screen && path.length > 1 ? screen.one : screen?.all;
  nav.classList.remove('open');
  for (const link of nav.querySelectorAll('a')) marked(link, link.dataset.screen === screen?.name);
  if (!shown) return missing();
  document.title = `${path.length > 1 ? `${path.slice(1).join(' / ')} · ` : ''}${screen.title} · Tidelock`;
  const place = h('div', { class: 'screen', 'data-screen': screen.name });
  fill(main, place);
  render(shown, { place, path: path.slice(1), query, signal: leaving.signal });
}

async function render(screen, given) {
  try {
    await screen.show(given);
  } catch (error) {
    if (!given.signal.aborted) fill(given.place, trouble(error, show));
  }
  given.place.querySelector('h1')?.setAttribute('tabindex', '-1');
}

function missing() {
  document.title = 'Not found · Tidelock';
  fill(main, h('h1', null, 'Page not found'), h('p', { class: 'lead' }, 'The inspector has no screen with this address. ', h('a', { href: href([]) }, 'Go to the overview'), '.'));
}

function marked(link, current) {
  if (current) link.setAttribute('aria-current', 'page');
  else link.removeAttribute('aria-current');
}

function frame() {
  const pulse = h('span', { class: 'pulse waiting', role: 'status' }, h('span', { class: 'word' }, 'connecting'));
  live.onState((state, why) => {
    pulse.className = `pulse ${state}`;
    pulse.title = why ?? 'The page receives updates from the server as they happen.';
    fill(pulse, h('span', { class: 'word' }, state === 'live' ? 'live' : 'reconnecting'));
  });
  const who = h('span', null);
  session.onChange((person) => fill(who, signedIn(person)));
  const menu = h('button', { type: 'button', class: 'button plain menu', 'aria-label': 'Screens', 'aria-controls': 'nav', on: { click: () => nav.classList.toggle('open') } }, icon('menu'));
  const themed = button(themeName(), (pressed) => { theme.turn(); pressed.textContent = themeName(); }, { kind: 'plain small', title: 'Light, dark, or the system setting' });
  fill(bar, menu, h('a', { class: 'brand', href: href([]) }, mark(), 'Tidelock'), h('span', { class: 'bar-fill' }), pulse, themed,
    button('?', () => keys.help(SCREENS), { kind: 'plain small keyboard', title: 'Keyboard' }), who);
  fill(nav, SCREENS.map(({ name, title, path }) =>
    h('a', { href: href(path), 'data-screen': name }, icon(name), title, h('span', { class: 'tally', 'data-tally': name }))));
  nav.addEventListener('click', (event) => { if (event.target.closest('a')) nav.classList.remove('open'); });
}

function themeName() {
  return { auto: 'Auto', light: 'Light', dark: 'Dark' }[theme.chosen()];
}

function signedIn({ name, role, read_only: readOnly }) {
  const label = readOnly ? 'read-only' : `${name} · ${role}`;
  const title = readOnly ? 'This server has no tokens: every client can read, and no client can change anything.' : 'Sign in with another token';
  return button(label, () => (readOnly ? null : session.signInAgain()), { kind: 'small who', title });
}

// The number of blocked items is shown in the navigation, on every screen.
function tally(sample) {
  const blocked = document.querySelector('[data-tally="leases"]');
  if (blocked) blocked.textContent = Number(sample.blocked ?? 0) > 0 ? String(sample.blocked) : '';
}

async function begin() {
  theme.begin();
  beginClock();
  frame();
  keys.begin(SCREENS);
  document.getElementById('skip').addEventListener('click', (event) => { event.preventDefault(); main.focus(); });
  addEventListener('hashchange', () => { show(); (main.querySelector('h1') ?? main).focus({ preventScroll: true }); scrollTo(0, 0); });
  try {
    await session.begin();
  } catch (error) {
    return fill(main, trouble(error, () => location.reload()));
  }
  live.begin();
  live.onBeat(tally, new AbortController().signal);
  session.onChange(show);
  show();
}

begin();
