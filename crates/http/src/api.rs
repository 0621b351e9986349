//! The API's builder: which store it serves, to which callers, within which limits.

use axum::Router;
use serde::Serialize;
use tidelock::Tidelock;
use tidelock::doctor::Doctor;
use tidelock::events::Aggregate;
use tokio_util::sync::CancellationToken;

use crate::app_state::{AppState, Setup};
use crate::auth::Tokens;
use crate::commits::Commits;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::routes::{self, Route};

/// The HTTP API of one store.
#[derive(Debug, Clone)]
#[must_use = "an API does nothing until its router is served"]
pub struct Api {
    setup: Setup,
}

impl Api {
    /// Creates an API for this store. Without tokens, every client that reaches the server by a
    /// loopback name can read, and no client can change anything.
    pub fn over(tidelock: &Tidelock) -> Self {
        Self { setup: Setup::over(tidelock.clone()) }
    }

    /// Sets the tokens. Every request then needs one of them, and its role decides what the request
    /// can do.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.setup.tokens = Some(tokens);
        self
    }

    /// Adds host names, besides those of the loopback, under which clients reach this server.
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.setup.hosts.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase()));
        self
    }

    /// Registers a kind of aggregate, so that its state can be shown, current and past.
    pub fn aggregate<A: Aggregate + Serialize>(mut self) -> Self {
        self.setup.kinds.add::<A>();
        self
    }

    /// Serves the metrics of this process under `/metrics`.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.setup.metrics = Some(metrics);
        self
    }

    /// Sets the doctor. A doctor of a specific store checks more than the store contract offers.
    pub fn doctor(mut self, doctor: Doctor) -> Self {
        self.setup.doctor = Some(doctor);
        self
    }

    /// Shows the number of commits in the overview and under `/metrics`.
    pub fn commits(mut self, commits: Commits) -> Self {
        self.setup.commits = Some(commits);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.setup.limits = limits;
        self
    }

    /// Ends event streams and waiting requests once this token is cancelled.
    /// [`serve`](crate::serve()) does this by itself.
    pub fn until(mut self, closing: CancellationToken) -> Self {
        self.setup.closing = closing;
        self
    }

    /// Builds a router with all routes, to be mounted under any prefix.
    pub fn router(&self) -> Router {
        self.served().1
    }

    /// Builds the router together with the state that its handlers share.
    pub(crate) fn served(&self) -> (AppState, Router) {
        let served = AppState::new(self.setup.clone());
        let router = routes::router(&served).0;
        (served, router)
    }

    /// Lists all routes and what each of them needs.
    pub fn routes(&self) -> Vec<Route> {
        routes::router(&AppState::new(self.setup.clone())).1
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}
