//! Fixtures of the patterns' tests.
//!
//! A case is a function of a [`TestStore`] and becomes four tests by [`on_every_store!`]: in memory
//! (with simulated time, so that waiting costs nothing), on an SQLite file and on PostgreSQL (each
//! handle with its own connections, as in another process), and in memory with pages as small as
//! possible ([`Stingy`]). For failures there are stores that fail ([`Interceptor`]), callers that
//! are stopped ([`Pause`]) and processes that die ([`Meeting`]). The documentation is tested as its
//! readers use it ([`Page`], [`Shell`]).

// Clippy allows `unwrap` in tests, but not in their shared code.
#![allow(clippy::unwrap_used)]

mod dying_store;
mod interceptor;
mod many;
mod note;
mod observed;
mod page;
pub mod past;
mod pause;
mod processes;
mod running;
mod shell;
mod stingy;
mod tally;
mod test_store;
mod until;

pub use dying_store::DyingStore;
pub use interceptor::{Interceptor, Wrapped};
pub use many::{MANY, many_events, many_gone, many_items, many_records};
pub use note::{append, note, text};
pub use observed::Observed;
pub use page::{Block, Page, alike, comparable};
pub use pause::Pause;
pub use processes::{Meeting, Process, Role};
pub use running::{Running, brisk};
pub use shell::Shell;
pub use stingy::{Stingy, stingy_seed};
pub use tally::Tally;
pub use test_store::{LEASE, TestStore, for_real, in_memory, in_memory_stingily};
pub use until::{PATIENCE, until};

/// Makes four tests of each case: in memory, on an SQLite file, on PostgreSQL, and in memory with
/// pages as small as possible.
#[macro_export]
macro_rules! on_every_store {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[test] fn $case() { $crate::in_memory(super::$case); })*
        }
        mod sqlite {
            $(#[test] fn $case() { $crate::for_real($crate::TestStore::sqlite(), super::$case); })*
        }
        mod postgres {
            $(#[test] fn $case() { $crate::for_real($crate::TestStore::postgres(), super::$case); })*
        }
        mod stingy {
            $(#[test] fn $case() { $crate::in_memory_stingily(super::$case); })*
        }
    };
}
