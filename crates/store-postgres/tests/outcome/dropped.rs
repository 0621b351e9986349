//! Futures that are dropped at any moment: during connect, BEGIN, a statement, or COMMIT.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tidelock_store::{
    Adjustment, Bounds, Commit, CommitId, FeedQuery, ItemFilter, Lease, LeaseRequest, Position,
    RecordKey, RecordWrite, Store, StoreError, Wake, When, WorkerName,
};
use tidelock_store_postgres::PostgresStore;

use crate::dice::Dice;
use crate::ground::{Ground, Plain, accepted, append, committed, item, queue, soon};

const ROUNDS: u64 = 240;
/// How often a handle is opened again, so that connecting is among the moments.
const REOPEN_EVERY: u64 = 12;
/// How many kinds of calls there are.
const KINDS: u64 = 8;
/// More polls than any of the calls takes.
const MOST_POLLS: u64 = 14;
const TRANSACTIONS: usize = 2;

/// The fixture.
struct Site {
    ground: Ground,
    store: PostgresStore,
    plain: Plain,
}

/// Schedule 11. COMMIT-1.
#[tokio::test]
async fn a_future_dropped_at_any_moment_leaves_nothing_open_and_nothing_half() {
    let mut dice =
        Dice::for_test("a_future_dropped_at_any_moment_leaves_nothing_open_and_nothing_half");
    let mut site = Site::new().await;
    site.plain.run("CREATE TABLE tidelock.own (n bigint PRIMARY KEY)").await;
    let mut finished = 0;
    for round in 0..ROUNDS {
        if round % REOPEN_EVERY == 0 {
            site.store = open(&site.ground).await;
        }
        let drop_at = Moment { polls: dice.below(MOST_POLLS), at_a_wake: dice.one_in(2) };
        finished += usize::from(drop_at.reached(site.call(dice.below(KINDS), round)).await);
        if dice.one_in(8) {
            site.next_borrower(ROUNDS + round).await;
        }
    }
    site.plain.until_none_is_open().await;
    site.check_sessions().await;
    site.check_all_or_nothing().await;
    println!("{finished} of {ROUNDS} calls ended before they were dropped");
    assert!(
        (ROUNDS / 10..ROUNDS * 9 / 10).contains(&(finished as u64)),
        "{finished} of {ROUNDS} ended"
    );
}

async fn open(ground: &Ground) -> PostgresStore {
    ground.open_with(|options| options.transactions = TRANSACTIONS).await
}

impl Site {
    async fn new() -> Self {
        let ground = Ground::shared();
        Self { store: open(&ground).await, plain: ground.connect().await, ground }
    }

    /// One call of some kind, all of whose parts are marked with this number.
    async fn call(&self, kind: u64, nth: u64) {
        match kind {
            0 => drop(self.store.commit(append(&format!("plain-{nth}"), "plain")).await),
            1 => drop(self.store.commit(whole(nth)).await),
            2 => drop(self.store.adjust(ItemFilter::queue("mail"), defer()).await),
            3 => drop(self.own(nth).await),
            4 => drop(self.lease_and_renew().await),
            5 => drop(open(&self.ground).await),
            6 => drop(self.store.get(&[RecordKey::new("whole/0").unwrap()]).await),
            _ => drop(self.store.read_feed(FeedQuery::after(Position::START)).await),
        }
    }

    async fn lease_and_renew(&self) -> Result<(), StoreError> {
        let leased = self.store.lease(request()).await?;
        let tokens: Vec<_> = leased.leases.iter().map(Lease::token).collect();
        self.store.renew(&tokens, Duration::from_secs(1)).await.map(drop)
    }

    /// A user's row and a commit, in one transaction.
    async fn own(&self, nth: u64) -> Result<(), Box<dyn std::error::Error>> {
        let own = self.store.begin().await?;
        own.execute(&format!("INSERT INTO {}.own VALUES ({nth})", self.ground.schema), &[]).await?;
        accepted(own.commit(whole(nth)).await?);
        Ok(())
    }

    /// The next borrower finds a clean connection.
    async fn next_borrower(&self, nth: u64) {
        for _ in 0..TRANSACTIONS {
            let own = soon("a connection", self.store.begin()).await.unwrap();
            let open = own
                .query("SELECT pg_current_xact_id_if_assigned() IS NOT NULL", &[])
                .await
                .unwrap();
            assert!(!open[0].get::<_, bool>(0), "another call's transaction is still open");
        }
        soon("a transaction", self.own(nth)).await.unwrap();
        committed(&self.store, append("next", "next")).await;
    }

    /// The store's sessions: one that commits, four that read, one each for leases, heartbeats,
    /// adjustments, maintenance and notifications, and those of user transactions.
    async fn check_sessions(&self) {
        let most = 1 + 4 + 5 + TRANSACTIONS;
        let sql =
            format!("SELECT count(*) <= {most} FROM pg_stat_activity WHERE application_name = '@'");
        self.plain.until("the connections of dropped calls are closed", &sql).await;
    }

    /// Every mark has all of its parts, or none.
    async fn check_all_or_nothing(&self) {
        let marks = "SELECT replace(stream, 'whole-', '') FROM tidelock.events WHERE stream LIKE 'whole-%' ORDER BY 1";
        let marks = self.plain.all::<String>(marks).await;
        assert!(!marks.is_empty());
        let records = "SELECT replace(key, 'whole/', '') FROM tidelock.records ORDER BY 1";
        assert_eq!(self.plain.all::<String>(records).await, marks);
        assert_eq!(
            self.plain.all::<String>("SELECT key FROM tidelock.items ORDER BY 1").await,
            marks
        );
        assert_eq!(
            self.plain.one::<i64>("SELECT count(*) FROM tidelock.commits").await,
            marks.len() as i64
        );
        let own = self.plain.all::<String>("SELECT n::text FROM tidelock.own").await;
        assert!(
            own.iter().all(|n| marks.contains(n)),
            "user rows without the commit: {own:?} {marks:?}"
        );
    }
}

/// A commit with a part of every kind.
fn whole(nth: u64) -> Commit {
    append(&format!("whole-{nth}"), "whole")
        .write(RecordWrite::add(&RecordKey::new(format!("whole/{nth}")).unwrap(), 1, Bounds::NONE))
        .wake(Wake::at(item(&nth.to_string()), When::NOW))
        .with_id(CommitId::fresh())
}

fn request() -> LeaseRequest {
    LeaseRequest::new(&queue(), &WorkerName::new("worker").unwrap(), Duration::from_secs(1), 3)
}

fn defer() -> Adjustment {
    Adjustment::Defer { until: When::In(Duration::from_secs(1)) }
}

/// When a future is dropped: after this many polls, immediately or when it would be polled again.
struct Moment {
    polls: u64,
    at_a_wake: bool,
}

impl Moment {
    /// Whether the future was ready before.
    async fn reached(self, future: impl Future<Output = ()>) -> bool {
        let (mut future, mut left) = (pin!(future), self.polls);
        poll_fn(move |cx| {
            if left == 0 {
                return Poll::Ready(false);
            }
            left -= 1;
            match future.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if left == 0 && !self.at_a_wake => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}
