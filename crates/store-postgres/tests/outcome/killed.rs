//! The server is killed under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tidelock_store::{
    Bounds, Commit, CommitId, EventId, RecordKey, RecordWrite, RetryAdvice, Store,
};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::{Server, Stop};
use tokio::sync::watch;
use tokio::task::block_in_place;

use crate::ground::{Ground, PATIENCE, Plain, accepted, append, committed, soon};

const HANDLES: usize = 2;
const CALLERS: usize = 10;
/// Acknowledged commits between one fault and the next.
const ACKNOWLEDGED: usize = 150;

/// One call, and its result.
struct Call {
    commit: Commit,
    /// The error's advice; none if the commit was acknowledged.
    advice: Option<RetryAdvice>,
}

impl Call {
    /// The event that shows whether the commit is there.
    fn event(&self) -> EventId {
        self.commit.appends[0].events[0].id
    }
}

/// The callers, and their results.
struct Crowd {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    up: watch::Sender<bool>,
}

/// Schedule 10. COMMIT-5, COMMIT-6, LOG-5, COMMIT-4.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_under_load_leaves_no_commit_half_and_none_twice() {
    let server = Server::start().unwrap();
    let ground = Ground::on(&server.url());
    let crowd = Arc::new(Crowd {
        stop: AtomicBool::new(false),
        acknowledged: AtomicUsize::new(0),
        up: watch::Sender::new(true),
    });
    let mut callers = Vec::new();
    for handle in 0..HANDLES {
        let store = ground.open().await;
        let names = (0..CALLERS).map(|n| format!("{handle}-{n}"));
        callers.extend(names.map(|name| tokio::spawn(call_on(crowd.clone(), store.clone(), name))));
    }
    crowd.suffer(|| server.kill().unwrap(), &server).await;
    crowd.suffer(|| server.stop(Stop::Immediate).unwrap(), &server).await;
    crowd.suffer(|| server.kill().unwrap(), &server).await;
    crowd.stop.store(true, Ordering::SeqCst);
    let mut calls = Vec::new();
    for caller in callers {
        calls.extend(soon("a caller", caller).await.unwrap());
    }
    Audit { store: ground.open().await, plain: ground.connect().await }.check(&calls).await;
}

impl Crowd {
    /// Lets the callers work for a while, kills the server under them, and starts it again.
    async fn suffer(&self, end: impl FnOnce(), server: &Server) {
        let (begun, from) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst));
        while self.acknowledged.load(Ordering::SeqCst) < from + ACKNOWLEDGED {
            assert!(begun.elapsed() < PATIENCE, "nothing is acknowledged any more");
            tokio::task::yield_now().await;
        }
        self.up.send_replace(false);
        block_in_place(|| {
            end();
            server.start_again().unwrap();
        });
        self.up.send_replace(true);
    }
}

/// Commits continuously; after an error it waits until there is a server again, and continues with
/// the next one.
async fn call_on(crowd: Arc<Crowd>, store: PostgresStore, name: String) -> Vec<Call> {
    let (mut calls, mut up) = (Vec::new(), crowd.up.subscribe());
    while !crowd.stop.load(Ordering::SeqCst) {
        let commit = commit(&name, calls.len());
        let advice = match soon("an answer", store.commit(commit.clone())).await {
            Ok(outcome) => {
                accepted(outcome);
                crowd.acknowledged.fetch_add(1, Ordering::SeqCst);
                None
            }
            Err(error) => {
                assert_ne!(error.advice(), RetryAdvice::Never, "{error}");
                soon("a server", up.wait_for(|up| *up)).await.unwrap();
                Some(error.advice())
            }
        };
        calls.push(Call { commit, advice });
    }
    calls
}

/// Every other one is a plain append, idempotent by its event id; the others by their commit id.
fn commit(name: &str, nth: usize) -> Commit {
    let commit = append(name, &nth.to_string());
    if nth.is_multiple_of(2) {
        return commit;
    }
    let (count, total) =
        (RecordKey::new(format!("count/{name}")).unwrap(), RecordKey::new("total").unwrap());
    let counted = commit.write(RecordWrite::add(&count, 1, Bounds::NONE)).write(RecordWrite::add(
        &total,
        1,
        Bounds::NONE,
    ));
    counted.with_id(CommitId::fresh())
}

/// Reads what is there, independent of the store.
struct Audit {
    store: PostgresStore,
    plain: Plain,
}

impl Audit {
    async fn check(&self, calls: &[Call]) {
        let there = self.events().await;
        let (mut acknowledged, mut later, mut happened, mut not_happened) = (0, 0, 0, 0);
        for call in calls {
            let is_there = there.contains(&call.event());
            match call.advice {
                None => {
                    assert!(is_there, "acknowledged, and not there: {:?}", call.commit);
                    acknowledged += 1;
                }
                Some(RetryAdvice::Later) => {
                    assert!(!is_there, "said to be later, and there: {:?}", call.commit);
                    later += 1;
                }
                Some(_) if is_there => happened += 1,
                Some(_) => not_happened += 1,
            }
        }
        println!(
            "{acknowledged} acknowledged, {later} later, unknown: {happened} there and {not_happened} not"
        );
        assert!(
            acknowledged >= 3 * ACKNOWLEDGED && happened + not_happened > 0,
            "too little happened"
        );
        self.send_again(calls).await;
    }

    /// What was not acknowledged is sent again, and then everything is there once.
    async fn send_again(&self, calls: &[Call]) {
        for call in calls.iter().filter(|call| call.advice.is_some()) {
            committed(&self.store, call.commit.clone()).await;
        }
        let everything: HashSet<EventId> = calls.iter().map(Call::event).collect();
        assert_eq!(self.events().await, everything);
        assert_eq!(
            self.plain.one::<i64>("SELECT count(*) FROM tidelock.events").await,
            calls.len() as i64
        );
        let counted = calls.iter().filter(|call| call.commit.id.is_some()).count() as i64;
        let sum = "SELECT sum(value::bigint)::bigint FROM tidelock.records WHERE key";
        assert_eq!(self.plain.one::<i64>(&format!("{sum} = 'total'")).await, counted);
        assert_eq!(self.plain.one::<i64>(&format!("{sum} LIKE 'count/%'")).await, counted);
    }

    async fn events(&self) -> HashSet<EventId> {
        let ids = self.plain.all::<Vec<u8>>("SELECT uuid_send(id) FROM tidelock.events").await;
        ids.into_iter().map(|id| EventId::from_bytes(id.try_into().unwrap())).collect()
    }
}
