// The theme: light, dark, or the system's.

const KEPT = 'tidelock-theme';
const CHOICES = ['auto', 'light', 'dark'];

export function begin() { apply(chosen()); }

export function chosen() {
  const kept = localStorage.getItem(KEPT);
  return CHOICES.includes(kept) ? kept : 'auto';
}

/** Switches to the next theme. */
export function turn() {
  const next = CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length];
  localStorage.setItem(KEPT, next);
  apply(next);
  return next;
}

function apply(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
