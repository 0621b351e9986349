// The session: token and role. The token lives as long as the tab and is sent to this server only.

import { bear, get, onUnauthorized } from './api.js';
import { h } from './h.js';
import { button, field, open } from './dialog.js';

const KEPT = 'tidelock-token';
const ROLES = ['reader', 'writer', 'operator'];

let who = { name: '', role: 'reader', read_only: true };
let asking = null;
const listeners = new Set();

/** Starts with the token of this tab, if there is one, and reads its role. */
export async function begin() {
  bear(sessionStorage.getItem(KEPT));
  onUnauthorized(askOnce);
  await learn();
}

export function current() { return who; }

export function onChange(listener) { listeners.add(listener); }

/** Why an action that needs this role is not allowed; null if it is. */
export function reason(role) {
  if (ROLES.indexOf(who.role) >= ROLES.indexOf(role) && !who.read_only) return null;
  if (who.read_only) return `This server is read-only: no tokens are set. Start it with tokens, and sign in as ${role}, to do this.`;
  return `This needs the role ${role}; ${who.name} is ${who.role}. Sign in with another token to do this.`;
}

/** Discards the token and asks for another. */
export async function signInAgain() {
  const before = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (!(await askOnce(null)) && before) sessionStorage.setItem(KEPT, before);
}

async function learn() {
  who = await get('whoami');
  listeners.forEach((listener) => listener(who));
}

// Concurrent requests share one sign-in dialog.
async function askOnce(refused, detail) {
  if (refused !== sessionStorage.getItem(KEPT)) return true;
  asking ??= ask(refused, detail).finally(() => { asking = null; });
  return asking;
}

function ask(refused, detail) {
  return new Promise((answer) => {
    let given = false;
    const input = h('input', { class: 'input mono', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true, name: 'token' });
    const form = h('form', { on: { submit: (event) => { event.preventDefault(); take(); } } },
      h('p', null, refused ? 'This token is unknown to the server.' : 'This server requires a token.'),
      detail && h('p', { class: 'hint' }, detail),
      field('Token', input, 'Kept until this tab is closed, and sent to this server only.'));
    const dialog = open({
      title: 'Sign in', body: form,
      foot: [button('Not now', () => dialog.close()), button('Sign in', () => form.requestSubmit(), { kind: 'primary' })],
      onClose: () => answer(given),
    });
    const take = () => {
      const token = input.value.trim();
      if (token === '') return;
      sessionStorage.setItem(KEPT, token);
      bear(token);
      given = true;
      dialog.close();
    };
    input.focus();
  }).then(async (given) => {
    if (given) queueMicrotask(() => learn().catch(() => {}));
    return given;
  });
}
