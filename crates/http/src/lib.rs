//! The HTTP API of a store: a router that any axum application can mount, and the server behind
//! `tidelock serve`.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! use tidelock::Tidelock;
//! use tidelock_http::{Api, Tokens};
//!
//! let tidelock = Tidelock::open("memory:").await?; // or sqlite:shop.db, or postgres://…
//! let tokens = Tokens::read("operator alice 3f9c0a77d1e2b4c5\nreader grafana 9b1e5f20c7a84d36")?;
//! let api = Api::over(&tidelock).tokens(tokens).hosts(["shop.example"]);
//!
//! let app: axum::Router = axum::Router::new().nest("/tidelock", api.router());
//! # let _ = app;
//! # Ok(())
//! # }
//! ```
//!
//! Every route is a line of `routes.rs`, with the role that it needs; the OpenAPI document is
//! generated from the same lines. Without tokens the API is read-only, and reachable by loopback
//! names only. It deliberately adds nothing to the patterns of `tidelock`: a route parses the
//! request, calls the pattern, and reports the result.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod app_state;
mod keys;
mod kinds;
mod limits;

mod routes;

mod auth;
mod origin;
#[cfg(feature = "otel")]
mod otel;

mod audit;
mod codes;
mod commits;
mod extract;
mod idempotency;
mod metrics;
mod openapi;
mod paging;
mod query;
mod requests;
mod samples;
mod sse;

mod resources;

mod ui;

mod serve;
mod tls;

pub use api::Api;
pub use auth::{Role, TokenError, Tokens};
pub use commits::Commits;
pub use limits::Limits;
pub use metrics::{Metrics, MetricsTaken, all_metrics};
#[cfg(feature = "otel")]
pub use otel::{ExportError, SpanExport};
pub use routes::{Needs, Route};
pub use serve::{ServeError, serve};
pub use tidelock::problem::Problem;
pub use tls::{Tls, TlsError};
