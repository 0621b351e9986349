//! A till: a handler whose effects are counted, and that can be paused in the middle of its work.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use tidelock::Tidelock;
use tidelock_test_stage::Observed;
use tidelock_tower::IdempotencyLayer;
use tokio::sync::watch;

/// Expires immediately.
pub(crate) const INSTANT: Duration = Duration::from_millis(5);

/// The handler, and what was observed of it. Clones are handles to the same till.
#[derive(Debug, Clone)]
pub(crate) struct Till {
    pub(crate) effects: Observed,
    open: Arc<watch::Sender<bool>>,
}

impl Till {
    pub(crate) fn open() -> Self {
        Self { effects: Observed::default(), open: Arc::new(watch::channel(true).0) }
    }

    /// Handlers wait until it is opened.
    pub(crate) fn shut() -> Self {
        Self { effects: Observed::default(), open: Arc::new(watch::channel(false).0) }
    }

    pub(crate) fn open_up(&self) {
        self.open.send_replace(true);
    }

    /// Takes the money, and returns the number of the payment.
    pub(crate) async fn take(&self, amount: &str) -> Response {
        self.effects.note(amount);
        let nth = self.effects.count();
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        let headers = [("x-receipt", nth.to_string()), ("set-cookie", "visited=1".to_owned())];
        (StatusCode::CREATED, headers, format!("payment {nth} of {amount}")).into_response()
    }

    /// An application with this till at `/pay`, for every method.
    pub(crate) fn app(&self, layer: IdempotencyLayer) -> Router {
        let till = self.clone();
        let handler = async move |amount: String| till.take(&amount).await;
        Router::new().route("/pay", axum::routing::any(handler).layer(layer))
    }
}

/// An application with this handler at `/pay`, which is given its run count.
pub(crate) fn app_of<R: IntoResponse + 'static>(
    runs: &Observed,
    layer: IdempotencyLayer,
    handler: impl Fn(usize) -> R + Clone + Send + Sync + 'static,
) -> Router {
    let runs = runs.clone();
    let counted = async move || {
        runs.note("run");
        handler(runs.count())
    };
    Router::new().route("/pay", post(counted).layer(layer))
}

pub(crate) fn keys(tidelock: &Tidelock) -> IdempotencyLayer {
    IdempotencyLayer::new(tidelock)
}
