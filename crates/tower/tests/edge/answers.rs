//! Retries get the first response, as long as it is kept.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::Method;
use http::header::{CONTENT_TYPE, SET_COOKIE};
use tidelock_test_stage::{Observed, PATIENCE, TestStore, on_every_store, until};

use crate::client::{answered, ask, ask_until_answered, begin, pay, request, without_key};
use crate::till::{INSTANT, Till, keys};

/// CLAIM-41.
async fn a_retry_gets_the_response_from_any_process(stage: TestStore) {
    let till = Till::open();
    let (here, there) =
        (till.app(keys(&stage.tidelock().await)), till.app(keys(&stage.tidelock().await)));
    let first = ask(&here, pay("\"k-1\"", "7")).await;
    assert_eq!((first.told(), first.is_replay()), ((201, "payment 1 of 7"), false));
    for app in [&here, &there] {
        let again = ask(app, pay("k-1", "7")).await;
        assert_eq!((again.told(), again.is_replay()), (first.told(), true));
        assert_eq!(again.headers["x-receipt"], "1");
        assert_eq!(again.headers[CONTENT_TYPE], first.headers[CONTENT_TYPE]);
    }
    assert_eq!(
        ask(&there, pay("k-2", "7")).await.told(),
        (201, "payment 2 of 7"),
        "another key is another payment"
    );
}

/// CLAIM-42. While a request is in progress, others are told when to retry.
async fn a_request_in_progress_is_answered_with_retry_after(stage: TestStore) {
    let till = Till::shut();
    let layer = keys(&stage.tidelock().await).retry_after(Duration::from_secs(3));
    let (here, there) = (till.app(layer), till.app(keys(&stage.tidelock().await)));
    let first = begin(&here, pay("k", "7"));
    till.effects.until(1).await;
    let early = ask(&here, pay("k", "7")).await;
    assert_eq!(
        (early.problem(), &early.headers["retry-after"]),
        ((409, "in-progress".into()), &"3".parse().unwrap())
    );
    assert_eq!(ask(&there, pay("k", "7")).await.problem().0, 409);
    till.open_up();
    assert_eq!(answered(first).await.told(), (201, "payment 1 of 7"));
    assert!(ask(&there, pay("k", "7")).await.is_replay());
    assert_eq!(till.effects.count(), 1);
}

/// Schedule 94. CLAIM-42. On a route that waits they get the response instead.
async fn ten_waiting_clients_get_equal_responses_to_one_effect(stage: TestStore) {
    let till = Till::shut();
    let mut clients = Vec::new();
    for _ in 0..10 {
        let app = till.app(keys(&stage.tidelock().await).wait(PATIENCE));
        clients.push(begin(&app, pay("k", "7")));
    }
    till.effects.until(1).await;
    till.open_up();
    let mut firsts = 0;
    for client in clients {
        let reply = answered(client).await;
        assert_eq!(reply.told(), (201, "payment 1 of 7"));
        firsts += usize::from(!reply.is_replay());
    }
    assert_eq!((firsts, till.effects.count()), (1, 1));
}

/// Schedule 60. CLAIM-43: while it is in progress, and after.
async fn another_request_under_the_same_key_is_refused(stage: TestStore) {
    let till = Till::shut();
    let app = till.app(keys(&stage.tidelock().await).methods([Method::POST, Method::PUT]));
    let first = begin(&app, pay("k", "7"));
    till.effects.until(1).await;
    let reused = (422, "key-reused".to_owned());
    assert_eq!(ask(&app, pay("k", "8")).await.problem(), reused);
    till.open_up();
    answered(first).await;
    for other in [
        pay("k", "8"),
        pay("k", ""),
        request(Method::PUT, "/pay", "k", "7"),
        request(Method::POST, "/pay?twice=yes", "k", "7"),
    ] {
        assert_eq!(ask(&app, other).await.problem(), reused);
    }
    assert_eq!(till.effects.count(), 1);
}

/// CLAIM-43. A route can have its own fingerprint.
async fn a_route_can_have_its_own_fingerprint(stage: TestStore) {
    let till = Till::open();
    let app = till.app(
        keys(&stage.tidelock().await)
            .fingerprint(|_, body| tidelock::claims::Fingerprint::of_bytes(body.trim_ascii())),
    );
    ask(&app, pay("k", "7")).await;
    assert!(ask(&app, pay("k", " 7\n")).await.is_replay());
    assert_eq!(ask(&app, pay("k", "8")).await.status, 422);
}

/// CLAIM-44. Each route has its own TTL, and its own choice whether a key is required.
async fn every_route_has_its_own_options(stage: TestStore) {
    let (brief, long) = (Till::open(), Till::open());
    let layer = keys(&stage.tidelock().await);
    let (short, strict) = (layer.clone().ttl(INSTANT), layer.required());
    let app = |till: &Till, layer| {
        let till = till.clone();
        post(async move |amount: String| till.take(&amount).await).layer(layer)
    };
    let app = Router::new().route("/brief", app(&brief, short)).route("/pay", app(&long, strict));
    ask(&app, request(Method::POST, "/brief", "b", "7")).await;
    until("the response has expired", async || {
        ask(&app, request(Method::POST, "/brief", "b", "7")).await;
        brief.effects.count() > 1
    })
    .await;
    ask(&app, pay("l", "7")).await;
    assert!(ask(&app, pay("l", "7")).await.is_replay());
    ask(&app, without_key(Method::POST, "7")).await.refused(400, "key-missing");
    assert_eq!(long.effects.count(), 1);
}

/// CLAIM-45. Safe methods, and requests without a key, are passed through.
async fn requests_without_a_key_pass_through_unchanged(stage: TestStore) {
    let till = Till::open();
    let app = till.app(keys(&stage.tidelock().await));
    for request in [
        without_key(Method::POST, "7"),
        without_key(Method::POST, "7"),
        request(Method::GET, "/pay", "k", "7"),
        request(Method::GET, "/pay", "k", "8"),
        request(Method::PUT, "/pay", "no, key \"", "9"),
    ] {
        let reply = ask(&app, request).await;
        assert_eq!((reply.status, reply.is_replay()), (201, false));
        assert!(reply.headers.contains_key(SET_COOKIE));
    }
    assert_eq!(till.effects.count(), 5);
    ask(&app, request(Method::PATCH, "/pay", "k", "7")).await;
    assert!(ask(&app, request(Method::PATCH, "/pay", "k", "7")).await.is_replay());
}

/// CLAIM-46. Cookies are not replayed, unless the route says so.
async fn cookies_are_replayed_only_on_request(stage: TestStore) {
    let till = Till::open();
    let layer = keys(&stage.tidelock().await);
    let (careful, generous) = (till.app(layer.clone()), till.app(layer.without_headers([])));
    for (app, key, kept) in [(&careful, "a", false), (&generous, "b", true)] {
        assert!(
            ask(app, pay(key, "7")).await.headers.contains_key(SET_COOKIE),
            "the first client gets it"
        );
        let again = ask(app, pay(key, "7")).await;
        assert_eq!((again.is_replay(), again.headers.contains_key(SET_COOKIE)), (true, kept));
    }
}

/// CLAIM-47.
async fn keys_of_different_scopes_are_different_keys(stage: TestStore) {
    let till = Till::open();
    let layer = keys(&stage.tidelock().await);
    let app = till.app(
        layer.scope(|request| Some(request.headers.get("x-tenant")?.to_str().ok()?.to_owned())),
    );
    let of = |tenant: &'static str, body: &str| {
        let mut request = pay("k", body);
        request.headers_mut().insert("x-tenant", tenant.parse().unwrap());
        request
    };
    assert_eq!(ask(&app, of("acme", "7")).await.told(), (201, "payment 1 of 7"));
    assert_eq!(ask(&app, of("globex", "8")).await.told(), (201, "payment 2 of 8"));
    assert!(ask(&app, of("acme", "7")).await.is_replay());
    ask(&app, pay("k", "7")).await.refused(400, "scope-missing");
    assert_eq!(till.effects.count(), 2);
}

/// CLAIM-41. Nested layers act as one.
async fn nested_layers_act_as_one(stage: TestStore) {
    let till = Till::open();
    let layer = keys(&stage.tidelock().await);
    let app = till.app(layer.clone()).layer(layer);
    assert_eq!(ask(&app, pay("k", "7")).await.told(), (201, "payment 1 of 7"));
    assert!(ask(&app, pay("k", "7")).await.is_replay());
}

/// Schedule 61. CLAIM-44: the TTL of a response begins with the response.
async fn a_ttl_shorter_than_the_work_makes_no_second_effect(stage: TestStore) {
    let till = Till::shut();
    let tidelock = stage.tidelock().await;
    let app = till.app(keys(&tidelock).ttl(INSTANT));
    let first = begin(&app, pay("k", "7"));
    till.effects.until(1).await;
    let end = tidelock.store().now().await.unwrap().plus(INSTANT * 4);
    until("the TTL of a response would be over", async || {
        assert!(ask(&app, pay("k", "7")).await.is_in_progress());
        tidelock.store().now().await.unwrap() > end
    })
    .await;
    till.open_up();
    assert_eq!((answered(first).await.status, till.effects.count()), (201, 1));
}

/// CLAIM-41. A response is replayed byte by byte.
async fn a_response_of_any_bytes_is_replayed(stage: TestStore) {
    let (runs, odd) = (Observed::default(), b"\0\xff\x01 \xc3\xa4".to_vec());
    let layer = keys(&stage.tidelock().await);
    let handler = move |_: usize| {
        ([("x-odd", http::HeaderValue::from_bytes(b"caf\xe9").unwrap())], odd.clone())
    };
    let app = crate::till::app_of(&runs, layer, handler);
    let first = ask(&app, pay("k", "")).await;
    let again = ask_until_answered(&app, "k", "").await;
    assert_eq!((again.body, again.headers["x-odd"].as_bytes()), (first.body, &b"caf\xe9"[..]));
    assert_eq!(runs.count(), 1);
}

on_every_store!(
    a_retry_gets_the_response_from_any_process,
    a_request_in_progress_is_answered_with_retry_after,
    ten_waiting_clients_get_equal_responses_to_one_effect,
    another_request_under_the_same_key_is_refused,
    a_route_can_have_its_own_fingerprint,
    every_route_has_its_own_options,
    requests_without_a_key_pass_through_unchanged,
    cookies_are_replayed_only_on_request,
    keys_of_different_scopes_are_different_keys,
    nested_layers_act_as_one,
    a_ttl_shorter_than_the_work_makes_no_second_effect,
    a_response_of_any_bytes_is_replayed,
);
