//! The HTTP edge: requests with an `Idempotency-Key`, through the tower layer of a process.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tidelock::store::{Commit, NewEvent, StreamName};
use tidelock::{ExpectedVersion, Tidelock};
use tidelock_tower::{IdempotencyKey, IdempotencyLayer};
use tower::{Layer, ServiceExt, service_fn};

use super::Client;
use crate::simulator::process::Process;

/// The service of a process.
#[derive(Clone)]
pub(crate) struct Edge {
    process: Process,
    layer: Arc<IdempotencyLayer>,
}

impl Edge {
    pub(crate) fn new(process: &Process, tidelock: &Tidelock) -> Self {
        let layer = IdempotencyLayer::new(tidelock).lease(process.world.plan.lease);
        Self { process: process.clone(), layer: Arc::new(layer) }
    }

    /// Sends a request; status, body, and whether it is a replay.
    async fn send(&self, key: &str) -> Option<(StatusCode, String, bool)> {
        let process = self.process.clone();
        let handler = service_fn(move |request: Request<Full<Bytes>>| {
            let process = process.clone();
            async move { Ok::<_, Infallible>(pay(&process, &request).await) }
        });
        let request = Request::post("/pay").header("idempotency-key", key);
        let request = request.body(Full::new(Bytes::from_static(b"7"))).ok()?;
        let response = self.layer.layer(handler).oneshot(request).await.ok()?;
        let replayed = response.headers().get("idempotent-replayed").is_some();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        Some((parts.status, String::from_utf8_lossy(&body).into_owned(), replayed))
    }
}

/// The handler: its effect lands with the response.
async fn pay(process: &Process, request: &Request<Full<Bytes>>) -> Response<Full<Bytes>> {
    let status = |status| {
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.status_mut() = status;
        response
    };
    let Some(key) = request.extensions().get::<IdempotencyKey>() else {
        return status(StatusCode::BAD_REQUEST);
    };
    let pause = process.draw(|rng| rng.millis(0, 500));
    process.sleep(pause).await;
    let receipt = process.draw(|rng| rng.below(1_000_000)).to_string();
    let (Ok(event), Ok(stream)) = (NewEvent::of("paid", key.key()), StreamName::new("paid")) else {
        return status(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let commit = Commit::new().append(&stream, ExpectedVersion::Any, [event]);
    let response = Response::new(Full::new(Bytes::from(receipt)));
    match key.complete_with(response, commit).await {
        Ok(response) => response,
        Err(_) => status(StatusCode::SERVICE_UNAVAILABLE),
    }
}

impl Client {
    /// A request that other clients send too, until it is answered.
    pub(super) async fn request(&self, _: &str) {
        let key = self.draw(|rng| format!("request-{}", rng.below(10)));
        for _ in 0..6 {
            let Some((status, body, replayed)) = self.edge.send(&key).await else { return };
            self.process.alive().await;
            if status == StatusCode::OK {
                if replayed {
                    self.sometimes("response is replayed");
                }
                self.process.world.answer("request", &key, &body);
                return self.process.world.told("request", &key);
            }
            let pause = self.draw(|rng| rng.millis(200, 2_000));
            self.process.sleep(pause).await;
        }
    }
}
