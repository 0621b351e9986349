//! The promises of the HTTP API, over real sockets and on every store: the numbers are those of
//! `docs/guarantees.md`.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod harness;

mod canary;
mod claims;
mod commits;
mod connections;
mod correlation;
mod costs;
mod doctor;
mod document;
mod every_route;
mod follow;
mod jobs;
mod killed;
mod leases;
mod locks;
mod metrics_reference;
mod names;
mod once;
mod projections;
mod queues;
mod quotas;
mod reactions;
mod refusals;
mod restarted;
mod runs;
mod scopes;
mod server;
mod states;
mod streams;
mod subjects;
mod tls;
