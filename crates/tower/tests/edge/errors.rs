//! Errors as responses: `?` in a handler of axum answers with problem details.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::Request;
use tidelock::prelude::*;
use tidelock_test_stage::{DyingStore, TestStore, on_every_store};

use crate::client::{Reply, ask};

/// Fails in the way that the path names.
async fn handler(
    State(tidelock): State<Tidelock>,
    Path(way): Path<String>,
) -> tidelock::Result<Response> {
    let claims = tidelock.claims();
    match way.as_str() {
        "absent" => drop(tidelock.runs().run("order-7").get().await?),
        "exceeded" => drop(claims.quota("seats", 0).take(1).await?.granted()?),
        "busy" => {
            let _held = claims.lock("door").acquire().await?.granted()?;
            let _never = claims.lock("door").acquire().await?.granted()?;
        }
        "invalid" => drop(tidelock.runs().run("").get().await?),
        "refused" => {
            let cart = tidelock.scope::<u32>(ScopeKind::custom("cart"), "7");
            cart.try_mutate(|_| {
                Err::<(), _>(std::io::Error::other("the shop is closed on Sundays"))
            })
            .await?;
        }
        _ => {
            tidelock.store().now().await?;
        }
    }
    Ok("done".into_response())
}

async fn answer(tidelock: &Tidelock, way: &str) -> Reply {
    let app = Router::new().route("/{way}", post(handler)).with_state(tidelock.clone());
    ask(&app, Request::post(format!("/{way}")).body(Body::empty()).unwrap()).await
}

async fn an_error_of_a_handler_is_a_problem_response(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for (way, status, code) in [
        ("absent", 404, "no-run"),
        ("exceeded", 429, "quota-exceeded"),
        ("busy", 409, "lock-held"),
        ("invalid", 400, "name-invalid"),
        ("refused", 409, "refused"),
    ] {
        let reply = answer(&tidelock, way).await;
        assert_eq!(reply.problem(), (status, code.to_owned()), "{reply:?}");
    }
    assert_eq!(answer(&tidelock, "well").await.told(), (200, "done"));
}

on_every_store!(an_error_of_a_handler_is_a_problem_response);

#[tokio::test]
async fn an_unavailable_store_is_a_503() {
    let dead = DyingStore::over(tidelock::open("memory:").await.unwrap(), 0, false);
    let reply = answer(&Tidelock::over(dead), "well").await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.body.contains("store-unavailable"), "{reply:?}");
}
