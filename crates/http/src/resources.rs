//! The resources, one file each: what a request means, and what is answered.
//!
//! To add one:
//! 1. A file here, named after the resource. A handler is an async function that returns `Result<_,
//!    Problem>`. It takes what it needs by extractors: `State(served): State<Served>`
//!    (`served.tidelock()`, `served.store()`, `served.limits()`), `InPath(name):
//!    InPath<StreamName>` (a tuple for several names; checked names are checked as they are read),
//!    `InQuery(query)` and `Body(body)` (or `MaybeBody`) for types with
//!    `#[serde(deny_unknown_fields)]`, and `Caller` for who asks. Body comes last.
//! 2. Over it, `#[utoipa::path(...)]` with the whole path (`/v1/…`), `params(…)`, `request_body`
//!    and the answers that are its own. What every route can answer (400, 401, 403, 500, 503, and
//!    what comes with `Idempotency-Key`) is added by `openapi.rs`. Answers that are problems say
//!    `body = Details, content_type = PROBLEM_JSON`.
//! 3. A line in the table in `routes.rs`, which says who may use it: `reader`, `writer` or
//!    `operator`. With that it is behind the gate, counted, honours `Idempotency-Key` if it writes,
//!    and, if it is an operator's, is written down in the audit: a handler does nothing for any of
//!    this.
//! 4. Lists: `limit` and `after` in the query, `served.limits().page(query.limit)?`, and a `Page`
//!    as the answer; the cursor is the text that `after` takes. Waiting: no longer than
//!    `served.limits().wait`, and no longer than until `served.setup.closing` is cancelled; nothing
//!    may be left behind when the client goes away, which drops the handler's future at any await.
//! 5. `?` turns a `StoreError` into a problem; what else can happen in normal life is an outcome
//!    with a status of its own. A problem's detail names the thing and says what to do, and has
//!    nothing of a payload in it.
//! 6. A test over a socket in `tests/http/`, on every store; the walk over all routes
//!    (`tests/http/walk.rs`) finds the route by itself.

mod adjusting;
mod cursor;
pub(crate) mod event;
mod item;
mod named;
mod period;
mod span;
mod waiting;

pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod correlation;
pub(crate) mod doctor;
pub(crate) mod feed;
pub(crate) mod follow;
pub(crate) mod health;
pub(crate) mod leases;
pub(crate) mod locks;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod reactions;
pub(crate) mod runs;
pub(crate) mod scopes;
pub(crate) mod singletons;
pub(crate) mod states;
pub(crate) mod streams;
pub(crate) mod whoami;
