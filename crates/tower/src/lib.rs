//! The HTTP edge: a tower layer for the `Idempotency-Key` header, over claims of one store.
//!
//! A client that hears no answer sends its request again, under the same key. The layer claims the
//! key before the handler runs, keeps the response, and gives it to whoever asks again; so what a
//! request asks for is done once, across any number of retries, clients and processes.
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
//! be made of bytes. Not here: deduplication by anything but the key. The guide is
//! `docs/guides/http.md`.

mod layer;
mod limits;
mod options;

mod future;
mod service;

mod attempt;
mod edge;
mod ending;
mod settling;

mod claimed;
mod fingerprint;
mod key;
mod name;

mod body;
mod bytes_or_text;
mod problem;
mod recorded;

pub mod telemetry;

pub use body::ResponseBody;
pub use claimed::{CompleteError, IdempotencyKey};
pub use future::ResponseFuture;
pub use layer::IdempotencyLayer;
pub use options::Unrecorded;
pub use service::IdempotencyService;

/// What a failure does to a key.
pub use tidelock::claims::OnFailure;

/// The guide is compiled and run with the rest.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/http.md")]
struct HttpGuide;
