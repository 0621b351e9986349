//! Real servers on loopback, and clients that disconnect.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use tidelock_test_stage::{Observed, PATIENCE, TestStore, for_real};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::client::{answered, ask_over, ask_over_until_answered, pay};
use crate::till::{Till, keys};

/// Serves until the runtime ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Notes that it was dropped early.
struct Unanswered(Option<Observed>);

impl Unanswered {
    fn answer(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(seen) = self.0.take() {
            seen.note("hung up");
        }
    }
}

/// Schedule 94. CLAIM-41, CLAIM-42.
async fn two_servers_and_ten_clients_with_one_key_make_one_effect(stage: TestStore) {
    let till = Till::shut();
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(serve(till.app(keys(&stage.tidelock().await).wait(PATIENCE))).await);
    }
    let ask = |nth: usize| tokio::spawn(ask_over(servers[nth % 2], pay("k", "7")));
    let clients: Vec<_> = (0..10).map(ask).collect();
    till.effects.until(1).await;
    till.open_up();
    for client in clients {
        assert_eq!(answered(client).await.unwrap().told(), (201, "payment 1 of 7"));
    }
    assert_eq!(till.effects.count(), 1);
}

/// CLAIM-52.
async fn a_client_that_retries_on_another_server_gets_the_response(stage: TestStore) {
    let (till, left) = (Till::shut(), Observed::default());
    let watch = left.clone();
    let watched = from_fn(move |request: Request, next: Next| {
        let mut unanswered = Unanswered(Some(watch.clone()));
        async move {
            let response = next.run(request).await;
            unanswered.answer();
            response
        }
    });
    let here = serve(till.app(keys(&stage.tidelock().await)).layer(watched)).await;
    let there = serve(till.app(keys(&stage.tidelock().await))).await;
    let mut connection = TcpStream::connect(here).await.unwrap();
    let request =
        "POST /pay HTTP/1.1\r\nhost: till\r\nidempotency-key: k\r\ncontent-length: 1\r\n\r\n7";
    connection.write_all(request.as_bytes()).await.unwrap();
    till.effects.until(1).await;
    drop(connection);
    left.until(1).await;
    assert!(ask_over(there, pay("k", "7")).await.unwrap().is_in_progress());
    till.open_up();
    let again = ask_over_until_answered(&[there], "k", "7").await;
    assert_eq!((again.told(), again.is_replay()), ((201, "payment 1 of 7"), true));
    assert_eq!(till.effects.count(), 1);
}

/// On every store, in real time, because a network has no other.
macro_rules! on_real_servers {
    ($($case:ident),* $(,)?) => {
        mod memory { $(#[test] fn $case() { super::for_real(super::TestStore::memory(), super::$case); })* }
        mod sqlite { $(#[test] fn $case() { super::for_real(super::TestStore::sqlite(), super::$case); })* }
        mod postgres { $(#[test] fn $case() { super::for_real(super::TestStore::postgres(), super::$case); })* }
        mod stingy { $(#[test] fn $case() { super::for_real(super::TestStore::stingy(), super::$case); })* }
    };
}

on_real_servers!(
    two_servers_and_ten_clients_with_one_key_make_one_effect,
    a_client_that_retries_on_another_server_gets_the_response,
);
