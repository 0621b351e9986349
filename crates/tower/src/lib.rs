//! A tower layer for the `Idempotency-Key` header, on the claims of one store.
//!
//! A client that gets no response sends its request again, under the same key. The layer claims the
//! key before the handler runs, records the response, and replays it to retries; so a request is
//! carried out once, across any number of retries, clients and processes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use axum::{Router, routing::post};
//! use tidelock::Tidelock;
//! use tidelock_tower::IdempotencyLayer;
//!
//! let tidelock = Tidelock::open("memory:").await?; // or sqlite:shop.db, or postgres://…
//! let keys = IdempotencyLayer::new(&tidelock);
//!
//! let app: Router = Router::new()
//!     .route("/orders", post(async || "placed").layer(keys.clone()))
//!     .route("/payments", post(async || "paid").layer(keys.required().ttl(Duration::from_secs(7 * 24 * 3600))));
//! # let _ = app;
//! # Ok(())
//! # }
//! ```
//!
//! It works with axum, and with any tower service over the types of `http` whose request body can
//! be made of bytes. It deduplicates by the key only. The guide is `docs/guides/http.md`.

mod layer;
mod limits;
mod options;

mod future;
mod service;

mod attempt;
mod config;
mod settlement;
mod stream_end;

mod claim_name;
#[cfg(feature = "axum")]
mod extract;
mod fingerprint;
mod idempotency_key;
mod key;

mod body;
mod bytes_or_text;
mod problem;
mod recorded;

mod trace_layer;

pub mod telemetry;

pub use body::ResponseBody;
pub use future::ResponseFuture;
pub use idempotency_key::{CompleteError, IdempotencyKey};
pub use layer::IdempotencyLayer;
pub use options::Unrecorded;
pub use service::IdempotencyService;
pub use trace_layer::{TraceContextLayer, TraceContextService};

/// What a failure does to a key.
pub use tidelock::claims::OnFailure;

/// Compiles and runs the guide's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/http.md")]
struct HttpGuide;
