//! What outlives the server that granted or did it: a real process, killed in between.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use http::Method;
use serde_json::{Value, json};
use tidelock::Tidelock;
use tidelock::store::{Result, StoreOperation};
use tidelock_http::Api;
use tidelock_test_stage::{Interceptor, Meeting, Role, TestStore, Wrapped, for_real};
use tokio::net::TcpListener;

use crate::harness::{Client, Server, WRITER, tokens};

/// The child process: a server that prints its address; does nothing by itself.
#[tokio::test]
async fn a_child() {
    let Some(role) = Role::ours() else { return };
    let mut tidelock = Tidelock::open(&role.url).await.unwrap();
    if role.name == "doomed" {
        tidelock = Tidelock::over(Wrapped::new(tidelock.store().clone(), Doomed::new(&role)));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    role.note(&format!("at {}", listener.local_addr().unwrap()));
    let api = Api::over(&tidelock).tokens(tokens());
    tidelock_http::serve(listener, api, None, role.allowed("never")).await.unwrap();
}

/// Lets a request claim its key and do its work: the response is never recorded.
#[derive(Debug)]
struct Doomed {
    role: Role,
    commits: AtomicU32,
}

impl Doomed {
    fn new(role: &Role) -> Self {
        Self { role: role.clone(), commits: AtomicU32::new(0) }
    }
}

impl Interceptor for Doomed {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if operation != StoreOperation::Commit || self.commits.fetch_add(1, Ordering::SeqCst) < 2 {
            return call.await;
        }
        self.role.note("done");
        pending().await
    }
}

/// Sends this under a key to a server that carries it out and dies.
async fn send_to_dying_server(stage: &TestStore, path: &'static str, body: &Value) {
    let meeting = Meeting::on(stage, "killed::a_child");
    let child = meeting.start("doomed");
    meeting.until_noted("at ").await;
    let there = Client::to(meeting.notes()[0]["at ".len()..].parse().unwrap(), WRITER);
    let request = keyed(&there, path, body);
    let asking = tokio::spawn(async move { there.try_send(request).await });
    meeting.until_noted("done").await;
    child.kill().await;
    assert!(asking.await.unwrap().is_none(), "there is no response");
}

fn keyed(
    client: &Client,
    path: &str,
    body: &Value,
) -> http::Request<http_body_util::Full<hyper::body::Bytes>> {
    let mut request = client.request(Method::POST, path, Some(body));
    request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
    request
}

/// HTTP-9. Killed after it carried out the request and before it recorded the response.
async fn a_request_to_a_killed_server_is_carried_out_once(stage: TestStore) {
    let own = Server::start(&stage).await;
    let here = own.client(WRITER);
    let again = async |path: &str, body: &Value| {
        own.let_keys_run_out().await;
        let answer = here.send(keyed(&here, path, body)).await.ok(201);
        own.forget_answers().await;
        answer
    };
    // The period is open, so that taking is one commit.
    here.post("/v1/quotas/seats/take", &json!({ "limit": 9, "units": 1 })).await.ok(201);
    let (path, body) = ("/v1/quotas/seats/take", json!({ "limit": 9, "units": 2 }));
    send_to_dying_server(&stage, path, &body).await;
    let used = async || here.get("/v1/quotas/seats?limit=9").await.ok(200)["used"].clone();
    assert_eq!(used().await, 3);
    assert_eq!(again(path, &body).await["grant"]["units"], 2);
    assert_eq!(used().await, 3, "it is charged once");

    let (path, body) = ("/v1/locks/door", json!({ "lease_ms": 600_000 }));
    send_to_dying_server(&stage, path, &body).await;
    let fence = here.get(path).await.ok(200)["fence"].clone();
    assert_eq!(again(path, &body).await["fence"], fence, "the lock is held by the same request");

    let (path, body) = ("/v1/queues/mail/items", json!({ "key": "a" }));
    send_to_dying_server(&stage, path, &body).await;
    let lease = async || {
        let leased =
            here.post("/v1/queues/mail/lease", &json!({ "lease_ms": 600_000 })).await.ok(200);
        leased["items"].as_array().unwrap().clone()
    };
    let ack = json!({ "key": "a", "fence": lease().await[0]["fence"], "outcome": "ack" });
    here.post("/v1/queues/mail/settle", &json!({ "items": [ack] })).await.ok(200);
    again(path, &body).await;
    assert_eq!(lease().await, Vec::<Value>::new(), "nothing is woken again");
}

/// HTTP-31.
async fn leases_and_claims_outlive_the_server_that_granted_them(stage: TestStore) {
    let own = Server::start(&stage).await;
    let meeting = Meeting::on(&stage, "killed::a_child");
    let child = meeting.start("server");
    meeting.until_noted("at ").await;
    let address: SocketAddr = meeting.notes()[0]["at ".len()..].parse().unwrap();
    let (there, here) = (Client::to(address, WRITER), own.client(WRITER));
    let claim = there.post("/v1/claims/pay", &json!({ "lease_ms": 60_000 })).await.ok(201);
    let lock = there.post("/v1/locks/door", &json!({ "lease_ms": 60_000 })).await.ok(201);
    let reserving = json!({ "limit": 3, "units": 2, "ttl_ms": 60_000 });
    let reserved = there.post("/v1/quotas/seats/reserve", &reserving).await.ok(201);
    there.post("/v1/queues/mail/items", &json!({ "key": "a", "data": 7 })).await.ok(201);
    let item =
        there.post("/v1/queues/mail/lease", &json!({ "lease_ms": 60_000 })).await.ok(200)["items"]
            [0]
        .clone();
    child.kill().await;
    assert_eq!(
        here.get("/v1/locks/door").await.ok(200)["fence"],
        lock["fence"],
        "nothing was released"
    );
    let renewing = json!({ "fence": lock["fence"], "lease_ms": 60_000 });
    here.send_with(Method::PUT, "/v1/locks/door", &[], Some(&renewing)).await.ok(200);
    let completing = json!({ "fence": claim["fence"], "result": "paid" });
    assert_eq!(here.post("/v1/claims/pay/complete", &completing).await.status, 204);
    here.post(
        "/v1/quotas/seats/confirm",
        &json!({ "reservation_token": reserved["reservation_token"] }),
    )
    .await
    .ok(200);
    let settling = json!({ "items": [{ "key": "a", "fence": item["fence"], "outcome": "ack" }] });
    let settled = here.post("/v1/queues/mail/settle", &settling).await.ok(200);
    assert_eq!(settled["items"][0]["outcome"], "settled");
}

mod sqlite {
    use super::{TestStore, for_real};

    #[test]
    fn leases_and_claims_outlive_the_server_that_granted_them() {
        for_real(
            TestStore::sqlite(),
            super::leases_and_claims_outlive_the_server_that_granted_them,
        );
    }

    #[test]
    fn a_request_to_a_killed_server_is_carried_out_once() {
        for_real(TestStore::sqlite(), super::a_request_to_a_killed_server_is_carried_out_once);
    }
}

mod postgres {
    use super::{TestStore, for_real};

    #[test]
    fn leases_and_claims_outlive_the_server_that_granted_them() {
        for_real(
            TestStore::postgres(),
            super::leases_and_claims_outlive_the_server_that_granted_them,
        );
    }

    #[test]
    fn a_request_to_a_killed_server_is_carried_out_once() {
        for_real(TestStore::postgres(), super::a_request_to_a_killed_server_is_carried_out_once);
    }
}
