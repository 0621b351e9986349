//! A PostgreSQL server of one's own, and a bad network in front of it, for tests, stress and bench.
//!
//! A [`Server`] is a real one: its own folder, its own port on the loopback, made by `initdb`, with
//! `fsync` on. It can be stopped, killed as by a power cut, started again, copied to a
//! [standby](Server::standby) and promoted. Nothing of it is left when its owner drops it, exits,
//! or is killed. A [`Proxy`] passes TCP on, and injures it when told to.
//!
//! Everything blocks and nothing needs a runtime, so that anything can use it. Linux only, as it
//! reads `/proc`. No database driver is here: what little SQL there is goes through `psql`.

mod failure;
mod patience;

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
