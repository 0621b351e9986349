//! The route table: every route, and the role that it needs.
//!
//! A route's path, parameters and responses are declared at its handler, and the OpenAPI document
//! is generated from them. The role is declared here, for all routes in one place. A route cannot
//! be added without a role, which also makes it authorized, counted, and, if it writes, idempotent
//! by `Idempotency-Key`; operators' actions are audited on every route.

use std::any::Any;
use std::fmt;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use http::header::{CACHE_CONTROL, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use tidelock::problem::Problem;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::app_state::AppState;
use crate::audit::{Audit, AuditDetail};
use crate::auth::{Authorize, Role, admit};
use crate::requests::{Counted, count};
use crate::resources::{
    audit as audited, claims, commits, correlation, doctor, feed, follow, health, jobs, leases,
    locks, metrics, openapi as document, overview, pauses, projections, queues, quotas, rates,
    reactions, records, runs, schedules, scopes, singletons, states, streams, subjects, whoami,
};
use crate::{audit, idempotency, openapi, origin, query, ui};

/// What a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// No token: the route reveals nothing.
    Nothing,
    /// This role, or a higher one.
    Role(Role),
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its method.
    pub method: http::Method,
    /// Its path, with parameters in braces: `/v1/streams/{stream}`.
    pub path: String,
    /// What it requires.
    pub needs: Needs,
}

/// All routes.
fn table(served: &AppState) -> Table {
    Table::new(served)
        .public(routes!(health::health))
        .public(routes!(health::ready))
        .reader(routes!(document::document))
        .reader(routes!(whoami::whoami))
        .reader(routes!(audited::list))
        .reader(routes!(overview::overview))
        .reader(routes!(overview::live))
        .reader(routes!(doctor::examine))
        .reader(routes!(metrics::metrics))
        // Streams and the feed
        .reader(routes!(streams::list))
        .reader(routes!(streams::show))
        .reader(routes!(streams::events))
        .writer(routes!(streams::append))
        .reader(routes!(feed::page))
        .reader(routes!(follow::follow))
        .reader(routes!(correlation::show))
        .reader(routes!(states::show))
        // Commits and records
        .writer(routes!(commits::commit))
        .reader(routes!(records::list))
        .reader(routes!(records::show))
        // Scopes
        .reader(routes!(scopes::list))
        .reader(routes!(scopes::show))
        .reader(routes!(scopes::watch))
        .writer(routes!(scopes::replace))
        .writer(routes!(scopes::patch))
        .writer(routes!(scopes::delete))
        .writer(routes!(scopes::increment))
        .writer(routes!(scopes::push))
        .writer(routes!(scopes::set_entry))
        .writer(routes!(scopes::remove_entry))
        // Claims, locks, singletons and quotas
        .reader(routes!(claims::list))
        .reader(routes!(claims::peek))
        .writer(routes!(claims::claim))
        .writer(routes!(claims::renew))
        .writer(routes!(claims::complete))
        .writer(routes!(claims::fail))
        .writer(routes!(claims::release))
        .operator(routes!(claims::release_abandoned))
        .reader(routes!(locks::list))
        .reader(routes!(locks::show))
        .writer(routes!(locks::acquire))
        .writer(routes!(locks::renew))
        .writer(routes!(locks::release))
        .writer(routes!(singletons::take))
        .reader(routes!(quotas::list))
        .reader(routes!(quotas::show))
        .writer(routes!(quotas::take))
        .writer(routes!(quotas::reserve))
        .writer(routes!(quotas::confirm))
        .writer(routes!(quotas::refund))
        .reader(routes!(rates::show))
        .writer(routes!(rates::take))
        // Personal data
        .reader(routes!(subjects::show))
        .operator(routes!(subjects::erase))
        // Work items
        .reader(routes!(queues::items))
        .writer(routes!(queues::enqueue))
        .writer(routes!(queues::lease))
        .writer(routes!(queues::renew))
        .writer(routes!(queues::settle))
        .reader(routes!(leases::list))
        .operator(routes!(leases::unblock))
        .operator(routes!(leases::reset))
        .operator(routes!(leases::defer))
        .operator(routes!(leases::prioritize))
        // Jobs, schedules and pauses
        .reader(routes!(jobs::list))
        .reader(routes!(jobs::show))
        .operator(routes!(jobs::retry))
        .operator(routes!(jobs::discard))
        .operator(routes!(jobs::cancel))
        .reader(routes!(schedules::list))
        .reader(routes!(schedules::show))
        .operator(routes!(schedules::put))
        .operator(routes!(schedules::delete))
        .operator(routes!(schedules::pause))
        .operator(routes!(schedules::resume))
        .operator(routes!(schedules::trigger))
        .reader(routes!(pauses::list))
        .operator(routes!(pauses::pause))
        .operator(routes!(pauses::resume))
        // Runs
        .reader(routes!(runs::list))
        .reader(routes!(runs::show))
        .reader(routes!(runs::history))
        .reader(routes!(runs::published))
        .reader(routes!(runs::result))
        .writer(routes!(runs::start))
        .deciding(routes!(runs::signal))
        .operator(routes!(runs::bulk))
        .operator(routes!(runs::cancel))
        .operator(routes!(runs::terminate))
        .operator(routes!(runs::retry))
        .operator(routes!(runs::resume))
        .operator(routes!(runs::resolve))
        // Reactions
        .reader(routes!(reactions::list))
        .reader(routes!(reactions::targets))
        .reader(routes!(reactions::skipped))
        .operator(routes!(reactions::unblock))
        .operator(routes!(reactions::skip))
        .operator(routes!(reactions::reset))
        .operator(routes!(reactions::defer))
        .operator(routes!(reactions::prioritize))
        .operator(routes!(reactions::reroute))
        // Projections
        .reader(routes!(projections::list))
        .reader(routes!(projections::show))
        .reader(routes!(projections::rows))
        .reader(routes!(projections::row))
        .operator(routes!(projections::rebuild))
        .operator(routes!(projections::cancel))
}

/// Builds the router, and lists its routes.
pub(crate) fn router(served: &AppState) -> (Router, Vec<Route>) {
    let Table { router, routes, .. } = table(served);
    let (router, document) = router.split_for_parts();
    // The same routes always generate the same document, so it does not matter which is first.
    let _first = served.document.set(openapi::document(document));
    let router = router
        .merge(ui::router())
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_like_this)
        .layer(DefaultBodyLimit::max(served.limits().body_bytes))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(served.clone(), origin::check))
        .layer(header(X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(REFERRER_POLICY, "no-referrer"))
        .layer(header(CACHE_CONTROL, "no-store"))
        .with_state(served.clone());
    (router, routes)
}

async fn nothing_there() -> Problem {
    Problem::not_found(
        "no-route",
        "there is nothing under this path: GET /v1/openapi.json lists the paths",
    )
}

async fn not_like_this() -> Problem {
    let detail = "this path has other methods: see the header Allow, and GET /v1/openapi.json";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

/// A panic becomes a problem response instead of a broken connection.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    let detail = "the request failed: this is a bug, and the server's log has details";
    Problem::internal("handler-failed", detail).into_response()
}

/// Adds a header to every response that does not have it.
fn header(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

/// The routes collected so far.
struct Table {
    served: AppState,
    router: OpenApiRouter<AppState>,
    routes: Vec<Route>,
}

type Routes = UtoipaMethodRouter<AppState>;

impl Table {
    fn new(served: &AppState) -> Self {
        Self { served: served.clone(), router: OpenApiRouter::default(), routes: Vec::new() }
    }

    /// Public, with or without a token. Must not reveal anything about the store's contents.
    fn public(self, routes: Routes) -> Self {
        self.add(Needs::Nothing, routes, |methods, _| methods)
    }

    /// For readers. Must not change anything.
    fn reader(self, routes: Routes) -> Self {
        self.add(Needs::Role(Role::Reader), routes, |methods, _| methods)
    }

    /// For writers of data. An operator's use is audited, without the data.
    fn writer(self, routes: Routes) -> Self {
        self.changing(Role::Writer, AuditDetail::Path, routes)
    }

    /// For writers. An operator's use is audited, with the body.
    fn deciding(self, routes: Routes) -> Self {
        self.changing(Role::Writer, AuditDetail::Whole, routes)
    }

    /// For operators; audited.
    fn operator(self, routes: Routes) -> Self {
        self.changing(Role::Operator, AuditDetail::Whole, routes)
    }

    fn changing(self, role: Role, noted: AuditDetail, routes: Routes) -> Self {
        self.add(Needs::Role(role), routes, |methods, served| {
            let audit = Audit { served: served.clone(), noted };
            let audited = methods.route_layer(from_fn_with_state(audit, audit::record));
            audited.route_layer(idempotency::layer(served))
        })
    }

    fn add(
        mut self,
        needs: Needs,
        (schemas, mut paths, methods): Routes,
        within: impl FnOnce(MethodRouter<AppState>, &AppState) -> MethodRouter<AppState>,
    ) -> Self {
        let (method, path) = openapi::complete(&mut paths, needs);
        let counted = Counted {
            served: self.served.clone(),
            method: method.as_str().into(),
            route: path.as_str().into(),
        };
        let gate = Authorize { served: self.served.clone(), needs };
        let parameters = query::Parameters(openapi::query_parameters(&paths));
        let methods = within(methods, &self.served)
            .route_layer(from_fn_with_state(parameters, query::check))
            .route_layer(from_fn_with_state(gate, admit))
            .route_layer(from_fn_with_state(counted, count));
        self.router = self.router.routes((schemas, paths, methods));
        self.routes.push(Route { method, path, needs });
        self
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Role(role) => role.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
