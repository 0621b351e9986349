// Element builder: the only way in which content gets into the page.
//
// Strings are never parsed as markup: data becomes a text node or the value of a harmless attribute, so that a name, a
// payload or an error can be shown but never run. Attributes that could run something are refused.

const SVG = 'http://www.w3.org/2000/svg';
const REFUSED = /^(on|style$|srcdoc$|src$|action$|formaction$)/i;

/** An HTML element: `h('a', { href: '#/', class: 'x', on: { click } }, 'text', child)`. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** An SVG element. */
export function s(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

/** Replaces the children. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) set(element, name, value);
  element.append(...nodes(children));
  return element;
}

function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name === 'on') return listen(element, value);
  if (name === 'value') return void (element.value = value);
  if (REFUSED.test(name)) throw new Error(`attribute ${name}: this page does not use it`);
  if (name === 'href' && !String(value).startsWith('#')) throw new Error('links stay inside this page');
  element.setAttribute(name, value === true ? '' : String(value));
}

function listen(element, listeners) {
  for (const [event, listener] of Object.entries(listeners)) element.addEventListener(event, listener);
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(visible(String(child)))));
}

// Invisible characters, and those that change the text direction, can make one name look like another.
const INVISIBLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Makes invisible characters visible. */
export function visible(text) {
  return text.replace(INVISIBLE, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
