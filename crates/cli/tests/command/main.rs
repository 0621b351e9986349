//! The `tidelock` command, run as people and scripts run it: on files and on PostgreSQL, by its
//! output and exit code.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod harness;

mod everything;

mod backup;
mod claims;
mod close;
mod deploying;
mod doctor;
mod environment;
mod errors;
mod exit_codes;
mod guide;
mod hostile;
mod http_guide;
mod operators;
mod reactions;
mod reading;
mod restarted;
mod runs;
mod serve;
mod transfer;
mod unknown_names;
