//! The `tidelock` command, run as people and scripts run it: on files and on PostgreSQL, by its
//! output and exit code.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod ground;

mod everything;

mod claims;
mod closing;
mod doctor;
mod failing;
mod guide;
mod hostile;
mod http_guide;
mod looking;
mod moving;
mod operating;
mod reactions;
mod restarted;
mod runs;
mod serving;
mod typos;
