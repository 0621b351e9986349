//! Every route, requested by every kind of caller.

use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use tidelock_http::{Api, Needs, Role, Route};
use tidelock_test_stage::TestStore;

use crate::harness::{OPERATOR, READER, Server, WRITER};

/// A path of this route with arbitrary names.
fn path(route: &Route) -> String {
    let mut path = String::new();
    for segment in route.path.split_inclusive('/') {
        match segment.starts_with('{') {
            true => path.push_str(if segment.ends_with('/') { "x/" } else { "x" }),
            false => path.push_str(segment),
        }
    }
    path
}

fn body(route: &Route) -> Option<serde_json::Value> {
    (route.method != Method::GET).then(|| json!({}))
}

/// HTTP-2. HTTP-3. Without a token, with a wrong one, and with one of each role: streaming routes
/// too.
async fn every_route_enforces_its_role(stage: TestStore) {
    let server = Server::start(&stage).await;
    for route in Api::over(&server.tidelock).routes() {
        let (path, body) = (path(&route), body(&route));
        let ask = async |token: Option<&str>| {
            let client = token.map_or_else(|| server.stranger(), |token| server.client(token));
            // Only the head: an event stream does not end.
            let response =
                client.open(client.request(route.method.clone(), &path, body.as_ref())).await;
            (response.status().as_u16(), response.headers().clone())
        };
        let Needs::Role(needed) = route.needs else {
            assert!(!matches!(ask(None).await.0, 401 | 403), "{route:?}");
            continue;
        };
        for wrong in [None, Some("not-a-known-token"), Some(""), Some("rita")] {
            let (status, headers) = ask(wrong).await;
            assert_eq!(
                (status, headers.contains_key("www-authenticate")),
                (401, true),
                "{route:?} {wrong:?}"
            );
        }
        for (role, token) in
            [(Role::Reader, READER), (Role::Writer, WRITER), (Role::Operator, OPERATOR)]
        {
            let (status, _) = ask(Some(token)).await;
            assert_ne!(status, 401, "{route:?} {role}");
            assert_eq!(status == 403, role < needed, "{route:?} {role}: {status}");
        }
    }
}

/// HTTP-5. By a foreign name, from a foreign page: before anything else is checked.
async fn every_route_refuses_foreign_hosts_and_origins(stage: TestStore) {
    let server = Server::start_with(&stage, |api| {
        api.tokens(crate::harness::tokens()).hosts(["shop.example"])
    })
    .await;
    let own = server.address.to_string();
    for route in Api::over(&server.tidelock).routes() {
        let (path, body) = (path(&route), body(&route));
        let ask = async |host: &str, origin: Option<&str>| {
            let client = server.client(OPERATOR);
            let mut request = client.request(route.method.clone(), &path, body.as_ref());
            request.headers_mut().insert("host", host.parse().unwrap());
            if let Some(origin) = origin {
                request.headers_mut().insert("origin", origin.parse().unwrap());
            }
            client.open(request).await.status().as_u16()
        };
        for host in [
            "evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "shop.example.evil.example:80",
            "127.0.0.1.nip.io",
        ] {
            assert_eq!(ask(host, None).await, 403, "{route:?} {host}");
        }
        for origin in
            ["http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://shop.example"]
        {
            assert_eq!(ask(&own, Some(origin)).await, 403, "{route:?} {origin}");
        }
        for (host, origin) in [
            (&*own, None),
            ("localhost:80", None),
            ("[::1]:9", None),
            ("SHOP.example", Some("https://shop.example")),
        ] {
            assert_ne!(ask(host, origin).await, 403, "{route:?} {host}");
        }
    }
}

/// HTTP-11. A misspelled parameter is named, beside the ones that the route has; nothing is done,
/// and nothing audited. The parameters of the document are accepted.
async fn every_route_refuses_unknown_query_parameters(stage: TestStore) {
    let server = Server::start(&stage).await;
    let operator = server.client(OPERATOR);
    let document = operator.get("/v1/openapi.json").await.ok(200);
    let (mut routes, mut parameters) = (0, 0);
    for route in Api::over(&server.tidelock).routes() {
        let (path, body) = (path(&route), body(&route));
        let request = |query: &str| {
            operator.request(route.method.clone(), &format!("{path}?{query}"), body.as_ref())
        };
        let operation = &document["paths"][&route.path][route.method.as_str().to_lowercase()];
        let known: Vec<_> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        for name in known.iter().map(|name| format!("{name}_")).chain(["tpyo".to_owned()]) {
            let refused = operator.send(request(&format!("{name}=canary"))).await;
            refused.refused(400, "query-invalid");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(&format!("query parameter \"{name}\"")), "{route:?} {detail}");
            assert!(known.iter().all(|known| detail.contains(known)), "{route:?} {detail}");
            assert!(!detail.contains("canary"), "{route:?} {detail}");
        }
        for name in &known {
            // Only the head of an event stream: it does not end.
            let answered = operator.open(request(&format!("{name}=1"))).await;
            if answered.status() == 400 {
                let problem = answered.into_body().collect().await.unwrap().to_bytes();
                let problem = String::from_utf8_lossy(&problem);
                assert!(!problem.contains("there is no query parameter"), "{route:?} {problem}");
            }
            parameters += 1;
        }
        routes += 1;
    }
    assert!(routes > 80 && parameters > 40, "{routes} routes, {parameters} parameters");
    let long = format!("/v1/whoami?{}=1", "x".repeat(5_000));
    let refused = operator.get(&long).await;
    refused.refused(400, "query-invalid");
    assert!(refused.body.len() < 500, "{refused:?}");
    server.stop().await;
}

/// HTTP-11. A write with a misspelled parameter writes nothing.
async fn a_write_with_an_unknown_query_parameter_changes_nothing(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, event) =
        (server.client(OPERATOR), json!({ "events": [{ "type": "noted", "data": 1 }] }));
    operator.post("/v1/streams/a/events?expcted=0", &event).await.refused(400, "query-invalid");
    assert_eq!(server.client(READER).get("/v1/streams/a").await.status, 404);
    let audited = server.client(READER).get("/v1/audit").await.ok(200);
    assert_eq!(audited["items"], json!([]));
    server.stop().await;
}

/// HTTP-6.
async fn without_tokens_the_api_is_read_only(stage: TestStore) {
    let server = Server::start_with(&stage, |api| api).await;
    for route in Api::over(&server.tidelock).routes() {
        let client = server.stranger();
        let response = client
            .open(client.request(route.method.clone(), &path(&route), body(&route).as_ref()))
            .await;
        let may = !matches!(route.needs, Needs::Role(Role::Writer | Role::Operator));
        assert_eq!(response.status().as_u16() != 403, may, "{route:?}");
        assert_ne!(response.status().as_u16(), 401, "{route:?}");
    }
    let told = server.stranger().post("/v1/streams/x/events", &json!({})).await;
    assert!(told.json()["detail"].as_str().unwrap().contains("--tokens FILE"), "{told:?}");
}

/// HTTP-22. By any route; nothing of what programs do with a writer's token.
async fn every_change_by_an_operator_is_audited(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (mut expected, mut by_writers) = (Vec::new(), 0);
    for route in
        Api::over(&server.tidelock).routes().into_iter().filter(|route| route.method != Method::GET)
    {
        for token in [WRITER, OPERATOR] {
            let client = server.client(token);
            client
                .open(client.request(route.method.clone(), &path(&route), body(&route).as_ref()))
                .await;
        }
        by_writers += usize::from(route.needs == Needs::Role(Role::Writer));
        expected.push(format!("olga {} {}", route.method, route.path));
    }
    assert!(by_writers > 20 && expected.len() > by_writers + 10, "{expected:?}");
    let page = server.client(READER).get("/v1/audit?limit=1000").await.ok(200);
    let text = |action: &serde_json::Value, field: &str| action[field].as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    let mut noted: Vec<_> =
        items.map(|action| format!("{} {}", text(action, "who"), text(action, "what"))).collect();
    noted.reverse();
    assert_eq!(noted, expected);
    server.stop().await;
}

/// HTTP-22. An operator's decision is recorded with its body; data is not.
async fn an_operators_signal_is_audited_with_its_payload(stage: TestStore) {
    let server = Server::start(&stage).await;
    server.tidelock.start("checkout", "checkout-1", &json!(7)).version(1).await.unwrap();
    let (signal, event) = (
        json!({ "name": "approve", "payload": { "yes": true } }),
        json!({ "events": [{ "type": "noted", "data": "personal" }] }),
    );
    for token in [WRITER, OPERATOR] {
        assert_eq!(
            server.client(token).post("/v1/runs/checkout-1/signals", &signal).await.status,
            204
        );
        server.client(token).post("/v1/streams/a/events", &event).await.ok(201);
    }
    let page = server.client(READER).get("/v1/audit").await.ok(200);
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{page}");
    assert_eq!(
        (&items[1]["what"], &items[1]["parameters"]),
        (&json!("POST /v1/runs/{id}/signals"), &signal)
    );
    assert_eq!((&items[1]["who"], &items[1]["status"]), (&json!("olga"), &json!(204)));
    assert_eq!(
        (&items[0]["on"], &items[0]["parameters"]),
        (&json!("/v1/streams/a/events"), &json!(null))
    );
    server.stop().await;
}

over_sockets!(
    a_write_with_an_unknown_query_parameter_changes_nothing,
    every_change_by_an_operator_is_audited,
    an_operators_signal_is_audited_with_its_payload,
    every_route_enforces_its_role,
    every_route_refuses_foreign_hosts_and_origins,
    every_route_refuses_unknown_query_parameters,
    without_tokens_the_api_is_read_only,
);
