//! What the route table adds to every route: auditing of operators, and a response to a panic.

use axum::body::Body;
use axum::extract::State;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidelock::Tidelock;
use tidelock::store::{StoreExt, StoredEvent};
use tower_service::Service;

use super::*;
use crate::app_state::Setup;
use crate::auth::Tokens;
use crate::resources::audit as audited;

const OLGA: &str = "operator-token-0123456789";
const WALT: &str = "writer-token-0123456789";

/// Returns the audit events so far; carried out twice, it would return more.
#[utoipa::path(post, path = "/v1/remedy/{thing}", responses((status = 200)))]
async fn remedy(State(served): State<AppState>) -> Result<axum::Json<usize>, Problem> {
    Ok(axum::Json(written(&served).await.len()))
}

async fn written(served: &AppState) -> Vec<StoredEvent> {
    served.store().read_whole_stream(&audit::keys::stream()).await.unwrap_or_default()
}

async fn served() -> (AppState, Router) {
    let mut setup = Setup::over(Tidelock::open("memory:").await.unwrap());
    setup.tokens =
        Some(Tokens::read(&format!("operator olga {OLGA}\nwriter walt {WALT}")).unwrap());
    let served = AppState::new(setup);
    let table = Table::new(&served).operator(routes!(remedy)).reader(routes!(audited::list));
    let router = Router::from(table.router).with_state(served.clone());
    (served, router)
}

fn request(token: &str, body: &str) -> Request<Body> {
    let request = Request::post("/v1/remedy/boat-3")
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json");
    let request =
        request.header(AUTHORIZATION, format!("Bearer {token}")).header("idempotency-key", "k");
    request.body(Body::from(body.to_owned())).unwrap()
}

async fn read(response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    (
        status,
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap(),
    )
}

/// HTTP-22. Before it is carried out; repeated under its key, it is one action.
#[tokio::test]
async fn an_action_is_audited_before_it_is_carried_out() {
    let (served, mut router) = served().await;
    let body = r#"{"why":"it leaks"}"#;
    assert_eq!(read(router.call(request(WALT, body)).await.unwrap()).await.0, 403);
    assert!(written(&served).await.is_empty(), "a refused caller is not audited");
    for _ in 0..2 {
        assert_eq!(read(router.call(request(OLGA, body)).await.unwrap()).await, (200, json!(1)));
    }
    let types: Vec<_> =
        written(&served).await.iter().map(|event| event.event_type.to_string()).collect();
    assert_eq!(types, ["asked", "answered"]);
    let list = Request::get("/v1/audit")
        .header(HOST, "localhost")
        .header(AUTHORIZATION, format!("Bearer {WALT}"));
    let (_, page) = read(router.call(list.body(Body::empty()).unwrap()).await.unwrap()).await;
    let action = &page["items"][0];
    assert_eq!(
        (&action["who"], &action["what"]),
        (&json!("olga"), &json!("POST /v1/remedy/{thing}"))
    );
    assert_eq!(
        (&action["on"], &action["parameters"]),
        (&json!("/v1/remedy/boat-3"), &json!({ "why": "it leaks" }))
    );
    assert_eq!((&action["status"], page["items"].as_array().map(Vec::len)), (&json!(200), Some(1)));
}

/// HTTP-22. If the audit log fails, nothing is carried out.
#[tokio::test]
async fn an_action_that_cannot_be_audited_is_not_carried_out() {
    let (served, mut router) = served().await;
    let closing =
        tidelock::store::Append::closing(&audit::keys::stream(), tidelock::ExpectedVersion::Any);
    let mut first = tidelock::store::Commit::new();
    first.appends.push(tidelock::store::Append::new(
        &audit::keys::stream(),
        tidelock::ExpectedVersion::Any,
        [tidelock::store::NewEvent::of("noted", &1).unwrap()],
    ));
    served.store().commit(first).await.unwrap().committed().unwrap();
    served
        .store()
        .commit(tidelock::store::Commit::new().with_append(closing))
        .await
        .unwrap()
        .committed()
        .unwrap();
    let (status, problem) = read(router.call(request(OLGA, "{}")).await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (500, &json!("audit-refused")));
}

/// HTTP-33.
#[tokio::test]
async fn a_panic_becomes_a_problem_response() {
    async fn panics() -> StatusCode {
        panic!("on purpose")
    }
    let router = Router::new().route("/", axum::routing::get(panics));
    let mut router: Router = router.layer(CatchPanicLayer::custom(panicked));
    let (status, problem) = read(router.call(Request::new(Body::empty())).await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (500, &json!("handler-failed")));
}
