//! Rights and leases that outlive the server that gave them out: a real process, killed in between.

use std::net::SocketAddr;

use http::Method;
use serde_json::json;
use tidelock::Tidelock;
use tidelock_http::Api;
use tidelock_test_stage::{Meeting, Role, Stage, for_real};
use tokio::net::TcpListener;

use crate::ground::{Client, Server, WRITER, tokens};

/// The part of the other process: a server that says where it is; nothing by itself.
#[tokio::test]
async fn a_child() {
    let Some(role) = Role::ours() else { return };
    let tidelock = Tidelock::open(&role.url).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    role.note(&format!("at {}", listener.local_addr().unwrap()));
    let api = Api::over(&tidelock).tokens(tokens());
    tidelock_http::serve(listener, api, None, role.allowed("never")).await.unwrap();
}

/// HTTP-31.
async fn what_a_server_gave_out_outlives_it(stage: Stage) {
    let own = Server::start(&stage).await;
    let meeting = Meeting::on(&stage, "hands::a_child");
    let child = meeting.start("server");
    meeting.until_noted("at ").await;
    let address: SocketAddr = meeting.notes()[0]["at ".len()..].parse().unwrap();
    let (there, here) = (Client::to(address, WRITER), own.client(WRITER));
    let claim = there.post("/v1/claims/pay", &json!({ "lease_ms": 60_000 })).await.ok(201);
    let lock = there.post("/v1/locks/door", &json!({ "lease_ms": 60_000 })).await.ok(201);
    let reserving = json!({ "limit": 3, "units": 2, "life_ms": 60_000 });
    let reserved = there.post("/v1/quotas/seats/reserve", &reserving).await.ok(201);
    there.post("/v1/queues/mail/items", &json!({ "key": "a", "data": 7 })).await.ok(201);
    let item =
        there.post("/v1/queues/mail/lease", &json!({ "lease_ms": 60_000 })).await.ok(200)["items"][0].clone();
    child.kill().await;
    assert_eq!(here.get("/v1/locks/door").await.ok(200)["fence"], lock["fence"], "nothing was given back");
    let renewing = json!({ "fence": lock["fence"], "lease_ms": 60_000 });
    here.send_with(Method::PUT, "/v1/locks/door", &[], Some(&renewing)).await.ok(200);
    let completing = json!({ "fence": claim["fence"], "result": "paid" });
    assert_eq!(here.post("/v1/claims/pay/complete", &completing).await.status, 204);
    here.post("/v1/quotas/seats/confirm", &json!({ "voucher": reserved["voucher"] })).await.ok(200);
    let settling = json!({ "items": [{ "key": "a", "fence": item["fence"], "outcome": "ack" }] });
    let settled = here.post("/v1/queues/mail/settle", &settling).await.ok(200);
    assert_eq!(settled["items"][0]["outcome"], "settled");
}

mod sqlite {
    #[test]
    fn what_a_server_gave_out_outlives_it() {
        super::for_real(super::Stage::sqlite(), super::what_a_server_gave_out_outlives_it);
    }
}

mod postgres {
    #[test]
    fn what_a_server_gave_out_outlives_it() {
        super::for_real(super::Stage::postgres(), super::what_a_server_gave_out_outlives_it);
    }
}
