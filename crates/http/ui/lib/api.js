// The API client: requests, problems, and event streams.
//
// A token is sent in a header and nowhere else, which is why streams are read with fetch: an EventSource cannot send one.

import { parse } from './exact.js';
import { heard } from './clock.js';

const BASE = new URL('../../v1/', import.meta.url);
const LONGEST_PAUSE = 15000;

let token = null;
let unauthorized = async () => false;

/** Sets the token of all later requests. */
export function bear(given) { token = given; }

/** Called when the server requires a token; resolves to whether there is a new one to try. */
export function onUnauthorized(asked) { unauthorized = asked; }

/** An error response, with the server's message. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.status = status;
    this.title = body.title ?? '';
    this.body = body;
  }
}

/** A path whose values are encoded: at`streams/${name}/events`. */
export function at(parts, ...values) {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(String(value))));
}

export function get(path, query, options = {}) {
  return request('GET', path, { ...options, query });
}

/** A write. One idempotency key per intention: pressed twice, it is carried out once. */
export function send(method, path, body, key = crypto.randomUUID?.() ?? String(Math.random())) {
  return request(method, path, { body, headers: { 'idempotency-key': key } });
}

async function request(method, path, options) {
  const response = await answered(method, path, options);
  return read(response);
}

async function answered(method, path, { query, body, headers = {}, signal }) {
  for (;;) {
    const sent = { method, signal, headers: { ...headers }, cache: 'no-store', credentials: 'omit' };
    if (token) sent.headers.authorization = `Bearer ${token}`;
    if (body !== undefined) {
      sent.headers['content-type'] = 'application/json';
      sent.body = JSON.stringify(body);
    }
    const response = await reached(fetch(address(path, query), sent));
    heard(response.headers.get('date'));
    if (response.status !== 401) return response;
    const { detail } = await response.json().catch(() => ({}));
    if (!(await unauthorized(token, detail))) throw new Problem(401, { title: 'A token is needed', detail });
  }
}

async function reached(sent) {
  try {
    return await sent;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { title: 'The server does not answer', detail: `${error.message}. Is it running? Live views reconnect by themselves.` });
  }
}

function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, value);
  }
  return url;
}

async function read(response) {
  const text = await response.text();
  const is = response.headers.get('content-type') ?? '';
  const body = is.includes('json') && text ? parse(text) : { detail: text };
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}

/**
 * Reads a stream of events for as long as `signal` lets it, and begins again after the last one when it breaks.
 * `on` hears each event as `(type, data)`; `state` hears "live", and "waiting" with the reason.
 */
export async function follow(path, query, { signal, on, state = () => {} }) {
  let last = null;
  let pause = 500;
  for (;;) {
    await seen(signal);
    if (signal.aborted) return;
    const open = AbortSignal.any([signal, hidden()]);
    try {
      const headers = last === null ? {} : { 'last-event-id': last };
      const response = await answered('GET', path, { query, headers, signal: open });
      if (!response.ok) await read(response);
      state('live');
      await each(response.body, (event) => {
        pause = 500;
        if (event.id !== undefined) last = event.id;
        if (event.data !== undefined) on(event.type, parse(event.data));
      });
      state('waiting', 'the server ended the stream');
    } catch (error) {
      if (signal.aborted) return;
      if (open.aborted) continue;
      state('waiting', error.message);
      if (error.status >= 400 && error.status < 500) throw error;
    }
    await paused(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

// Browsers limit the connections per server: a hidden tab closes its stream, and reopens it when it becomes visible.
function hidden() {
  const ended = new AbortController();
  const look = () => { if (document.visibilityState === 'hidden') ended.abort(); };
  document.addEventListener('visibilitychange', look, { signal: ended.signal });
  look();
  return ended.signal;
}

function seen(signal) {
  if (document.visibilityState === 'visible') return Promise.resolve();
  return new Promise((go) => {
    document.addEventListener('visibilitychange', () => go(), { once: true });
    signal.addEventListener('abort', () => go(), { once: true });
  });
}

async function each(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const take = taker(on);
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) take(line.replace(/\r$/, ''));
  }
}

// Assembles the lines of a stream to events. A line that begins with a colon is a comment: a keep-alive.
function taker(on) {
  let event = {};
  return (line) => {
    if (line === '') {
      if (Object.keys(event).length > 0) on({ type: 'message', ...event });
      event = {};
      return;
    }
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (field === 'id') event.id = value;
    if (field === 'event') event.type = value;
    if (field === 'data') event.data = event.data === undefined ? value : `${event.data}\n${value}`;
  };
}

function paused(pause, signal) {
  return new Promise((resume) => {
    const timer = setTimeout(resume, pause);
    signal.addEventListener('abort', () => { clearTimeout(timer); resume(); }, { once: true });
  });
}
