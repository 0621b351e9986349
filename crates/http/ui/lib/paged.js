// A paged table. At most one page is requested or kept, so that a list of a million rows is as fast as one of ten.
//
// On reload only changed rows are replaced: nothing jumps, and the focus stays. One row can be reached
// with Tab, the others with the arrow keys.

import { h, fill } from './h.js';
import { button, emptiness, trouble } from './dialog.js';
import { plural } from './format.js';
import { print } from './exact.js';

/**
 * `columns`: [{ title, cell(row), kind? }], where a kind is a class; the first cell should hold the row's link.
 * `load(after)`: a page { items, next }. `key(row)`: the row's identity. `noun`: what a row is.
 */
export function paged({ label, noun, columns, load, key, empty, signal }) {
  const body = h('tbody', { role: 'rowgroup' });
  const table = h('table', { class: 'table', role: 'table', 'aria-label': label },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map((column) => h('th', { scope: 'col', role: 'columnheader', class: column.kind }, column.title)))), body);
  const note = h('span', { class: 'note', role: 'status' });
  const newer = button('Previous', () => leaf(trail.slice(0, -1)), { kind: 'small' });
  const older = button('Next', () => leaf([...trail, next]), { kind: 'small' });
  const foot = h('div', { class: 'pager' }, note, newer, older);
  const place = h('div', { class: 'table-place' }, table);
  const element = h('div', { class: 'paged' }, place, foot);
  let [trail, next, shown, busy, reading] = [[null], null, new Map(), 0, false];

  rove(body);
  skeleton(body, columns);
  turnable();

  // A new page starts at its top.
  async function leaf(to) {
    await turn(to);
    element.scrollIntoView({ block: 'start' });
  }

  async function turn(to) {
    trail = to;
    await read(true);
  }

  async function read(changed) {
    const turn = ++busy;
    reading = true;
    if (changed) table.setAttribute('aria-busy', 'true');
    try {
      const page = await load(trail.at(-1), signal);
      if (turn === busy && !signal.aborted) show(page);
    } catch (error) {
      if (turn === busy && !signal.aborted && changed) fail(error);
    } finally {
      if (turn === busy) reading = false;
      if (turn === busy) table.removeAttribute('aria-busy');
    }
  }

  function show(page) {
    next = page.next ?? null;
    if (table.parentNode !== place) fill(place, table);
    if (page.items.length === 0) fill(place, nothing());
    shown = update(body, shown, page.items, columns, key);
    note.textContent = page.items.length === 0 ? '' : `${plural(page.items.length, noun)}${next || trail.length > 1 ? ` · page ${trail.length}` : ''}`;
    turnable();
  }

  function nothing() {
    return next ? emptiness('None on this page', 'There are more pages: go to the next one.') : emptiness(empty.title, empty.hint);
  }

  function fail(error) {
    shown = new Map();
    fill(body);
    fill(place, trouble(error, () => read(true)));
  }

  function turnable() {
    newer.disabled = trail.length < 2;
    older.disabled = !next;
    foot.hidden = trail.length < 2 && !next && note.textContent === '';
  }

  return {
    element,
    /** Restarts at the first page, after a change of filters. */
    restart: () => turn([null]),
    /** Reloads the page, unless it is already loading. */
    refresh: () => (reading ? undefined : read(false)),
  };
}

function update(body, shown, items, columns, key) {
  const rows = new Map();
  for (const item of items) {
    const [name, text] = [String(key(item)), print(item)];
    const kept = shown.get(name);
    rows.set(name, kept?.text === text ? kept : { text, row: replaced(kept?.row, row(item, columns)) });
  }
  const wanted = [...rows.values()].map(({ row }) => row);
  if (wanted.length !== body.children.length || wanted.some((row, index) => body.children[index] !== row)) body.replaceChildren(...wanted);
  if (!body.querySelector('tr.current')) body.firstElementChild?.classList.add('current');
  tabs(body);
  return rows;
}

function row(item, columns) {
  return h('tr', { role: 'row' }, columns.map((column) =>
    cell(column, h('div', { class: 'cell' }, column.cell(item)))));
}

// On a phone each cell is on its own line; empty cells are hidden.
function cell({ kind = '', title }, content) {
  const blank = ['', '–'].includes(content.textContent);
  return h('td', { role: 'cell', class: `${kind}${blank ? ' blank' : ''}`, 'data-title': title }, content);
}

// Replaces a row, and keeps its expanded state and the focus.
function replaced(old, fresh) {
  if (!old) return fresh;
  const at = focusable(old).indexOf(document.activeElement);
  if (old.classList.contains('current')) fresh.classList.add('current');
  const opened = [...old.querySelectorAll('details')].map((details) => details.open);
  fresh.querySelectorAll('details').forEach((details, nth) => { details.open = opened[nth] ?? false; });
  old.replaceWith(fresh);
  if (at >= 0) focusable(fresh)[at]?.focus();
  return fresh;
}

const focusable = (row) => [...row.querySelectorAll('a[href], button, summary')];

function tabs(body) {
  for (const row of body.children) {
    const index = row.classList.contains('current') ? '0' : '-1';
    for (const element of focusable(row)) element.setAttribute('tabindex', index);
  }
}

/** Lets the arrow keys move from row to row. */
export function rove(body) {
  const step = (from, by) => {
    const rows = [...body.children];
    const to = by === 'first' ? rows[0] : by === 'last' ? rows.at(-1) : rows[rows.indexOf(from) + by];
    focusable(to ?? from)[0]?.focus();
  };
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: 'first', End: 'last' };
  body.addEventListener('focusin', (event) => {
    const row = event.target.closest('tr');
    if (!row || row.classList.contains('current')) return;
    body.querySelector('tr.current')?.classList.remove('current');
    row.classList.add('current');
    tabs(body);
  });
  body.addEventListener('keydown', (event) => {
    const by = steps[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, textarea, select')) return;
    event.preventDefault();
    event.stopPropagation();
    step(event.target.closest('tr'), by);
  });
}

function skeleton(body, columns) {
  fill(body, Array.from({ length: 6 }, () => h('tr', { class: 'skeleton', 'aria-hidden': 'true' },
    columns.map((column) => h('td', { class: column.kind }, h('span', { class: 'bone' }))))));
}
