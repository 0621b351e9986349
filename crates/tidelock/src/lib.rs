//! Correct concurrency for stateful services, over one store.
//!
//! A store keeps a log of events in streams, records under keys and leases on work items, and
//! writes to all of them in one atomic commit. Open one by URL and everything else is a call on it:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use serde_json::json;
//! use tidelock::prelude::*;
//! use tidelock::store::{NewEvent, StoreExt, StreamName};
//!
//! let store = tidelock::open("memory:").await?; // or sqlite:shop.db, or postgres://…
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
//!
//! A worker leases what is due, works, and settles; between, it waits for a signal, and for no
//! longer than until something is due by itself:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::time::Duration;
//! # use tidelock::prelude::*;
//! # use tidelock::store::{Commit, ItemRef, LeaseRequest, QueueName, Topic, Wake, WorkerName};
//! # use tidelock::When;
//! # let store = tidelock::open("memory:").await?;
//! let (mail, worker) = (QueueName::new("mail")?, WorkerName::new("worker-1")?);
//! # store.commit(Commit::new().wake(Wake::at(ItemRef::parse("mail", "order-7")?, When::NOW))).await?.committed()?;
//! # let mut rounds = 0;
//! let mut signal = store.signal(Topic::Queue(mail.clone())); // taken before the first look, so nothing is missed
//! loop {
//!     let leased = store.lease(LeaseRequest::new(&mail, &worker, Duration::from_secs(30), 10)).await?;
//!     for lease in &leased.leases {
//!         // … the work; long work renews its lease with `store.renew` meanwhile …
//!         match store.commit(Commit::new().settle(lease.ack())).await?.committed() {
//!             Ok(_) => println!("{} is done", lease.item),
//!             Err(conflict) => println!("another worker has it now: {conflict}"),
//!         }
//!     }
//! #   rounds += 1;
//! #   if rounds == 2 { break }
//!     if leased.leases.is_empty() {
//!         let due = leased.next_due.map_or(Duration::from_secs(5), |due| due.since(leased.at));
//! #       let due = due.min(Duration::ZERO);
//!         let _ = tokio::time::timeout(due.min(Duration::from_secs(5)), signal.wait()).await;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! After an unknown outcome (the connection died, the caller was cut off), the same commit under
//! its id tells what the first one did:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use tidelock::prelude::*;
//! # use tidelock::store::{Bounds, Commit, CommitId, RecordKey, RecordWrite};
//! # let store = tidelock::open("memory:").await?;
//! let taken = RecordKey::new("boat-3/taken")?;
//! let commit = Commit::new().with_id(CommitId::fresh()).write(RecordWrite::add(&taken, 1, Bounds::at_most(18)));
//! let first = store.commit(commit.clone()).await?;
//! assert_eq!(store.commit(commit).await?, first, "one place was taken, not two");
//! # Ok(())
//! # }
//! ```

// The derive names this crate from outside, and is used inside it too.
#[allow(unused_extern_crates)]
extern crate self as tidelock;

mod open;

mod event;
mod feed;
mod metadata;
mod recorded;

mod events;
mod group_commit;

pub mod reactions;

pub mod runs;

mod bounds;
mod closing;
mod missing;

pub mod claims;

pub mod scopes;

pub mod queues;

pub mod doctor;

mod deadline;
mod staging;
pub mod telemetry;
pub mod worker;

mod error;
mod handle;
mod list;
mod outcome;
#[cfg(feature = "problem")]
pub mod problem;
pub mod testing;
mod transact;

pub use open::{open, redacted_url};
pub use tidelock_derive::Event;
/// The store contract: commits, names, versions, queries, and the [`Store`](store::Store) trait.
pub use tidelock_store as store;
pub use tidelock_store::{ExpectedVersion, Timestamp, When};

pub use crate::closing::{AnyStream, Archive, CloseError, CloseSummary, Closing, discard};
pub use crate::error::{Error, ErrorKind, Result};
pub use crate::event::{DecodeError, Event, Upcaster};
pub use crate::events::{
    Aggregate, AggregateRef, AggregateSet, Decision, ExecuteError, Executed, IntoEvents, LoadError,
    Loaded, MultiDecision, ParticipantSet, Personal, Provenance, RetryPolicy, Snapshots,
    VersionConflict,
};
pub use crate::feed::{Feed, FeedItem, Follow};
pub use crate::handle::Tidelock;
pub use crate::list::{List, ListStream, Page};
pub use crate::metadata::Metadata;
pub use crate::missing::Missing;
pub use crate::outcome::Outcome;
pub use crate::recorded::{ReadError, Recorded, Unreadable};
pub use crate::scopes::{Scope, ScopeError, ScopeKind};
pub use crate::staging::{Fenced, Tx};
pub use crate::transact::Transact;

/// What derived code needs. Not for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::error::{Error, ErrorKind, Result};
    pub use crate::event::{DecodeError, Upcaster, decode, encode, unknown_type};
    pub use serde;
    pub use tidelock_store::{RawJson, StoreError};
}

/// The PostgreSQL store, for its own features: a transaction that holds a commit and your SQL.
#[cfg(feature = "postgres")]
pub use tidelock_store_postgres as postgres;
/// The SQLite store, for its own features: your statements in a commit's transaction.
#[cfg(feature = "sqlite")]
pub use tidelock_store_sqlite as sqlite;

/// The README's example is compiled and run with the rest.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So is the guide's.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/events.md")]
struct EventsGuide;

/// And the other one's.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/reactions.md")]
struct ReactionsGuide;

/// The guide to transactions.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/transactions.md")]
struct TransactionsGuide;

/// And that of claims.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/claims.md")]
struct ClaimsGuide;

/// And that to runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/runs.md")]
struct RunsGuide;

/// And that to scopes.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/scopes.md")]
struct ScopesGuide;

/// What most programs need: `use tidelock::prelude::*`.
pub mod prelude {
    pub use crate::claims::{IdempotencyClaim, Period};
    pub use crate::reactions::{Backoff, HandlerError, ReactionCtx, ReactionFilter, on, on_any};
    pub use crate::runs::{
        OnUnknownOutcome, RaceWinner, Retry, RunCtx, Schedule, StepError, StepKey, Workflow,
    };
    pub use crate::{
        Aggregate, Event, ExecuteError, ExpectedVersion, Metadata, Outcome, Personal, Recorded,
        Scope, ScopeKind, Tidelock, Timestamp, Tx,
    };
}
