//! What the HTTP API promises, over real sockets and on every store: the numbers are those of
//! `docs/guarantees.md`.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod ground;

mod canary;
mod claims;
mod connections;
mod correlation;
mod costs;
mod doctor;
mod document;
mod follow;
mod hands;
mod leases;
mod locks;
mod names;
mod once;
mod queues;
mod quotas;
mod reactions;
mod restarted;
mod runs;
mod scopes;
mod server;
mod states;
mod streams;
mod tls;
mod walk;
mod wrong;
