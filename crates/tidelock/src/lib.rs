//! Correct concurrency for stateful services, over one store.
//!
//! A store keeps a log of events in streams, records under keys and leases on work items, and writes to all of them in
//! one atomic commit. Open one by URL and everything else is a call on it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use tidelock::prelude::*;
//!
//! let store = tidelock::open("memory:").await?; // or sqlite:shop.db
//! let order = StreamName::new("order-7")?;
//! let placed = NewEvent::of("placed", &json!({ "units": 2 }))?;
//!
//! let outcome = store.append(&order, ExpectedVersion::NoStream, vec![placed]).await?;
//! assert_eq!(outcome.committed()?.appends[0].version.get(), 1);
//!
//! let again = NewEvent::of("placed", &json!({ "units": 9 }))?;
//! let conflict = store.append(&order, ExpectedVersion::NoStream, vec![again]).await?.conflict();
//! assert_eq!(conflict.unwrap().to_string(), r#"stream "order-7": expected no stream, found version 1"#);
//! # Ok(())
//! # }
//! ```

mod open;

pub use open::open;
pub use tidelock_store::*;

/// The README's example is compiled and run with the rest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// What most programs need: `use tidelock::prelude::*`.
pub mod prelude {
    pub use tidelock_store::{
        Bounds, ClashKind, Commit, CommitOutcome, ExpectedRevision, ExpectedVersion, FeedQuery, ItemRef,
        Json, LeaseRequest, NewEvent, QueueName, RecordKey, Settlement, Store, StoreExt, StreamName,
        StreamQuery, Wake, When, WorkerName, Write,
    };
}
