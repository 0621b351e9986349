//! The server commits, and its reply is lost.

use tidelock_store::{
    Bounds, Commit, CommitId, CommitOutcome, Committed, ExpectedVersion, RecordKey, RecordWrite,
    Result, RetryAdvice, SettleKind, Store, StoreExt,
};
use tidelock_store_postgres::{PostgresStore, Prepare};
use tidelock_test_postgres::Proxy;
use tokio::task::JoinHandle;

use crate::ground::{
    Ground, Plain, accepted, append, committed, event, item, lease, soon, stream, wake,
};

/// A store behind a faulty network, and a plain connection that is not.
struct Site {
    ground: Ground,
    proxy: Proxy,
    store: PostgresStore,
    plain: Plain,
}

impl Site {
    async fn new() -> Self {
        Self::with(Prepare::Always).await
    }

    async fn with(prepare: Prepare) -> Self {
        let ground = Ground::shared();
        let proxy = Proxy::to(ground.port()).unwrap();
        let ground = ground.through(proxy.port());
        let store = ground.open_with(|options| options.prepare = prepare).await;
        let plain = ground.connect().await;
        // The connections exist, and the next request is the commit.
        committed(&store, append("warm", "warm")).await;
        committed(&store, append("warm", "warm").with_id(CommitId::fresh())).await;
        Self { ground, proxy, store, plain }
    }

    /// Commits, and loses the reply to the request that contains these bytes.
    async fn lose_the_reply(&self, bytes: &[u8], commit: &Commit) {
        self.proxy.cut_after_request(bytes);
        let lost = soon("an answer", self.store.commit(commit.clone())).await;
        self.check_unknown_and_there(lost, commit).await;
    }

    async fn check_unknown_and_there(&self, lost: Result<CommitOutcome>, commit: &Commit) {
        let error = lost.expect_err("the reply was lost");
        assert_eq!(error.advice(), RetryAdvice::Unknown, "{error}");
        let id = uuid(commit);
        let there = format!("SELECT EXISTS (SELECT FROM tidelock.events WHERE id = '{id}')");
        self.plain.until("the server has committed", &there).await;
    }

    /// Compares the stored events with the result.
    async fn check_first_result(&self, again: &Committed, commit: &Commit) {
        let sql = format!("SELECT position FROM tidelock.events WHERE id = '{}'", uuid(commit));
        let position = self.plain.one::<i64>(&sql).await as u64;
        let appended = &again.appends[0];
        assert_eq!(
            appended.positions.map(|(first, last)| (first.get(), last.get())),
            Some((position, position))
        );
    }
}

/// The id of a commit's first event, as an SQL literal.
fn uuid(commit: &Commit) -> String {
    commit.appends[0].events[0].id.to_string()
}

fn spawn(store: &PostgresStore, commit: &Commit) -> JoinHandle<Result<CommitOutcome>> {
    let (store, commit) = (store.clone(), commit.clone());
    tokio::spawn(async move { store.commit(commit).await })
}

/// Schedule 6. LOG-5, COMMIT-6: each kind of expectation, for a single caller.
#[tokio::test]
async fn an_append_whose_reply_was_lost_gives_its_first_result_when_sent_again() {
    let site = Site::new().await;
    let there = committed(&site.store, append("there", "first")).await.appends[0].version;
    let cases = [
        ("new", ExpectedVersion::NoStream),
        ("there", ExpectedVersion::Exact(there)),
        ("there", ExpectedVersion::Exists),
        ("there", ExpectedVersion::Any),
    ];
    for (name, expected) in cases {
        let commit = Commit::new().append(&stream(name), expected, [event("marked")]);
        site.lose_the_reply(b"marked", &commit).await;
        for _ in 0..2 {
            let again = committed(&site.store, commit.clone()).await;
            assert!(again.appends[0].replayed, "{again:?}");
            site.check_first_result(&again, &commit).await;
        }
    }
    assert_eq!(site.store.read_whole_stream(&stream("there")).await.unwrap().len(), 4);
}

/// Schedule 6. LOG-5: the same for callers that share a batch.
#[tokio::test]
async fn every_caller_of_a_batch_whose_reply_was_lost_can_send_again() {
    let site = Site::new().await;
    site.plain.run("BEGIN; LOCK TABLE tidelock.events IN SHARE MODE").await;
    let ahead = spawn(&site.store, &append("ahead", "ahead"));
    let looker = site.ground.connect().await;
    looker.until_blocked(1).await;
    let commits: Vec<Commit> = (0..5).map(|n| append(&format!("batch-{n}"), "marked")).collect();
    let batch: Vec<_> = commits.iter().map(|commit| spawn(&site.store, commit)).collect();
    tokio::task::yield_now().await;
    site.proxy.cut_after_request(b"marked");
    site.plain.run("COMMIT").await;

    accepted(soon("the one ahead", ahead).await.unwrap().unwrap());
    for (lost, commit) in batch.into_iter().zip(&commits) {
        let lost = soon("an answer", lost).await.unwrap();
        let said = lost.as_ref().unwrap_err().to_string();
        assert!(said.contains("a batch of 5 commits"), "they travelled apart: {said}");
        site.check_unknown_and_there(lost, commit).await;
        let again = committed(&site.store, commit.clone()).await;
        site.check_first_result(&again, commit).await;
    }
}

/// Schedules 6, 26 and 56. COMMIT-4, LEASE-9: records, wakes and settlements, under an id.
#[tokio::test]
async fn a_commit_whose_reply_was_lost_is_made_once() {
    let site = Site::new().await;
    committed(&site.store, wake("settled")).await;
    let lease = lease(&site.store, "worker", 1).await.remove(0);
    let sold = RecordKey::new("sold").unwrap();
    let commit = append("long", "long")
        .write(RecordWrite::add(&sold, 2, Bounds::at_most(3)))
        .wake(tidelock_store::Wake::at(item("woken"), tidelock_store::When::NOW))
        .settle(lease.ack())
        .with_id(CommitId::fresh());
    site.lose_the_reply(b"COMMIT\0", &commit).await;
    let first = committed(&site.store, commit.clone()).await;
    assert_eq!(first, committed(&site.store, commit.clone()).await);
    assert_eq!(first.writes[0].sum, Some(2), "a second time would be past the bound");
    site.check_first_result(&first, &commit).await;
    let settled = site.store.item(&item("settled")).await.unwrap().unwrap();
    assert_eq!((settled.settled, settled.holder), (Some(SettleKind::Ack), None));
    assert!(site.store.item(&item("woken")).await.unwrap().is_some());
}

/// Schedule 6: the store itself retries a renewal; its caller notices nothing.
#[tokio::test]
async fn a_renewal_whose_reply_was_lost_is_made_again_by_the_store() {
    let site = Site::new().await;
    committed(&site.store, wake("held-by-a-worker")).await;
    let lease = lease(&site.store, "worker", 1).await.remove(0);
    let minute = std::time::Duration::from_secs(60);
    soon("a renewal", site.store.renew(&[lease.token()], minute)).await.unwrap();
    site.proxy.cut_after_request(b"held-by-a-worker");
    let renewed = soon("a renewal", site.store.renew(&[lease.token()], minute)).await.unwrap();
    assert!(matches!(renewed[..], [tidelock_store::Renewal::Renewed(_)]), "{renewed:?}");
}

/// Schedule 6. COMMIT-6: every reply is lost for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_while_without_replies_leaves_nothing_twice() {
    // Nothing is sent before the commits themselves, which would then never be sent.
    let site = Site::with(Prepare::Never).await;
    let (mut whiles, mut unknown) = (0, 0);
    // A commit can still be answered, if its reply is slow and comes after that while.
    while unknown == 0 {
        assert!(whiles < 100, "no reply was lost");
        unknown = site.a_while_without_replies(whiles).await;
        whiles += 1;
    }
    let copies: i64 =
        site.plain.one("SELECT count(*) FROM tidelock.events WHERE stream LIKE 'mixed-%'").await;
    assert_eq!(copies, 40 * whiles);
    let total: i64 =
        site.plain.one("SELECT value::bigint FROM tidelock.records WHERE key = 'total'").await;
    assert_eq!(total, 20 * whiles);
}

impl Site {
    /// Makes forty commits with retries, and returns how many of them had an unknown outcome at
    /// first.
    async fn a_while_without_replies(&self, nth: i64) -> usize {
        let commits: Vec<Commit> = (0..40).map(|commit| mixed(nth, commit)).collect();
        self.proxy.swallow_replies();
        let mut calls = vec![spawn(&self.store, &commits[0])];
        let first =
            format!("SELECT count(*) > 0 FROM tidelock.events WHERE stream = 'mixed-{nth}-0'");
        self.plain.until("the first was written", &first).await;
        // Some of these wait for the first one, some are in flight when the while ends; which ones
        // is random.
        calls.extend(commits[1..].iter().map(|commit| spawn(&self.store, commit)));
        self.proxy.heal();
        let mut unknown = 0;
        for (call, commit) in calls.into_iter().zip(&commits) {
            if let Err(error) = soon("an answer", call).await.unwrap() {
                assert_ne!(error.advice(), RetryAdvice::Never, "{error}");
                unknown += usize::from(error.advice() == RetryAdvice::Unknown);
                committed(&self.store, commit.clone()).await;
            }
        }
        unknown
    }
}

/// Every other one has an id and counts.
fn mixed(nth_while: i64, nth: usize) -> Commit {
    let commit = append(&format!("mixed-{nth_while}-{nth}"), "mixed");
    if nth.is_multiple_of(2) {
        return commit;
    }
    commit
        .write(RecordWrite::add(&RecordKey::new("total").unwrap(), 1, Bounds::NONE))
        .with_id(CommitId::fresh())
}
