//! A private PostgreSQL server, and a faulty network in front of it, for tests, stress and bench.
//!
//! A [`Server`] is a real one: its own folder, its own loopback port, made by `initdb`, with
//! `fsync` on. It can be stopped, killed as by a power cut, restarted, copied to a
//! [standby](Server::standby) and promoted. Nothing of it is left when its owner drops it, exits,
//! or is killed. A [`Proxy`] forwards TCP and injects faults on request.
//!
//! Everything blocks and nothing needs a runtime. Linux only, as it reads `/proc`. There is no
//! database driver here: the little SQL goes through `psql`.

mod failure;
mod polling;

mod programs;

mod folder;
mod guardian;
mod port;
mod postmaster;
mod server;
mod shared;

mod proxy;

pub use crate::failure::Failure;
pub use crate::postmaster::Stop;
pub use crate::proxy::Proxy;
pub use crate::server::Server;
pub use crate::shared::{SHARED_URL, dump, run_script, shared_database, shared_url};
