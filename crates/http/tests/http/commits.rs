//! Commits over HTTP: parts of every pattern, all or none.

use http::Method;
use serde_json::{Value, json};
use tidelock_test_stage::TestStore;

use crate::harness::{Client, READER, Reply, Server, WRITER};

async fn commit(client: &Client, parts: &Value) -> Reply {
    client.post("/v1/commits", parts).await
}

async fn keyed(client: &Client, parts: &Value) -> Reply {
    let key = [("idempotency-key", "order-7")];
    client.send_with(Method::POST, "/v1/commits", &key, Some(parts)).await
}

/// A claim that was won and an item that was leased, with their fences.
async fn held(client: &Client) -> (Value, Value) {
    client.post("/v1/queues/todo/items", &json!({ "key": "a", "data": 1 })).await.ok(201);
    let lease = json!({ "lease_ms": 600_000 });
    let claimed = client.post("/v1/claims/pay:42", &lease).await.ok(201);
    let leased = client.post("/v1/queues/todo/lease", &lease).await.ok(200);
    (claimed["fence"].clone(), leased["items"][0]["fence"].clone())
}

/// One part of each kind, all of which hold.
fn every_part((claim, lease): &(Value, Value)) -> Value {
    json!({
        "appends": [{ "stream": "order-7", "expected": "none", "events": [
            { "type": "placed", "data": { "units": 2 } }, { "type": "paid", "data": null }
        ] }],
        "records": [
            { "key": "orders/7", "expected": "none", "change": { "put": { "units": 2 } } },
            { "key": "sold", "change": { "add": { "delta": 2, "max": 5 } } },
            { "key": "nothing", "change": "delete" },
        ],
        "scopes": [
            { "kind": "user", "id": "ada", "change": { "increment": { "at": "orders", "by": 1 } } },
            { "kind": "user", "id": "ada", "change": { "push": { "at": "seen", "value": "7" } } },
        ],
        "quotas": [{ "key": "orders/ada", "take": { "limit": 3, "units": 2 } }],
        "rates": [{ "key": "calls", "take": { "limit": 9, "every_ms": 3_600_000, "units": 4 } }],
        "completions": [{ "key": "pay:42", "fence": claim, "result": { "receipt": 1 } }],
        "enqueues": [{ "queue": "mail", "items": [{ "key": "7", "data": "thanks" }, { "key": "8" }] }],
        "settlements": [{ "queue": "todo", "items": [
            { "key": "a", "fence": lease, "outcome": "ack" }
        ] }],
        "runs": [{ "id": "run-7", "start": { "workflow": "approval", "version": 1, "input": 7 } }],
        "signals": [{ "run": "run-0", "signal": { "name": "approve", "payload": true } }],
        "guards": [
            { "stream": { "name": "shop", "expected": "none" } },
            { "record": { "key": "closed", "expected": "none" } },
        ],
    })
}

/// What shows whether the parts landed.
async fn seen(client: &Client) -> Value {
    let get = async |path: &str| {
        let reply = client.get(path).await;
        if reply.status == 200 { reply.json() } else { json!(reply.status) }
    };
    json!({
        "stream": get("/v1/streams/order-7").await["version"],
        "record": get("/v1/records/orders%2F7").await["value"],
        "sold": get("/v1/records/sold").await["value"],
        "scope": get("/v1/scopes/user/ada").await["state"],
        "quota": get("/v1/quotas/orders%2Fada?limit=3").await["used"],
        "rate": get("/v1/rates/calls?limit=9&every_ms=3600000").await["available"],
        "claim": get("/v1/claims/pay:42").await["state"],
        "mail": get("/v1/queues/mail/items").await["items"].as_array().map(Vec::len),
        "todo": get("/v1/queues/todo/items?state=held").await["items"].as_array().map(Vec::len),
        "run": get("/v1/runs/run-7").await["state"],
    })
}

/// HTTP-40.
async fn parts_of_every_pattern_land_together(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let start = json!({ "workflow": "approval", "version": 1, "input": 0 });
    writer.post("/v1/runs/run-0", &start).await.ok(201);
    let held = held(&writer).await;
    let done = commit(&writer, &every_part(&held)).await.ok(201);
    assert_eq!((&done["replayed"], done["at"].is_string()), (&json!(false), true), "{done}");
    assert_eq!(done["appends"][0]["version"], 2);
    assert_eq!(done["appends"][0]["events"].as_array().map(Vec::len), Some(2));
    assert!(done["records"][0]["revision"].is_u64());
    assert_eq!(done["records"][1]["sum"], 2);
    assert_eq!(done["records"][2]["revision"], Value::Null);
    assert_eq!((&done["scopes"][0]["value"], &done["scopes"][1]["value"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&done["quotas"][0]["units"], &done["rates"][0]["available"]),
        (&json!(2), &json!(5))
    );
    let reader = server.client(READER);
    assert_eq!(
        seen(&reader).await,
        json!({
            "stream": 2, "record": { "units": 2 }, "sold": 2,
            "scope": { "orders": 1, "seen": ["7"] }, "quota": 2, "rate": 5, "claim": "done",
            "mail": 2, "todo": 0, "run": "open",
        })
    );
    // A grant of a commit is refunded as any other.
    let back = json!({ "grant": done["quotas"][0] });
    let path = "/v1/quotas/orders%2Fada/refund";
    assert_eq!(writer.post(path, &back).await.ok(200)["outcome"], "refunded");
    assert_eq!(
        reader.get("/v1/records?prefix=orders/").await.ok(200)["items"][0]["key"],
        "orders/7"
    );
}

/// HTTP-40: nothing is written, and every part that does not hold is named.
async fn a_refused_commit_names_every_part(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let held = held(&writer).await;
    let start = json!({ "workflow": "approval", "version": 1, "input": 1 });
    writer.post("/v1/runs/run-7", &start).await.ok(201);
    let first = json!({
        "appends": [{ "stream": "order-7", "events": [{ "type": "placed", "data": 1 }] }],
        "records": [
            { "key": "orders/7", "change": { "put": 1 } },
            { "key": "sold", "change": { "add": { "delta": 5 } } },
            { "key": "closed", "change": { "put": true } },
        ],
        "scopes": [{ "kind": "user", "id": "ada", "change": { "set": { "orders": "many" } } }],
        "quotas": [{ "key": "orders/ada", "take": { "limit": 3, "units": 2 } }],
        "rates": [{ "key": "calls", "take": { "limit": 9, "every_ms": 3_600_000, "units": 9 } }],
    });
    commit(&writer, &first).await.ok(201);
    let before = seen(&writer).await;
    let mut parts = every_part(&held);
    parts["completions"][0]["fence"] = json!(77);
    parts["settlements"][0]["items"][0]["fence"] = json!(77);
    parts["scopes"][0]["expected"] = json!(9);
    let refused = commit(&writer, &parts).await;
    refused.refused(409, "commit-refused");
    let told = refused.json();
    let told: Vec<_> = told["parts"].as_array().unwrap().iter().collect();
    let of = |part: &str| {
        let found = told.iter().find(|told| told["part"] == part);
        found.unwrap_or_else(|| panic!("no {part} in {told:#?}"))
    };
    let code = |part: &str| of(part)["code"].as_str().unwrap().to_owned();
    assert_eq!(
        (code("appends[0]"), &of("appends[0]")["found"]),
        ("version-conflict".into(), &json!(1))
    );
    assert_eq!(code("records[0]"), "revision-conflict");
    assert_eq!(
        (code("records[1]"), &of("records[1]")["found"]),
        ("bound-exceeded".into(), &json!(5))
    );
    assert_eq!(code("scopes[0]"), "revision-conflict");
    assert_eq!((code("quotas[0]"), &of("quotas[0]")["used"]), ("quota-exceeded".into(), &json!(2)));
    assert_eq!(code("rates[0]"), "rate-exceeded");
    assert_eq!(code("completions[0]"), "fence-lost");
    assert_eq!(code("settlements[0]"), "fence-lost");
    assert_eq!(code("runs[0]"), "other-run");
    assert_eq!(code("signals[0]"), "no-run");
    assert_eq!(code("guards[1]"), "revision-conflict");
    assert_eq!(told.len(), 11, "{told:#?}");
    // Each names what it is about, as the request does.
    let subjects = [
        ("appends[0]", json!({ "stream": "order-7" })),
        ("records[0]", json!({ "key": "orders/7" })),
        ("scopes[0]", json!({ "kind": "user", "id": "ada" })),
        ("quotas[0]", json!({ "key": "orders/ada" })),
        ("rates[0]", json!({ "key": "calls" })),
        ("completions[0]", json!({ "key": "pay:42" })),
        ("settlements[0]", json!({ "queue": "todo", "key": "a" })),
        ("runs[0]", json!({ "id": "run-7" })),
        ("signals[0]", json!({ "run": "run-0" })),
        ("guards[1]", json!({ "key": "closed" })),
    ];
    for (part, subject) in subjects {
        for (field, name) in subject.as_object().unwrap() {
            assert_eq!(&of(part)[field], name, "{part}: {:#}", of(part));
        }
    }
    assert_eq!(seen(&writer).await, before);
}

/// HTTP-40: a part that makes no sense ends the request, whatever else it has.
async fn a_part_that_makes_no_sense_is_named(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let event = json!([{ "type": "a", "data": 1 }]);
    for (parts, code, about) in [
        (json!({}), "commit-empty", "no parts"),
        (
            json!({ "appends": [{ "stream": "s", "events": [
                { "type": "a", "data": 1, "id": "01a1e04e-3ecd-7554-85f3-cf907e1cc8bc" }
            ] }] }),
            "invalid",
            "appends[0]: stream \"s\": an event of a commit has no id of its own",
        ),
        (json!({ "append": [] }), "body-invalid", "append"),
        (json!({ "appends": [{ "stream": "s", "events": [] }] }), "events-missing", "appends[0]"),
        (
            json!({ "appends": [{ "stream": "s", "events": event }, { "stream": "s", "events": event }] }),
            "part-twice",
            "\"s\"",
        ),
        (
            json!({ "scopes": [{ "kind": "user", "id": "a", "change": { "increment": { "at": "x", "bye": 1 } } }] }),
            "body-invalid",
            "`by`",
        ),
        (
            json!({ "quotas": [{ "key": "q", "take": { "limit": 1, "units": 0 } }] }),
            "units-invalid",
            "quotas[0]",
        ),
    ] {
        let refused = commit(&writer, &parts).await;
        refused.refused(400, code);
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(about), "{detail}");
    }
    for parts in [
        json!({ "guards": [{ "record": { "key": "~claim/lock/a", "expected": "none" } }] }),
        json!({ "guards": [{ "stream": { "name": "~x", "expected": "none" } }] }),
        json!({ "appends": [{ "stream": "~x", "events": event }] }),
        json!({ "records": [{ "key": "~claim/lock/a", "change": "delete" }] }),
        json!({ "enqueues": [{ "queue": "~route/x", "items": [{ "key": "a" }] }] }),
    ] {
        commit(&writer, &parts).await.refused(403, "name-reserved");
    }
    writer.get("/v1/records/~claim%2Flock%2Fa").await.refused(403, "name-reserved");
    writer.get("/v1/records?prefix=~").await.refused(403, "name-reserved");
    writer.get("/v1/records/none").await.refused(404, "no-record");
    server.client(READER).post("/v1/commits", &json!({})).await.refused(403, "role-too-low");
}

/// HTTP-40, HTTP-9: also when the response was lost with its server.
async fn a_commit_is_made_once_under_its_key(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let parts = json!({
        "appends": [{ "stream": "order-7", "events": [{ "type": "placed", "data": 1 }] }],
        "records": [{ "key": "sold", "change": { "add": { "delta": 2 } } }],
        "quotas": [{ "key": "orders/ada", "take": { "limit": 3, "units": 2 } }],
        "enqueues": [{ "queue": "mail", "items": [{ "key": "7" }] }],
    });
    let first = keyed(&writer, &parts).await;
    let done = first.ok(201);
    assert_eq!(keyed(&writer, &parts).await.body, first.body);
    server.forget_answers().await;
    let again = keyed(&writer, &parts).await.ok(200);
    assert_eq!(again["replayed"], true);
    assert_eq!(again["appends"][0]["events"], done["appends"][0]["events"]);
    assert_eq!(again["quotas"], done["quotas"]);
    assert_eq!(writer.get("/v1/records/sold").await.ok(200)["value"], 2);
    assert_eq!(writer.get("/v1/streams/order-7").await.ok(200)["version"], 1);
    assert_eq!(writer.get("/v1/quotas/orders%2Fada?limit=3").await.ok(200)["used"], 2);
}

/// HTTP-40: many writers of one document and one quota, and no lost update.
async fn commits_of_many_clients_are_judged_one_after_the_other(stage: TestStore) {
    let (here, there) = (Server::start(&stage).await, Server::start(&stage).await);
    let mut clients = Vec::new();
    for server in [&here, &there] {
        for nth in 0..8 {
            let client = server.client(WRITER);
            clients.push(tokio::spawn(async move {
                let parts = json!({
                    "scopes": [{ "kind": "user", "id": "ada", "change": { "increment": { "at": "n", "by": 1 } } }],
                    "quotas": [{ "key": "orders", "take": { "limit": 9, "units": 1 } }],
                    "records": [{ "key": format!("order/{nth}"), "change": { "add": { "delta": 1 } } }],
                });
                commit(&client, &parts).await.status
            }));
        }
    }
    let mut made = 0;
    for client in clients {
        match client.await.unwrap() {
            201 => made += 1,
            status => assert_eq!(status, 409),
        }
    }
    assert_eq!(made, 9);
    let reader = here.client(READER);
    assert_eq!(reader.get("/v1/scopes/user/ada").await.ok(200)["state"]["n"], 9);
    let records = reader.get("/v1/records?prefix=order/").await.ok(200);
    let sum: i64 =
        records["items"].as_array().unwrap().iter().map(|r| r["value"].as_i64().unwrap()).sum();
    assert_eq!(sum, 9);
}

/// HTTP-40: the changes of one scope follow each other; a deletion counts, and what is gone is
/// created again on request.
async fn changes_of_one_scope_follow_each_other(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let change = |id: &str, expected: &str, change: Value| json!({ "kind": "k", "id": id, "expected": expected, "change": change });
    let set = |value: i64| json!({ "set": { "a": value } });
    let made =
        json!({ "scopes": [change("x", "any", set(1)), change("x", "any", json!("delete"))] });
    let done = commit(&writer, &made).await.ok(201);
    assert_eq!(done["scopes"][1]["value"], true);
    assert_eq!(writer.get("/v1/scopes/k/x").await.status, 404);

    commit(&writer, &json!({ "scopes": [change("y", "none", set(1))] })).await.ok(201);
    let late = json!({ "increment": { "at": "a", "by": 1 } });
    let gone = json!({ "scopes": [change("y", "any", json!("delete")), change("y", "any", late)] });
    let refused = commit(&writer, &gone).await;
    refused.refused(409, "commit-refused");
    assert_eq!(refused.json()["parts"][0]["part"], "scopes[1]");
    let again =
        json!({ "scopes": [change("y", "any", json!("delete")), change("y", "none", set(2))] });
    commit(&writer, &again).await.ok(201);
    assert_eq!(writer.get("/v1/scopes/k/y").await.ok(200)["state"]["a"], 2);
    commit(&writer, &json!({ "scopes": [change("y", "exists", json!("delete"))] })).await.ok(201);
    let other = json!({ "scopes": [change("y", "any", set(3))] });
    commit(&writer, &other).await.refused(409, "commit-refused");
    commit(&writer, &json!({ "scopes": [change("y", "none", set(3))] })).await.ok(201);
    assert_eq!(writer.get("/v1/scopes/k/y").await.ok(200)["state"]["a"], 3);
}

/// HTTP-40: each lost item is named, and nothing that the request does not have.
async fn every_lost_item_is_named(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let start = json!({ "workflow": "approval", "version": 1, "input": 0 });
    let run = json!({ "runs": [{ "id": "r", "start": start }] });
    commit(&writer, &run).await.ok(201);
    commit(&writer, &run).await.ok(201);
    let held = held(&writer).await;
    let work = json!({
        "settlements": [{ "queue": "todo", "items": [{ "key": "a", "fence": held.1, "outcome": "ack" }] }],
        "records": [{ "key": "done", "change": { "add": { "delta": 1 } } }],
    });
    commit(&writer, &work).await.ok(201);
    commit(&writer, &work).await.refused(409, "commit-refused");
    assert_eq!(writer.get("/v1/records/done").await.ok(200)["value"], 1, "the work is done once");
    let lost = |key: &str| json!({ "key": key, "fence": 3, "outcome": "ack" });
    let parts = json!({ "settlements": [{ "queue": "none", "items": [lost("a"), lost("b")] }] });
    let refused = commit(&writer, &parts).await;
    refused.refused(409, "commit-refused");
    let told = refused.json();
    let keys: Vec<_> = told["parts"].as_array().unwrap().iter().map(|part| &part["key"]).collect();
    assert_eq!(keys, [&json!("a"), &json!("b")], "{told}");
}

/// HTTP-40: a signal whose id was used for another one is a part that does not hold, beside the
/// others.
async fn a_reused_signal_id_is_a_part(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let start = json!({ "workflow": "approval", "version": 1, "input": 0 });
    writer.post("/v1/runs/run-0", &start).await.ok(201);
    let signal = |payload: &str, id: &str| json!({ "run": "run-0", "signal": { "name": "approve", "payload": payload, "id": id } });
    let first = json!({ "signals": [signal("by Ada", "a"), signal("by Bo", "b")] });
    commit(&writer, &first).await.ok(201);
    commit(&writer, &first).await.ok(201);
    let other = json!({
        "signals": [signal("by Cy", "c"), signal("by Cy", "a"), signal("by Cy", "b")],
        "records": [{ "key": "none", "expected": "exists", "change": "delete" }],
    });
    let refused = commit(&writer, &other).await;
    refused.refused(409, "commit-refused");
    let told = refused.json()["parts"].clone();
    let of = |part: &Value| json!([part["part"], part["code"], part["run"], part["id"]]);
    let told: Vec<_> = told.as_array().unwrap().iter().map(of).collect();
    assert_eq!(
        json!(told),
        json!([
            ["signals[1]", "other-signal", "run-0", "a"],
            ["signals[2]", "other-signal", "run-0", "b"],
            ["records[0]", "revision-conflict", null, null],
        ])
    );
}

/// HTTP-40: what was prepared for units that are not taken is taken back.
async fn a_refused_take_leaves_no_quota(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let take = |units: u32| json!({ "key": "mails", "take": { "limit": 3, "units": units } });
    let other = json!([{ "key": "none", "expected": "exists", "change": "delete" }]);
    for parts in [
        json!({ "quotas": [take(4)] }),
        json!({ "quotas": [take(1)], "records": other }),
        json!({ "quotas": [take(1), take(3)] }),
    ] {
        commit(&writer, &parts).await.refused(409, "commit-refused");
        let quotas = writer.get("/v1/quotas").await.ok(200);
        assert_eq!(quotas["items"], json!([]), "{parts}");
    }
    let alone = json!({ "limit": 3, "units": 4 });
    writer.post("/v1/quotas/mails/take", &alone).await.refused(429, "quota-exceeded");
    assert_eq!(writer.get("/v1/quotas").await.ok(200)["items"], json!([]));
    commit(&writer, &json!({ "quotas": [take(3)] })).await.ok(201);
    commit(&writer, &json!({ "quotas": [take(1)] })).await.refused(409, "commit-refused");
    assert_eq!(writer.get("/v1/quotas/mails?limit=3").await.ok(200)["used"], 3);
}

/// HTTP-40: as many parts as the limit says.
async fn a_commit_has_as_many_parts_as_the_limit_says(stage: TestStore) {
    let server = Server::start(&stage).await;
    let writer = server.client(WRITER);
    let parts = |count: usize| {
        let put = |nth: usize| json!({ "key": format!("r/{nth}"), "change": { "put": nth } });
        json!({ "records": (0..count).map(put).collect::<Vec<_>>() })
    };
    commit(&writer, &parts(1_000)).await.ok(201);
    keyed(&writer, &parts(998)).await.ok(201);
    let key = [("idempotency-key", "order-8")];
    let too_many = parts(999);
    let keyed = writer.send_with(Method::POST, "/v1/commits", &key, Some(&too_many)).await;
    for (refused, says) in [
        (commit(&writer, &parts(1_001)).await, "1001 parts; the limit is 1000"),
        (keyed, "999 parts; the limit is 998 with an Idempotency-Key"),
    ] {
        refused.refused(400, "limit-exceeded");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(says), "{detail}");
    }
}

over_sockets!(
    a_reused_signal_id_is_a_part,
    a_refused_take_leaves_no_quota,
    a_commit_has_as_many_parts_as_the_limit_says,
    changes_of_one_scope_follow_each_other,
    every_lost_item_is_named,
    parts_of_every_pattern_land_together,
    a_refused_commit_names_every_part,
    a_part_that_makes_no_sense_is_named,
    a_commit_is_made_once_under_its_key,
    commits_of_many_clients_are_judged_one_after_the_other,
);
