// A JSON tree viewer with search. Collapsed nodes are not built, and long lists are built in pieces, so that the largest
// payload opens at once.

import { h } from './h.js';
import { isNumber, print } from './exact.js';
import { button } from './dialog.js';
import { plural } from './format.js';

const PIECE = 100;
const MOST_HITS = 500;

// The state of each viewer, for its successor.
const roots = new WeakMap();

/** A viewer. `changed` is a set of paths to highlight. Nodes that are expanded in the viewer `before` are expanded in this one. */
export function viewer(value, { label = 'JSON', changed = new Set(), search = true, before = null } = {}) {
  const root = node(null, value, [], { changed });
  root.open?.();
  if (roots.has(before)) reopen(roots.get(before), root);
  const tree = h('div', { class: 'json', role: 'group', 'aria-label': label }, root.element);
  const box = h('div', { class: 'json-box' }, search && isNested(value) && finder(root, value), tree);
  roots.set(box, root);
  return box;
}

function reopen(before, now) {
  if (!before.element.open || !now.open) return;
  now.open([...before.children.keys()].at(-1));
  for (const [key, child] of before.children) {
    const same = now.children.get(key);
    if (same) reopen(child, same);
  }
}

function finder(root, value) {
  const found = h('span', { class: 'note', role: 'status' });
  const input = h('input', { class: 'input small', type: 'search', placeholder: 'Find in this JSON', 'aria-label': 'Find in this JSON', spellcheck: 'false' });
  let [hits, at] = [[], 0];
  const step = (by) => {
    if (hits.length === 0) return;
    at = (at + by + hits.length) % hits.length;
    found.textContent = `${at + 1} of ${hits.length === MOST_HITS ? `${MOST_HITS}+` : hits.length}`;
    reveal(root, hits[at]);
  };
  input.addEventListener('input', () => {
    unmark(root.element);
    hits = input.value === '' ? [] : search(value, input.value.toLowerCase());
    found.textContent = input.value === '' ? '' : 'nothing found';
    at = 0;
    step(0);
  });
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
    if (event.key === 'Escape' && input.value !== '') { event.stopPropagation(); input.value = ''; input.dispatchEvent(new Event('input')); }
  });
  return h('div', { class: 'json-tools' }, input, found, copier(value));
}

function copier(value) {
  if (!navigator.clipboard) return null;
  return button('Copy', async (pressed) => {
    await navigator.clipboard.writeText(print(value));
    pressed.textContent = 'Copied';
  }, { kind: 'small' });
}

function isNested(value) {
  return value !== null && typeof value === 'object' && !isNumber(value);
}

// A node has its element and, unless it is a leaf, a way to expand it and its children by key.
function node(key, value, path, options) {
  if (!isNested(value)) return { element: h('div', { class: lineClass(path, options) }, name(key), leaf(value)) };
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  const [inside, children] = [h('div', { class: 'json-in' }), new Map()];
  const head = h('summary', { class: lineClass(path, options) }, name(key), h('span', { class: 'json-gist' }, gist(value, entries.length)));
  const element = h('details', { class: 'json-node' }, head, inside);
  const build = (upTo) => {
    for (const [inner, item] of entries.slice(children.size, upTo)) {
      const child = node(inner, item, [...path, inner], options);
      children.set(String(inner), child);
      inside.append(child.element);
    }
    inside.querySelector(':scope > .json-more')?.remove();
    if (children.size < entries.length) inside.append(more(entries.length - children.size, () => build(children.size + PIECE)));
  };
  element.addEventListener('toggle', () => { if (element.open && children.size === 0) build(PIECE); });
  return {
    element,
    children,
    open: (reaching = '') => {
      const at = entries.findIndex(([inner]) => String(inner) === String(reaching));
      build(Math.max(PIECE, at + 1, children.size));
      element.open = true;
    },
  };
}

function more(left, build) {
  return h('div', { class: 'json-more' }, button(`Show ${plural(Math.min(left, PIECE), 'more', 'more')} of ${plural(left, 'more', 'more')}`, build, { kind: 'small' }));
}

function lineClass(path, { changed }) {
  return `json-line${changed.has(pathText(path)) ? ' changed' : ''}`;
}

function name(key) {
  return key === null ? null : [h('span', { class: 'json-key' }, typeof key === 'number' ? String(key) : key), h('span', { class: 'json-colon' }, ': ')];
}

function gist(value, size) {
  if (Array.isArray(value)) return size === 0 ? '[ ]' : `[ ${plural(size, 'item')} ]`;
  return size === 0 ? '{ }' : `{ ${plural(size, 'field')} }`;
}

function leaf(value) {
  const kind = isNumber(value) ? 'number' : value === null ? 'null' : typeof value;
  return h('span', { class: `json-${kind}` }, kind === 'string' ? JSON.stringify(value) : String(value));
}

/** The paths whose key or value contains this text. */
function search(value, wanted, path = [], hits = []) {
  if (hits.length >= MOST_HITS) return hits;
  const key = path.at(-1);
  const own = `${key ?? ''}\n${isNested(value) ? '' : String(value)}`.toLowerCase();
  if (path.length > 0 && own.includes(wanted)) hits.push(path);
  if (isNested(value)) for (const inner of Object.keys(value)) search(value[inner], wanted, [...path, inner], hits);
  return hits;
}

function reveal(root, path) {
  unmark(root.element);
  let at = root;
  for (const key of path) {
    at.open?.(key);
    at = at.children?.get(String(key)) ?? at;
  }
  const line = at.element.matches('details') ? at.element.querySelector('summary') : at.element;
  line.classList.add('hit');
  line.scrollIntoView({ block: 'nearest' });
}

function unmark(element) {
  element.querySelectorAll('.hit').forEach((line) => line.classList.remove('hit'));
  element.classList.remove('hit');
}

const pathText = (path) => JSON.stringify(path.map(String));

/** The paths at which two values differ. */
export function differences(before, after, path = [], found = new Set()) {
  if (isNested(before) && isNested(after) && Array.isArray(before) === Array.isArray(after)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) differences(before[key], after[key], [...path, key], found);
  } else if (print(before) !== print(after)) {
    found.add(pathText(path));
  }
  return found;
}

