//! The resources, one file each: request, meaning, response.
//!
//! To add one:
//! 1. A file here, named after the resource. A handler is an async function that returns `Result<_,
//!    Problem>`. It takes what it needs by extractors: `State(served): State<AppState>`
//!    (`served.tidelock()`, `served.store()`, `served.limits()`), `InPath(name):
//!    InPath<StreamName>` (a tuple for several names; names are validated as they are parsed),
//!    `InQuery(query)` and `Body(body)` (or `MaybeBody`) for types with
//!    `#[serde(deny_unknown_fields)]`, and `Caller` for the caller. The body comes last.
//! 2. Above it, `#[utoipa::path(...)]` with the whole path (`/v1/…`), `params(…)`, `request_body`
//!    and its own responses. Responses of every route (400, 401, 403, 500, 503, and those of
//!    `Idempotency-Key`) are added by `openapi.rs`. A problem response needs only
//!    its status and its description.
//! 3. A line in the table in `routes.rs` with the role that it needs: `reader`, `writer` or
//!    `operator`. That makes it authorized, counted, idempotent by `Idempotency-Key` if it writes,
//!    and audited if it is an operator's: a handler does nothing for any of this.
//! 4. Lists: `limit` and `after` in the query, `served.limits().page(query.limit)?`, and a `Page`
//!    as the response; the cursor is the text that `after` takes. Waiting: no longer than
//!    `served.limits().wait`, and not beyond the cancellation of `served.setup.closing`; nothing
//!    may be left behind when the client disconnects, which drops the handler's future at any
//!    await.
//! 5. `?` turns the patterns' errors into problems; every other expected result is an outcome with
//!    its own status. A problem's detail names the subject and says what to do, and contains no
//!    payload.
//! 6. A test over a socket in `tests/http/`, on every store; the test over all routes
//!    (`tests/http/every_route.rs`) finds the route by itself.

mod mirror;

mod bulk_action;
mod cancellation;
mod cursor;
mod durations;
pub(crate) mod event;
mod item;
mod named;
mod period;

pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod commits;
pub(crate) mod correlation;
pub(crate) mod doctor;
pub(crate) mod feed;
pub(crate) mod follow;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod locks;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod overview;
pub(crate) mod pauses;
pub(crate) mod projections;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod rates;
pub(crate) mod reactions;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod scopes;
pub(crate) mod singletons;
pub(crate) mod states;
pub(crate) mod streams;
pub(crate) mod subjects;
pub(crate) mod whoami;
