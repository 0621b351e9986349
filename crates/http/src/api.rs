//! The API as it is set up: over which store, for whom, within which bounds.

use axum::Router;
use serde::Serialize;
use tidelock::doctor::Doctor;
use tidelock::{Aggregate, Tidelock};
use tokio_util::sync::CancellationToken;

use crate::app_state::{AppState, Setup};
use crate::auth::Tokens;
use crate::commits::Commits;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::routes::{self, Route};

/// The HTTP API of one store.
#[derive(Debug, Clone)]
#[must_use = "an API answers nobody until its router is served"]
pub struct Api {
    setup: Setup,
}

impl Api {
    /// Over this store. Everybody who reaches it by a name of this machine may look, and nobody may
    /// change anything.
    pub fn over(tidelock: &Tidelock) -> Self {
        Self { setup: Setup::over(tidelock.clone()) }
    }

    /// Whoever asks needs one of these, and may do what its role allows.
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.setup.tokens = Some(tokens);
        self
    }

    /// Names, besides those of the loopback, under which clients know this server.
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.setup.hosts.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase()));
        self
    }

    /// The state of aggregates of this kind can be shown, as it is and as it was.
    pub fn aggregate<A: Aggregate + Serialize>(mut self) -> Self {
        self.setup.kinds.add::<A>();
        self
    }

    /// What the process counts is told under `/metrics`.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.setup.metrics = Some(metrics);
        self
    }

    /// Has this doctor look after the store: one that knows more of it than every store can tell.
    pub fn doctor(mut self, doctor: Doctor) -> Self {
        self.setup.doctor = Some(doctor);
        self
    }

    /// How much is committed is told in the overview and under `/metrics`.
    pub fn commits(mut self, commits: Commits) -> Self {
        self.setup.commits = Some(commits);
        self
    }

    /// Within these bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.setup.limits = limits;
        self
    }

    /// Event streams and waiting requests end once this is cancelled. [`serve`](crate::serve())
    /// sees to it by itself.
    pub fn until(mut self, closing: CancellationToken) -> Self {
        self.setup.closing = closing;
        self
    }

    /// A router with everything, to be mounted under any prefix.
    pub fn router(&self) -> Router {
        self.served().1
    }

    /// The same, with what its handlers share.
    pub(crate) fn served(&self) -> (AppState, Router) {
        let served = AppState::new(self.setup.clone());
        let router = routes::router(&served).0;
        (served, router)
    }

    /// Every route there is, and what it needs.
    pub fn routes(&self) -> Vec<Route> {
        routes::router(&AppState::new(self.setup.clone())).1
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }
}
