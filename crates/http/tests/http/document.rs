//! The OpenAPI document and the routes match, and every response of any test is documented.

use std::collections::BTreeSet;
use std::path::Path;

use http::header::HOST;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidelock::Tidelock;
use tidelock_http::{Api, Needs};
use tidelock_test_stage::TestStore;
use tokio::sync::OnceCell;
use tower_service::Service;

use crate::harness::{OPERATOR, READER, Server};

static DOCUMENT: OnceCell<Value> = OnceCell::const_new();

/// HTTP-1. The code of a problem is among the documented ones.
pub(crate) async fn check_code(status: StatusCode, body: &[u8]) {
    if status.as_u16() < 400 {
        return;
    }
    let document = DOCUMENT.get_or_init(document).await;
    let codes = &document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"];
    if let Ok(problem) = serde_json::from_slice::<Value>(body) {
        let is_known = codes.as_array().unwrap().contains(&problem["code"]);
        assert!(is_known, "the code {} is not in codes.rs", problem["code"]);
    }
}

/// HTTP-1. The status of a response is in the document of its route.
pub(crate) async fn check(method: &Method, path: &str, status: StatusCode) {
    let document = DOCUMENT.get_or_init(document).await;
    let paths = document["paths"].as_object().unwrap().iter();
    // A parameter matches everything: the route with the most literal segments is the right one.
    let meant = paths
        .filter(|(route, _)| fits(route, path))
        .min_by_key(|(route, _)| route.matches('{').count());
    if let Some((route, methods)) = meant
        && let Some(operation) = methods.get(method.as_str().to_lowercase())
    {
        let known = operation["responses"].get(status.as_str()).is_some();
        assert!(known, "{method} {route} answers {status}, and its document does not say so");
    }
}

fn fits(route: &str, path: &str) -> bool {
    let (route, path): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    route.len() == path.len()
        && route.iter().zip(&path).all(|(of, is)| of.starts_with('{') || of == is)
}

async fn document() -> Value {
    let tidelock = Tidelock::open("memory:").await.unwrap();
    let asked =
        Request::get("/v1/openapi.json").header(HOST, "localhost").body(axum::body::Body::empty());
    let answer = Api::over(&tidelock).router().call(asked.unwrap()).await.unwrap();
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// HTTP-1. Clients are generated from the file; a change of it is a change of the API.
///
/// `TIDELOCK_WRITE_OPENAPI=1` writes it.
#[tokio::test]
async fn the_committed_document_is_the_served_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let served = format!("{:#}\n", document().await);
    if std::env::var_os("TIDELOCK_WRITE_OPENAPI").is_some() {
        std::fs::write(path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    let line =
        served.lines().zip(committed.lines()).find(|(served, committed)| served != committed);
    assert!(
        served == committed,
        "openapi.json is not what is served, from {line:?} on: write it with TIDELOCK_WRITE_OPENAPI=1"
    );
}

/// HTTP-1. A generator makes a method of each operation.
#[tokio::test]
async fn every_operation_has_an_id_of_its_own() {
    let document = document().await;
    let methods = document["paths"].as_object().unwrap().values();
    let operations = methods.flat_map(|methods| methods.as_object().unwrap().values());
    let mut ids = BTreeSet::new();
    for operation in operations {
        let id = operation["operationId"].as_str().unwrap();
        assert!(id.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{id}");
        assert!(ids.insert(id.to_owned()), "{id} is the id of two operations");
    }
    assert!(ids.len() > 90, "only {} operations", ids.len());
}

/// HTTP-1. The document shows what a request looks like.
#[tokio::test]
async fn every_request_body_has_an_example() {
    let document = document().await;
    let methods = document["paths"].as_object().unwrap().values();
    let operations = methods.flat_map(|methods| methods.as_object().unwrap().values());
    let mut bodies = 0;
    for operation in operations {
        let content = operation["requestBody"]["content"].as_object();
        for body in content.into_iter().flat_map(|content| content.values()) {
            let schema = &body["schema"];
            bodies += 1;
            // The body of a scope is any document.
            let is_free =
                schema["type"].is_null() && schema["$ref"].is_null() && schema["oneOf"].is_null();
            assert!(is_free || has_example(&document, schema), "{}", operation["operationId"]);
        }
    }
    assert!(bodies > 40, "only {bodies} bodies");
}

/// Whether a schema, or one that it refers to, has an example.
fn has_example(document: &Value, schema: &Value) -> bool {
    match schema {
        Value::Array(several) => several.iter().any(|schema| has_example(document, schema)),
        Value::Object(fields) => fields.iter().any(|(name, value)| match name.as_str() {
            "example" => true,
            "$ref" => {
                let name = value.as_str().unwrap().rsplit('/').next().unwrap();
                has_example(document, &document["components"]["schemas"][name])
            }
            _ => has_example(document, value),
        }),
        _ => false,
    }
}

/// HTTP-1. That a response has no other code is checked with each response of any test.
#[tokio::test]
async fn every_documented_code_is_in_the_source() {
    let mut source = String::new();
    for folder in ["http/src", "tower/src", "tidelock/src/problem"] {
        read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder), &mut source);
    }
    let document = document().await;
    let codes = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].clone();
    let codes: Vec<String> = serde_json::from_value(codes).unwrap();
    assert!(codes.is_sorted() && codes.len() > 100, "{codes:?}");
    let unused = codes.iter().filter(|code| !source.contains(&format!("\"{code}\"")));
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&String>::new());
}

/// The text of every file below a folder, except the list of the codes.
fn read_all(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else if path.extension().is_some_and(|of| of == "rs") && !path.ends_with("src/codes.rs") {
            into.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// HTTP-1.
async fn the_document_and_the_routes_match(stage: TestStore) {
    let server = Server::start(&stage).await;
    let document = server.client(READER).get("/v1/openapi.json").await.ok(200);
    let documented: BTreeSet<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods
                .as_object()
                .unwrap()
                .keys()
                .map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let routes = Api::over(&server.tidelock).routes();
    let served: BTreeSet<_> =
        routes.iter().map(|route| (route.method.to_string(), route.path.clone())).collect();
    assert_eq!(documented, served);
    for route in routes {
        let operation = &document["paths"][&route.path][route.method.as_str().to_lowercase()];
        assert!(
            operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()),
            "{route:?}"
        );
        assert_eq!(operation["security"].is_array(), route.needs != Needs::Nothing, "{route:?}");
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(answer["description"].is_string(), "{route:?} {status}");
        }
    }
    server.stop().await;
}

/// HTTP-11. Every number in the document has a bound within the integer range of every language.
async fn every_number_has_a_bound_that_is_enforced(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (reader, operator) = (server.client(READER), server.client(OPERATOR));
    let document = reader.get("/v1/openapi.json").await.ok(200);
    let mut unbounded = Vec::new();
    look_for_unbounded(&document, "", &mut unbounded);
    assert_eq!(unbounded, Vec::<String>::new());
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for parameter in methods["get"]["parameters"].as_array().into_iter().flatten() {
            let Some(most) = parameter["schema"]["maximum"].as_u64() else { continue };
            let path = path.replace(['{', '}'], "");
            for beyond in [most + 1, u64::MAX] {
                let query = format!("{path}?{}={beyond}", parameter["name"].as_str().unwrap());
                assert_eq!(reader.get(&query).await.problem().0, 400, "{query}");
                asked += 1;
            }
        }
    }
    assert!(asked > 20, "{asked}");
    let beyond = i64::MAX as u64 + 1;
    let reset = operator.post("/v1/leases/reset", &json!({ "queue": "mail", "to": beyond })).await;
    reset.refused(400, "body-invalid");
    let detail = reset.json()["detail"].to_string();
    assert!(detail.contains("expected a mark between 0 and 9223372036854775807"), "{detail}");
    for (path, body) in [
        ("/v1/queues/mail/lease", json!({ "lease_ms": 1000, "wait_ms": beyond })),
        ("/v1/queues/mail/items", json!({ "key": "a", "in_ms": beyond })),
        ("/v1/leases/defer", json!({ "queue": "mail", "in_ms": beyond })),
        ("/v1/reactions/defer", json!({ "reaction": "mail", "in_ms": beyond })),
        ("/v1/locks/door", json!({ "lease_ms": 1000, "wait_ms": beyond })),
        ("/v1/claims/pay", json!({ "lease_ms": 1000, "ttl_ms": beyond })),
        ("/v1/quotas/seats/take", json!({ "limit": 3, "units": 1, "every_ms": beyond })),
    ] {
        let refused = operator.post(path, &body).await;
        assert_eq!(refused.problem(), (400, "body-invalid".into()), "{path}");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("expected at most 9223372036854775807"), "{path}: {detail}");
    }
    server.stop().await;
}

/// Integers without a maximum, or with one beyond their format.
fn look_for_unbounded(within: &Value, place: &str, found: &mut Vec<String>) {
    match within {
        Value::Array(several) => {
            several.iter().for_each(|one| look_for_unbounded(one, place, found));
        }
        Value::Object(fields) => {
            let is_integer = fields.get("type").is_some_and(|said| {
                said == "integer"
                    || said.as_array().is_some_and(|several| several.contains(&json!("integer")))
            });
            let bound = fields.get("maximum").and_then(Value::as_i64);
            let is_short = fields.get("format").is_some_and(|format| format == "int32");
            let longest = if is_short { i32::MAX.into() } else { i64::MAX };
            if is_integer && bound.is_none_or(|bound| bound > longest) {
                found.push(place.to_owned());
            }
            for (name, one) in fields {
                look_for_unbounded(one, &format!("{place}/{name}"), found);
            }
        }
        _ => {}
    }
}

over_sockets!(the_document_and_the_routes_match, every_number_has_a_bound_that_is_enforced,);
