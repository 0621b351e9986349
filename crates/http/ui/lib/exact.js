// Exact numbers. A JavaScript number holds 53 bits; positions, counters and payloads may need more, and rounding them would
// show false data.

class Exact {
  constructor(source) { this.source = source; }
  toString() { return this.source; }
  valueOf() { return Number(this.source); }
}

/** Parses JSON; a number that would be rounded keeps its digits and still works in arithmetic. */
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    if (typeof value !== 'number' || Number.isSafeInteger(value) || !context || context.source === String(value)) return value;
    return new Exact(context.source);
  });
}

/** Compares two positions, which can have more digits than a number holds. */
export function isLater(one, other) {
  return BigInt(String(one)) > BigInt(String(other));
}

export function isNumber(value) {
  return typeof value === 'number' || value instanceof Exact;
}

/** The inverse of `parse`: readable JSON with exact numbers. */
export function print(value, indent = '') {
  const inner = `${indent}  `;
  if (value instanceof Exact) return value.source;
  if (Array.isArray(value)) return enclosed('[', value.map((item) => inner + print(item, inner)), `${indent}]`);
  if (value && typeof value === 'object') {
    return enclosed('{', Object.entries(value).map(([key, item]) => `${inner}${JSON.stringify(key)}: ${print(item, inner)}`), `${indent}}`);
  }
  return JSON.stringify(value) ?? 'null';
}

function enclosed(open, lines, close) {
  return lines.length === 0 ? open + close.trim() : `${open}\n${lines.join(',\n')}\n${close}`;
}

/** On one line, for a table. */
export function inline(value, most = 160) {
  const text = value instanceof Exact ? value.source : print(value).replace(/\n\s*/g, ' ');
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
