//! Quotas and singletons over HTTP.

use serde_json::{Value, json};
use tidelock_test_stage::TestStore;

use crate::harness::{Client, READER, Reply, Server, WRITER};

const QUOTA: &str = "/v1/quotas/seats%2Fboat-3";

async fn ask(client: &Client, verb: &str, body: Value) -> Reply {
    client.post(&format!("{QUOTA}/{verb}"), &body).await
}

async fn used(client: &Client) -> Value {
    client.get(&format!("{QUOTA}?limit=5&per=day&zone=Europe/Berlin")).await.ok(200)["used"].clone()
}

/// HTTP-31. HTTP-33.
async fn no_more_than_the_limit_is_taken(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (first, second) = (here.client(WRITER), there.client(WRITER));
    let some =
        |units: u32| json!({ "limit": 5, "units": units, "per": "day", "zone": "Europe/Berlin" });
    let granted = ask(&first, "take", some(2)).await.ok(201);
    let mut reserving = some(3);
    reserving["ttl_ms"] = json!(60_000);
    let reserved = ask(&second, "reserve", reserving.clone()).await.ok(201);
    let exceeded = ask(&first, "take", some(1)).await;
    exceeded.refused(429, "quota-exceeded");
    let told = exceeded.json();
    assert_eq!(
        (&told["used"], &told["limit"], &told["requested"]),
        (&json!(5), &json!(5), &json!(1))
    );
    assert!(told["resets_at"].is_string() && exceeded.headers.contains_key("retry-after"));
    assert_eq!(ask(&second, "reserve", reserving.clone()).await.status, 429);
    let usage = here
        .client(READER)
        .get(&format!("{QUOTA}?limit=5&per=day&zone=Europe/Berlin"))
        .await
        .ok(200);
    assert_eq!((&usage["left"], &usage["used"]), (&json!(0), &json!(5)));
    let back = json!({ "reservation_token": reserved["reservation_token"], "per": "day", "zone": "Europe/Berlin" });
    assert_eq!(ask(&first, "refund", back.clone()).await.ok(200)["outcome"], "refunded");
    assert_eq!(ask(&first, "refund", back.clone()).await.ok(200)["outcome"], "already");
    ask(&first, "confirm", back).await.refused(409, "reservation-over");
    let reserved = ask(&first, "reserve", reserving).await.ok(201);
    let token = json!({ "reservation_token": reserved["reservation_token"], "per": "day", "zone": "Europe/Berlin" });
    let confirmed = ask(&second, "confirm", token).await.ok(200);
    assert_eq!(used(&first).await, 5);
    for grant in [&granted, &confirmed] {
        let back = json!({ "grant": grant["grant"], "per": "day", "zone": "Europe/Berlin" });
        assert_eq!(ask(&second, "refund", back.clone()).await.ok(200)["outcome"], "refunded");
        assert_eq!(ask(&first, "refund", back).await.ok(200)["outcome"], "already");
    }
    assert_eq!(used(&second).await, 0);
    let listed = second.get("/v1/quotas?prefix=seats").await.ok(200);
    assert_eq!(listed["items"][0]["key"], "quota/seats/boat-3/per day in Europe%2FBerlin");
    let elsewhere = json!({ "grant": granted["grant"], "per": "day" });
    assert_eq!(
        ask(&first, "refund", elsewhere).await.problem(),
        (400, "invalid".into()),
        "UTC is another zone"
    );
    let unconfirmed = json!({ "grant": reserved["reservation_token"]["grant"], "per": "day", "zone": "Europe/Berlin" });
    assert_eq!(
        ask(&first, "refund", unconfirmed).await.problem(),
        (400, "invalid".into()),
        "it was only reserved"
    );
    let elsewhere = json!({ "grant": granted["grant"], "per": "hour" });
    ask(&first, "refund", elsewhere).await.refused(400, "invalid");
}

/// CLAIM-13. HTTP-33. By a client that knows grants of its own.
async fn a_grant_that_was_made_up_is_not_refunded(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    let some = json!({ "limit": 5, "units": 1, "per": "day", "zone": "Europe/Berlin" });
    let granted = ask(&client, "take", some.clone()).await.ok(201);
    ask(&client, "take", some).await.ok(201);
    let refund = async |grant: &Value| {
        let back = json!({ "grant": grant, "per": "day", "zone": "Europe/Berlin" });
        ask(&client, "refund", back).await
    };
    for (field, value) in
        [("units", json!(2)), ("id", json!("01a1e04e-4089-7099-a800-2a7fc045526b"))]
    {
        let mut made_up = granted["grant"].clone();
        made_up[field] = value;
        refund(&made_up).await.refused(400, "invalid");
    }
    assert_eq!(used(&client).await, 2);
    assert_eq!(refund(&granted["grant"]).await.ok(200)["outcome"], "refunded");
    assert_eq!(used(&client).await, 1);
}

/// HTTP-33.
async fn an_invalid_quota_request_is_refused(stage: TestStore) {
    let server = Server::start(&stage).await;
    let client = server.client(WRITER);
    for body in [
        json!({}),
        json!({ "limit": 5, "units": 0 }),
        json!({ "limit": 5, "units": -1 }),
        json!({ "limit": 5, "units": 1, "per": "fortnight" }),
        json!({ "limit": 5, "units": 1, "per": "day", "every_ms": 1000 }),
        json!({ "limit": 5, "units": 1, "every_ms": 1 }),
        json!({ "limit": 5, "units": 1, "per": "day", "zone": "Middle/Earth" }),
    ] {
        assert_eq!(ask(&client, "take", body.clone()).await.problem().0, 400, "{body}");
    }
    for body in [
        json!({}),
        json!({ "reservation_token": {}, "grant": {} }),
        json!({ "grant": { "units": 1 } }),
    ] {
        assert_eq!(ask(&client, "refund", body.clone()).await.problem().0, 400, "{body}");
    }
    let forever = json!({ "limit": 5, "units": 1, "ttl_ms": 0 });
    ask(&client, "reserve", forever).await.refused(400, "ttl-invalid");
    assert_eq!(client.get(&format!("{QUOTA}?limit=x")).await.problem().0, 400);
    assert_eq!(ask(&client, "take", json!({ "limit": 0, "units": 1 })).await.problem().0, 429);
    assert_eq!(
        ask(&client, "take", json!({ "limit": 1, "units": 1, "every_ms": 3_600_000 })).await.status,
        201
    );
}

/// HTTP-33. A late caller learns who won, and with which details.
async fn a_singleton_is_taken_once(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (first, second) = (here.client(WRITER), there.client(WRITER));
    let path = "/v1/singletons/prayer%2Fchild-7";
    let taken = first
        .post(path, &json!({ "details": { "text": "amen" }, "per": "day", "by": "ada" }))
        .await;
    assert_eq!(taken.ok(201)["outcome"], "won");
    let late = second.post(path, &json!({ "per": "day" })).await;
    late.refused(409, "taken");
    assert_eq!(
        (&late.json()["by"], &late.json()["details"]),
        (&json!("ada"), &json!({ "text": "amen" }))
    );
    assert!(late.json()["at"].is_string());
    assert_eq!(
        second.post(path, &json!({ "per": "year", "ttl_ms": 60_000 })).await.status,
        201,
        "that is another one"
    );
    for body in
        [json!({ "per": "never" }), json!({ "zone": "x", "per": "day" }), json!({ "by": "" })]
    {
        assert_eq!(first.post(path, &body).await.problem().0, 400, "{body}");
    }
    let listed = first.get("/v1/claims?prefix=singleton/").await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
}

/// HTTP-31. CLAIM-23.
async fn a_rate_says_when_more_is_available(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let (first, second) = (here.client(WRITER), there.client(WRITER));
    let path = "/v1/rates/logins%2Fada";
    let some = |units: u32| json!({ "limit": 4, "every_ms": 3_600_000, "units": units });
    let take = format!("{path}/take");
    assert_eq!(first.post(&take, &some(3)).await.ok(201)["available"], 1);
    let exceeded = second.post(&take, &some(2)).await;
    exceeded.refused(429, "rate-exceeded");
    assert_eq!(exceeded.json()["requested"], 2);
    assert!(exceeded.json()["possible_at"].is_string());
    let seconds: u64 = exceeded.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((600..=900).contains(&seconds), "{seconds}");
    let usage = format!("{path}?limit=4&every_ms=3600000");
    let usage = here.client(READER).get(&usage).await.ok(200);
    assert_eq!((&usage["available"], &usage["burst"]), (&json!(1), &json!(4)));
    for body in [
        json!({ "limit": 0, "every_ms": 1000, "units": 1 }),
        json!({ "limit": 1, "every_ms": 1000, "units": 0 }),
        json!({ "limit": 1, "every_ms": 1000, "units": 2 }),
        json!({ "limit": 1, "units": 1 }),
    ] {
        assert_eq!(first.post(&take, &body).await.problem().0, 400, "{body}");
    }
}

over_sockets!(
    a_rate_says_when_more_is_available,
    no_more_than_the_limit_is_taken,
    a_grant_that_was_made_up_is_not_refunded,
    an_invalid_quota_request_is_refused,
    a_singleton_is_taken_once,
);
