//! The server itself: health, callers, metrics, and shutdown.

use http::Method;
use http::header::LOCATION;
use serde_json::json;
use tidelock::store::StoreExt;
use tidelock_http::{Api, Commits, ServeError, serve};
use tidelock_test_stage::TestStore;
use tokio::net::TcpListener;

use crate::harness::{OPERATOR, READER, Server, WRITER, tokens};

/// HTTP-16.
async fn health_and_readiness_reveal_nothing_else(stage: TestStore) {
    let server = Server::start(&stage).await;
    assert_eq!(server.stranger().get("/health").await.ok(200), json!({ "status": "ok" }));
    assert_eq!(server.stranger().get("/ready").await.ok(200), json!({ "status": "ok" }));
    server.tidelock.store().close().await.unwrap();
    assert_eq!(server.stranger().get("/health").await.ok(200), json!({ "status": "ok" }));
    let away = server.stranger().get("/ready").await;
    if server.tidelock.store().capabilities().name != "memory" {
        assert_eq!((away.problem().0, away.headers.contains_key("retry-after")), (503, true));
    }
}

/// HTTP-3.
async fn whoami_returns_the_caller(stage: TestStore) {
    let server = Server::start(&stage).await;
    for (token, name, role) in
        [(READER, "rita", "reader"), (WRITER, "walt", "writer"), (OPERATOR, "olga", "operator")]
    {
        let told = server.client(token).get("/v1/whoami").await.ok(200);
        assert_eq!(told, json!({ "name": name, "role": role, "read_only": false }));
    }
    let open = Server::start_with(&stage, |api| api).await;
    let told = open.stranger().get("/v1/whoami").await.ok(200);
    assert_eq!(told, json!({ "name": null, "role": "reader", "read_only": true }));
}

/// HTTP-17.
async fn the_overview_has_current_and_past_samples(stage: TestStore) {
    let (store, commits) = Commits::counted(stage.store().await);
    let tidelock = tidelock::Tidelock::over(store);
    let server = Server::start_over(tidelock, |api| api.tokens(tokens()).commits(commits)).await;
    let body =
        json!({ "events": [{ "type": "noted", "data": 1 }, { "type": "noted", "data": 2 }] });
    let appended = server.client(WRITER).post("/v1/streams/a/events", &body).await.ok(201);
    let reader = server.client(READER);
    // A sample taken just before the append is as good as a new one.
    tidelock_test_stage::until("the events are in the overview", async || {
        reader.get("/v1/overview").await.ok(200)["head_position"] == appended["position"]
    })
    .await;
    let overview = reader.get("/v1/overview").await.ok(200);
    assert_eq!(overview["store"], server.tidelock.store().capabilities().name);
    assert_eq!(
        (&overview["healthy"], &overview["now"]["blocked"], &overview["now"]["leased"]),
        (&json!(true), &json!(0), &json!(0))
    );
    assert!(overview["samples"].as_array().is_some_and(|samples| samples.len() <= 360));
    let metrics = reader.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("tidelock_http_event_streams 0"), "{metrics}");
    assert!(metrics.contains("tidelock_commits_total 1\n"), "two events in one commit: {metrics}");
    // Rates are relative to the previous sample, so the second one has them.
    tidelock_test_stage::until("commits have a rate", async || {
        let now = reader.get("/v1/overview").await.ok(200)["now"].clone();
        now["commits_per_second"].is_f64() && now["requests_per_second"].is_f64()
    })
    .await;
    tidelock_test_stage::until("the newest sample is in the metrics", async || {
        let metrics = reader.get("/metrics").await;
        String::from_utf8_lossy(&metrics.body)
            .contains(&format!("tidelock_feed_position {}\n", appended["position"]))
    })
    .await;
    let exam = reader.get("/v1/doctor").await.ok(200);
    assert_eq!((&exam["healthy"], &exam["findings"][0]["kind"]), (&json!(true), &json!("store")));
}

/// HTTP-18. Every route, by a router that an application has mounted under its own prefix.
async fn the_router_can_be_mounted_anywhere(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let app = axum::Router::new()
        .nest("/tidelock", Api::over(&tidelock).tokens(crate::harness::tokens()).router());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let client = crate::harness::Client::to(address, WRITER);
    let body = json!({ "events": [{ "type": "noted", "data": 1 }] });
    client.post("/tidelock/v1/streams/a/events", &body).await.ok(201);
    assert_eq!(client.get("/tidelock/v1/streams/a/events").await.ok(200)["items"][0]["data"], 1);
    client.get("/tidelock/nothing").await.refused(404, "no-route");
    // The redirect to the inspector is relative, too.
    let root = client.get("/tidelock").await;
    assert_eq!((root.status, &root.headers[LOCATION]), (307, &"tidelock/ui/".parse().unwrap()));
    let slashless = client.get("/tidelock/ui").await;
    assert_eq!((slashless.status, &slashless.headers[LOCATION]), (307, &"ui/".parse().unwrap()));
    assert_eq!(client.get("/tidelock/ui/").await.status, 200);
    serving.abort();
}

/// HTTP-6.
async fn without_tokens_the_server_listens_on_loopback_only(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve(listener, Api::over(&tidelock), None, async {}).await.unwrap_err();
    assert!(matches!(refused, ServeError::Unprotected { .. }), "{refused}");
}

/// HTTP-15. A request in flight gets its response; a new one is not waited for.
async fn shutdown_answers_requests_in_flight(stage: TestStore) {
    let mut server = Server::start(&stage).await;
    let client = server.client(WRITER);
    let body = json!({ "events": [{ "type": "noted", "data": 1 }] });
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let (client, body) = (client.clone(), body.clone());
            tokio::spawn(async move {
                client
                    .try_send(client.request(Method::POST, "/v1/streams/a/events", Some(&body)))
                    .await
            })
        })
        .collect();
    server.tell();
    let mut answered = 0;
    for asked in asked {
        if let Some(reply) = asked.await.unwrap() {
            reply.ok(201);
            answered += 1;
        }
    }
    server.stop().await;
    let stored = tidelock::store::StoreExt::read_whole_stream(
        &*stage.store().await,
        &tidelock::store::StreamName::new("a").unwrap(),
    )
    .await
    .unwrap();
    assert!(stored.len() >= answered, "{} stored, {answered} acknowledged", stored.len());
}

/// HTTP-15. Even a waiting request is answered before the server is gone; here the whole runtime of
/// the server ends with it.
async fn shutdown_answers_waiting_requests(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let client = crate::harness::Client::to(socket.local_addr().unwrap(), WRITER);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let api = Api::over(&tidelock).tokens(crate::harness::tokens());
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(socket).unwrap();
            serve(listener, api, None, async { drop(stopped.await) }).await.unwrap();
        });
    });
    client.post("/v1/locks/door", &json!({ "lease_ms": 60_000 })).await.ok(201);
    let patient = json!({ "lease_ms": 60_000, "wait_ms": 60_000 });
    let asked = client.request(Method::POST, "/v1/locks/door", Some(&patient));
    let waiting = tokio::spawn(async move { client.try_send(asked).await });
    tidelock_test_stage::until("one waits", async || {
        let places = tidelock::store::RecordQuery::prefix("~claim-place/lock/door/");
        tidelock.store().rows(places).all().await.unwrap().len() == 1
    })
    .await;
    drop(stop);
    let answer = waiting.await.unwrap().expect("it has an answer");
    answer.refused(503, "closing");
    tokio::task::spawn_blocking(|| serving.join().unwrap()).await.unwrap();
}

over_sockets!(
    health_and_readiness_reveal_nothing_else,
    whoami_returns_the_caller,
    the_overview_has_current_and_past_samples,
    the_router_can_be_mounted_anywhere,
    without_tokens_the_server_listens_on_loopback_only,
    shutdown_answers_requests_in_flight,
    shutdown_answers_waiting_requests,
);
