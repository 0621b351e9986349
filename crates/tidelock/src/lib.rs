//! Correct concurrency for stateful services: five patterns over one store, and one atomic commit
//! over all of them.
//!
//! Open a store by its URL (`memory:`, `sqlite:shop.db`, `postgres://user@host/shop`); everything
//! else is a call on the handle. Each pattern below works alone, and [`Tidelock::transact`] commits
//! several of them together.
//!
//! # Events
//!
//! An [`Aggregate`](events::Aggregate) is a state folded from the events of one stream. A decision
//! is made on its current state, and made again when another writer was first:
//!
//! ```
//! use tidelock::prelude::*;
//!
//! #[derive(Debug, Default, Clone)]
//! struct Stock { left: i64 }
//!
//! #[derive(Debug, Clone, Event)]
//! enum StockEvent { Received { units: i64 }, Reserved { units: i64 } }
//!
//! impl Aggregate for Stock {
//!     const KIND: &'static str = "stock";
//!     type Event = StockEvent;
//!
//!     fn apply(&mut self, event: &StockEvent) {
//!         match event {
//!             StockEvent::Received { units } => self.left += units,
//!             StockEvent::Reserved { units } => self.left -= units,
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidelock::Result<()> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let stock = tidelock.aggregate::<Stock>("assam");
//! stock.append(StockEvent::Received { units: 3 }).await?;
//! stock
//!     .execute(|stock| match stock.left {
//!         2.. => Ok(StockEvent::Reserved { units: 2 }),
//!         left => Err(format!("only {left} left")),
//!     })
//!     .await?;
//! assert_eq!(stock.load().await?.state.left, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Reactions
//!
//! A [reaction](reactions) handles every event of its kind, in order, at least once, and what it
//! writes with `ctx` exactly once:
//!
//! ```
//! use tidelock::prelude::*;
//!
//! #[derive(Debug, Event)]
//! struct Placed { cents: i64 }
//!
//! async fn invoice(order: Recorded<Placed>, ctx: ReactionCtx) -> Result<(), HandlerError> {
//!     Ok(ctx.put(format!("invoice/{}", order.stream), &order.event.cents)?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let app = tidelock.app().reaction("invoice", on::<Placed>(), invoice).build()?;
//! app.run_until(async { /* until the process is told to stop */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Runs
//!
//! A [run](runs) is a function that survives the death of its process. A finished step is never
//! run again:
//!
//! ```
//! use tidelock::prelude::*;
//!
//! const DELIVERY: Workflow<String, String> = Workflow::new("delivery");
//!
//! async fn deliver(ctx: RunCtx, order: String) -> Result<String, StepError> {
//!     let label = ctx.step("label", |_key| async { Ok::<_, HandlerError>(format!("label of {order}")) }).await?;
//!     let packer: String = ctx.wait_for_signal("packed").await?;
//!     Ok(format!("{label}, packed by {packer}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let app = tidelock.app().workflow(DELIVERY, deliver).build()?;
//! let client = async {
//!     let run = tidelock.start(DELIVERY, "order-7", "order 7").await?;
//!     run.signal("packed", "Ada").await?;
//!     run.result().await
//! };
//! let (stop, stopped) = tokio::sync::oneshot::channel();
//! let client = async { let result = client.await; let _ = stop.send(()); result };
//! let (ran, result) = tokio::join!(app.run_until(async { let _ = stopped.await; }), client);
//! ran?;
//! assert_eq!(result?, "label of order 7, packed by Ada");
//! # Ok(())
//! # }
//! ```
//!
//! # Jobs
//!
//! A [job](jobs) is work that is handed over, in any commit, and done once by any process that has
//! its handler:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tidelock::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendMail { to: String }
//! impl Job for SendMail { const QUEUE: &'static str = "mail"; }
//!
//! async fn send_mail(mail: SendMail, ctx: JobCtx) -> Result<(), HandlerError> {
//!     println!("mail to {} under key {}", mail.to, ctx.effect_key());
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tidelock = Tidelock::open("memory:").await?;
//! tidelock.enqueue(&SendMail { to: "ada@example.com".into() }).key("welcome/ada").await?;
//! let app = tidelock.app().job(send_mail).build()?;
//! app.run_until(async { /* until the process is told to stop */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Scopes
//!
//! A [scope](scopes) is a small document that many callers change at once without losing a change:
//!
//! ```
//! use tidelock::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidelock::Result<()> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
//! let count = basket.mutate(|basket| { basket.push("tea".into()); basket.len() }).await?;
//! assert_eq!(count.value, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Claims
//!
//! A [claim](claims) is a first-come right: an idempotency key, a lock, a quota, one of a kind.
//! Claim first, then work:
//!
//! ```
//! use std::time::Duration;
//! use tidelock::prelude::*;
//!
//! async fn pay(cents: u32) -> Result<String, std::io::Error> {
//!     Ok(format!("receipt of {cents}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let payment = tidelock.idempotency("pay:42").fingerprint(&700);
//! let receipt = payment.once(Duration::from_secs(5), || pay(700)).await?;
//! let again = payment.once(Duration::from_secs(5), || pay(700)).await?; // paid once
//! assert_eq!(receipt, again);
//!
//! let daily = tidelock.quota("orders", 20).of("alice").per(Period::Day);
//! let _grant = daily.take(1).await?.granted()?; // an error if the day's units are used up
//! # Ok(())
//! # }
//! ```
//!
//! # One commit over all of them
//!
//! [`transact`](Tidelock::transact) makes one unit of work of several patterns: all of it is
//! committed, or nothing, and a conflict runs it again.
//!
//! ```
//! use tidelock::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidelock::Result<()> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let basket = tidelock.scope::<Vec<String>>(ScopeKind::SESSION, "alice");
//! let daily = tidelock.quota("orders", 20).of("alice");
//! tidelock
//!     .transact(async |tx: Tx| -> tidelock::Result<()> {
//!         let items = tx.mutate(&basket, std::mem::take).await?; // the basket is empty afterwards
//!         tx.take(&daily, 1).await?.granted()?; // one of twenty
//!         tx.put("orders/7", &items)?; // a record
//!         Ok(())
//!     })
//!     .await
//! # }
//! ```
//!
//! # The store below
//!
//! The patterns are built on a small contract, [`store`]: a log of events, records, and leases on
//! work items, written together by one commit. Use it directly for a pattern of your own:
//!
//! ```
//! use serde_json::json;
//! use tidelock::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidelock::Result<()> {
//! let tidelock = Tidelock::open("memory:").await?;
//! let done = tidelock
//!     .commit()
//!     .append("order-7", ExpectedVersion::NoStream, event("placed", json!({ "units": 2 })))
//!     .add("sold/tea", 2, ..=18) // refused beyond 18, and then there is no order either
//!     .enqueue("mail", "order-7")
//!     .await?;
//! assert_eq!(done.writes[0].sum, Some(2));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `postgres` (default) and `sqlite`: the stores besides the one in memory. A program links
//!   SQLite once, so `sqlite` resolves beside sqlx 0.9, sea-orm 2, diesel 2.3 and rusqlite 0.39 to
//!   0.41.
//! - `chrono` and `time`: conversions of [`Timestamp`] from and to the types of these crates.
//! - `problem`: errors as problem details; `axum`: as responses of axum, too.
//! - `otel`: the current trace is that of the current span of tracing-opentelemetry.
//!
//! # All modules
//!
//! - The patterns: [`events`] (with [`closing`] the books, and the [`feed`] of all events),
//!   [`reactions`], [`runs`], [`scopes`], [`claims`], and [`queues`] for leased work of any kind.
//! - Shared by them, at the root: [`Tidelock`] and [`Tx`]; [`App`] for what a process runs;
//!   [`Error`], [`ExecuteError`] and [`HandlerError`]; [`Outcome`]; [`Retry`] and [`Backoff`];
//!   [`List`] and [`Page`]; [`Metadata`].
//! - The contract below: [`store`], with `sqlite` and `postgres` for what only those stores have.
//! - Operations: [`doctor`] finds what is stuck, [`telemetry`] lists the metrics, [`worker`] leases
//!   and renews, [`testing`] helps to test all of it without waiting, and `problem` (a feature)
//!   makes errors responses of HTTP (RFC 9457).
//! - What most programs import: [`prelude`].

#![cfg_attr(docsrs, feature(doc_cfg))]

// The derive names this crate from outside, and is used inside it too.
#[allow(unused_extern_crates)]
extern crate self as tidelock;

mod open;

mod backoff;
mod handler_error;
mod retry;

mod commit_builder;
mod event;
mod event_draft;
pub mod feed;
mod metadata;
#[cfg(feature = "otel")]
mod otel;
mod recorded;
mod refusal;
mod trace_context;

pub mod events;
mod group_commit;

pub mod reactions;

pub mod runs;

mod bounds;
pub mod closing;
mod missing;
mod pauses;

pub mod claims;

pub mod scopes;

pub mod jobs;

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
#[cfg(feature = "postgres")]
mod transact_in;

pub use open::{check_url, open, redacted_url};
pub use tidelock_derive::Event;
/// The store contract: commits, names, versions, queries, and the [`Store`](store::Store) trait.
pub use tidelock_store as store;
pub use tidelock_store::{ExpectedVersion, Timestamp, When};

pub use crate::backoff::Backoff;
pub use crate::commit_builder::CommitBuilder;
pub use crate::error::{Error, ErrorKind, Result};
pub use crate::event::Event;
pub use crate::event_draft::{EventDraft, IntoNewEvents, event};
pub use crate::events::error::ExecuteError;
pub use crate::handle::Tidelock;
pub use crate::handler_error::HandlerError;
pub use crate::list::{List, ListStream, Page};
pub use crate::metadata::Metadata;
pub use crate::missing::Missing;
pub use crate::outcome::Outcome;
pub use crate::pauses::{PauseInfo, PauseSubject};
pub use crate::reactions::app::{App, AppBuilder};
pub use crate::reactions::reaction::BuildError;
pub use crate::refusal::RefusalExt;
pub use crate::retry::Retry;
pub use crate::staging::{Fenced, Tx};
pub use crate::trace_context::{InvalidTraceContext, TraceContext};
pub use crate::transact::{Transact, TransactOnce};
#[cfg(feature = "postgres")]
pub use crate::transact_in::{Pending, TransactIn};

/// What derived code needs. Not for people.
#[doc(hidden)]
pub mod __private {
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

/// And that to jobs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/jobs.md")]
struct JobsGuide;

/// And that to scopes.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/scopes.md")]
struct ScopesGuide;

/// And that to the user's own SQL.
#[cfg(all(doctest, feature = "postgres", feature = "sqlite"))]
#[doc = include_str!("../../../docs/guides/sql.md")]
struct SqlGuide;

/// And that to testing.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/testing.md")]
struct TestingGuide;

/// And that to tracing.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/tracing.md")]
struct TracingGuide;

/// And that to metrics.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/metrics.md")]
struct MetricsGuide;

/// What most programs need: `use tidelock::prelude::*`.
pub mod prelude {
    pub use crate::claims::{IdempotencyClaim, Period};
    pub use crate::events::{Aggregate, Personal, Recorded};
    pub use crate::jobs::{Job, JobCtx};
    pub use crate::reactions::{ReactionCtx, on, on_any};
    pub use crate::runs::{RunCtx, Schedule, StepError, StepKey, Workflow};
    pub use crate::scopes::{Scope, ScopeKind};
    pub use crate::{
        Backoff, Event, ExecuteError, ExpectedVersion, HandlerError, Metadata, Outcome, RefusalExt,
        Retry, Tidelock, Timestamp, Tx, event,
    };
}
