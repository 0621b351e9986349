// One icon per screen, on a 16 by 16 grid.

import { s } from './h.js';

const PATHS = {
  overview: 'M2 13h12M3.500 10.500l3-4 2.500 2.500 3.500-5.500',
  streams: 'M2 4h9M2 8h12M2 12h7',
  feed: 'M3 3v10M3 4h10M3 8h7M3 12h9',
  correlations: 'M2 3h5M5 8h6M9 13h5M4 3v5M8 8v5',
  reactions: 'M9 2 4 9h4l-1 5 5-7H8z',
  leases: 'M8 4.500V8l2.500 1.500M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z',
  runs: 'M4 3.500v9l8-4.500z',
  scopes: 'M3 3h10v10H3zM3 7h10M7 7v6',
  claims: 'M4 7h8v6H4zM5.500 7V5a2.500 2.500 0 0 1 5 0v2',
  doctor: 'M8 3v10M3 8h10',
  audit: 'M4 2h6l2.500 2.500V14H4zM6 7h4M6 10h4',
  menu: 'M2 4h12M2 8h12M2 12h12',
};

export function icon(name) {
  return s('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true', class: 'icon' }, s('path', { d: PATHS[name] }));
}

/** The logo: two tides. */
export function mark() {
  return s('svg', { viewBox: '0 0 32 32', 'aria-hidden': 'true' }, s('rect', { class: 'back', width: 32, height: 32, rx: 7 }),
    s('path', { class: 'wave', d: 'M5 13q5.500-5 11 0t11 0M5 21q5.500-5 11 0t11 0' }));
}
