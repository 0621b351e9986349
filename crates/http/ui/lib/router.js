// Hash router: the current screen is in the fragment of the address, so that every view can be linked.

/** The address of a screen: href(['streams', 'order-7'], { from: 3 }). */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map((part) => encodeURIComponent(String(part))).join('/')}${search ? `?${search}` : ''}`;
}

/** The current location: { path: [...], query: {...} }. */
export function here() {
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    path: path === '' ? [] : path.split('/').map(decoded),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

/** Navigates to another screen. */
export function go(path, query) { location.hash = href(path, query); }

/** Keeps the filters of this screen in its address, without a history entry. */
export function keep(query) {
  history.replaceState(null, '', href(here().path, query));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
