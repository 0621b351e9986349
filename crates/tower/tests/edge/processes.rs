//! Server processes that are killed, or stopped and continued, in the middle of a handler.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::StatusCode;
use nix::sys::signal::Signal;
use tidelock::Tidelock;
use tidelock_test_stage::{Meeting, Process, Role, TestStore, for_real};

use crate::client::{answered, ask_over, ask_over_until_answered, pay};
use crate::servers::serve;
use crate::till::keys;

/// Short enough to wait for, and long enough not to expire on a slow machine.
const BRIEF: Duration = Duration::from_secs(2);

/// The server process, if started as one; it runs until it is killed.
#[test]
fn child() {
    let Some(role) = Role::ours() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let tidelock = Tidelock::open(&role.url).await.unwrap();
        let address = serve(app(&tidelock, &role)).await;
        role.note(&format!("{} listens at {}", role.name, address.port()));
        std::future::pending::<()>().await;
    });
}

fn app(tidelock: &Tidelock, role: &Role) -> Router {
    let role = role.clone();
    let handler = async move || {
        role.note(&format!("{} begins", role.name));
        role.allowed(&format!("{} may end", role.name)).await;
        (StatusCode::CREATED, format!("paid by {}", role.name))
    };
    Router::new().route("/pay", post(handler).layer(keys(tidelock).lease(BRIEF)))
}

async fn start(meeting: &Meeting, name: &str) -> (Process, SocketAddr) {
    let (process, listens) = (meeting.start(name), format!("{name} listens at "));
    meeting.until_noted(&listens).await;
    let notes = meeting.notes();
    let port = notes.iter().find_map(|line| line.strip_prefix(&listens)).unwrap().parse().unwrap();
    (process, (Ipv4Addr::LOCALHOST, port).into())
}

/// Schedule 58. CLAIM-53. The key can be claimed after the lease; the retry is answered by the
/// other server.
async fn the_key_of_a_killed_server_is_taken_over(stage: TestStore) {
    let meeting = Meeting::on(&stage, "processes::child");
    let ((first, here), (_second, there)) =
        (start(&meeting, "first").await, start(&meeting, "second").await);
    let client = tokio::spawn(ask_over(here, pay("k", "7")));
    meeting.until_noted("first begins").await;
    first.kill().await;
    assert!(answered(client).await.is_none(), "there is no response");
    meeting.allow("second may end");
    let answer = ask_over_until_answered(&[here, there], "k", "7").await;
    assert_eq!((answer.told(), answer.is_replay()), ((201, "paid by second"), false));
    assert!(ask_over(there, pay("k", "7")).await.unwrap().is_replay());
}

/// Schedule 59. CLAIM-53. A process that was only stopped learns that its response does not count.
async fn the_response_of_a_server_stopped_past_its_lease_is_discarded(stage: TestStore) {
    let meeting = Meeting::on(&stage, "processes::child");
    let ((first, here), (_second, there)) =
        (start(&meeting, "first").await, start(&meeting, "second").await);
    let client = tokio::spawn(ask_over(here, pay("k", "7")));
    meeting.until_noted("first begins").await;
    meeting.stop(&first).await;
    meeting.allow("first may end");
    meeting.allow("second may end");
    let answer = ask_over_until_answered(&[there], "k", "7").await;
    assert_eq!(answer.told(), (201, "paid by second"));
    first.signal(Signal::SIGCONT);
    answered(client).await.unwrap().refused(409, "in-progress");
    let again = ask_over(here, pay("k", "7")).await.unwrap();
    assert_eq!((again.told(), again.is_replay()), ((201, "paid by second"), true));
}

macro_rules! between_processes {
    ($($case:ident),* $(,)?) => {
        mod sqlite { $(#[test] fn $case() { super::for_real(super::TestStore::sqlite(), super::$case); })* }
        mod postgres { $(#[test] fn $case() { super::for_real(super::TestStore::postgres(), super::$case); })* }
    };
}

between_processes!(
    the_key_of_a_killed_server_is_taken_over,
    the_response_of_a_server_stopped_past_its_lease_is_discarded,
);
