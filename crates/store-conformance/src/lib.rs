//! The conformance suite that every Tidelock store must pass.
//!
//! The suite owns its list of cases: an adapter implements [`Subject`] and gets every case as a
//! separate test. A bug found in one adapter becomes a case for all. Nothing here knows a database.
//! A case that needs what a store does not have is skipped by the store's declared capabilities,
//! visibly.
//!
//! ```no_run
//! // tests/conformance.rs of an adapter, with `harness = false`
//! # use tidelock_store_conformance::MemorySubject;
//! fn main() {
//!     tidelock_store_conformance::main(|| async { MemorySubject::default() });
//! }
//! ```

// A case fails by panicking, like any test.
#![allow(clippy::unwrap_used)]

mod case;
mod commit;
mod contention;
mod items;
mod leases;
mod limits;
mod log;
mod memory;
mod model;
mod records;
mod retention;
mod sample;
mod signals;
mod time;

pub use case::{Report, Subject, main, promises, run_quietly};
pub use memory::MemorySubject;
pub use model::{Runs, check_differential, check_model};
