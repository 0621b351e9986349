//! Crashes: processes killed in the middle of their work, and what the next one finds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use tidelock_store::{
    Bounds, Commit, CommitOutcome, ExpectedRevision, ExpectedVersion, Fence, ItemFilter, ItemQuery,
    ItemRef, Lease, LeaseRequest, Mark, NewEvent, QueueName, RawJson, RecordKey, RecordWrite,
    Settlement, Store, StoreExt, StreamName, Wake, When, WorkerName,
};
use tidelock_store_sqlite::SqliteStore;

use crate::dice::Dice;
use crate::worker::{Part, Worker, order, say};
use crate::{block_on, check_integrity, open};

const LEASE: Duration = Duration::from_millis(200);
/// Against hanging only.
const DEADLINE: Duration = Duration::from_secs(60);

/// Schedule 23, LEASE-6.
pub(crate) fn a_killed_holders_item_is_leased_again_and_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    block_on(async {
        let store = open(&path);
        let wake = Wake::at(item("letter"), When::NOW);
        let _ = store.commit(Commit::new().wake(wake)).await.unwrap();
        for killed in 0..3 {
            let holder = Worker::start("holder", &[&path]);
            let held: Lease = serde_json::from_str(&holder.hear("holding")).unwrap();
            holder.kill();
            assert_eq!((held.attempts, held.expiries), (killed * 2 + 1, killed * 2));

            let taken = lease_when_free(&store, "heir").await;
            assert_eq!(taken.fence, held.fence.plus(1), "it was not leased in between");
            assert_eq!(
                taken.attempts,
                held.attempts + 1,
                "an attempt is counted when a lease is granted, once"
            );
            assert_eq!(taken.expiries, held.expiries + 1);
            assert_eq!(taken.failures, 0, "a crash is an expiry and no failure");
            assert!(
                taken.deadline >= held.deadline.plus(LEASE),
                "the killed one had its full time"
            );
        }
        let last = lease_when_free(&store, "finisher").await;
        assert_eq!(last.fence, Fence::new(7).unwrap());
        let _ = store
            .commit(Commit::new().settle(Settlement::ack(last.token(), last.mark)))
            .await
            .unwrap();
        let page = store.items(ItemQuery::new(ItemFilter::default())).await.unwrap();
        assert_eq!((page.items[0].attempts, page.items[0].expiries), (0, 0));
    });
}

/// Leases once and then does nothing, until it is killed.
pub(crate) fn holder(part: &Part) {
    block_on(async {
        let lease = lease_when_free(&open(part.argument(0)), "holder").await;
        say(format!("holding {}", serde_json::to_string(&lease).unwrap()));
    });
    order();
}

async fn lease_when_free(store: &SqliteStore, worker: &str) -> Lease {
    let request = LeaseRequest::new(&queue(), &WorkerName::new(worker).unwrap(), LEASE, 1);
    let begun = Instant::now();
    loop {
        let leased = store.lease(request.clone()).await.unwrap();
        if let Some(lease) = leased.leases.into_iter().next() {
            return lease;
        }
        assert!(begun.elapsed() < DEADLINE, "it is never free: {:?}", leased.next_due);
    }
}

/// COMMIT-1; schedules 58 and 67 in spirit: what several parts say of one thing never differs.
pub(crate) fn a_kill_never_leaves_half_a_commit() {
    const ROUNDS: usize = 15;
    let mut dice = Dice::for_test("a_kill_never_leaves_half_a_commit");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut acknowledged = BTreeMap::from_iter((0..LANES).map(|lane| (lane, 0)));
    let mut unknown = 0;
    for round in 0..ROUNDS {
        let mixer = Worker::start("mixer", &[&path]);
        let mut lines: Vec<_> =
            (0..dice.below(60)).map(|_| mixer.line().expect("it goes on")).collect();
        lines.extend(mixer.kill());
        for line in lines {
            let (lane, number) = line.split_once(' ').unwrap();
            *acknowledged.get_mut(&lane.parse().unwrap()).unwrap() = number.parse().unwrap();
        }
        let found = block_on(numbers(&path));
        for (lane, acknowledged) in &mut acknowledged {
            let found = found[lane];
            // The kill may have come between the commit and the line that reports it.
            assert!(
                found == *acknowledged || found == *acknowledged + 1,
                "round {round}, lane {lane}: {acknowledged} acknowledged, {found} there"
            );
            unknown += found - *acknowledged;
            *acknowledged = found;
        }
    }
    let total: u64 = acknowledged.values().sum();
    println!("{ROUNDS} kills, {total} commits, {unknown} of them not acknowledged");
    // Five deviations below the average of the random numbers.
    assert!(total > 100, "hardly anything was written before the kills: {total} commits");
    check_integrity(&path);
}

/// Concurrent tasks of a mixer, each writing to its own things; they share transactions.
const LANES: u64 = 6;

/// The numbers in the parts of the commits, lane by lane; all must be the same.
async fn numbers(path: &Path) -> BTreeMap<u64, u64> {
    let store = open(path);
    let items = store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items;
    let mut found = BTreeMap::new();
    for lane in 0..LANES {
        let mut said = Vec::new();
        for stream in streams(lane) {
            said.push(store.read_whole_stream(&stream).await.unwrap().len() as u64);
        }
        for key in records(lane) {
            let slot = store.get_one(&key).await.unwrap();
            said.push(slot.live().map_or(0, |record| record.value.to().unwrap()));
        }
        let item = items.iter().find(|item| item.item == lane_item(lane));
        said.push(item.map_or(0, |item| item.at.get()));
        assert!(
            said.iter().all(|number| *number == said[0]),
            "lane {lane} has half a commit: {said:?}"
        );
        found.insert(lane, said[0]);
    }
    found
}

/// Commits parts of every kind as fast as it can, in several tasks, and reports what was
/// acknowledged.
pub(crate) fn mixer(part: &Part) {
    let store = open(part.argument(0));
    block_on(async {
        let mut lanes = tokio::task::JoinSet::new();
        for lane in 0..LANES {
            lanes.spawn(mix(store.clone(), lane));
        }
        lanes.join_all().await;
    });
}

async fn mix(store: SqliteStore, lane: u64) {
    let queue = lane_item(lane).queue;
    let worker = WorkerName::new("mixer").unwrap();
    let item =
        store.items(ItemQuery::new(ItemFilter::queue(queue.as_str()))).await.unwrap().items.pop();
    let begun = item.map_or(0, |item| item.at.get());
    if begun == 0 {
        let _ =
            store.commit(Commit::new().wake(Wake::to_mark(lane_item(lane), one()))).await.unwrap();
    }
    for number in begun + 1.. {
        // The last round's mixer was killed while it held the lease.
        let lease = loop {
            let request = LeaseRequest::new(&queue, &worker, Duration::from_millis(50), 1);
            if let Some(lease) = store.lease(request).await.unwrap().leases.pop() {
                break lease;
            }
        };
        let mut commit = Commit::new()
            .settle(Settlement::ack(lease.token(), Mark::new(number).unwrap()))
            .wake(Wake::to_mark(lane_item(lane), Mark::new(number + 1).unwrap()));
        for stream in streams(lane) {
            let event = NewEvent::of("mixed", &number).unwrap();
            commit = commit.append(&stream, ExpectedVersion::Any, [event]);
        }
        let [total, last] = records(lane);
        commit = commit.write(RecordWrite::add(&total, 1, Bounds::NONE)).write(RecordWrite::put(
            &last,
            ExpectedRevision::Any,
            RawJson::new(&number).unwrap(),
        ));
        match store.commit(commit).await.unwrap() {
            CommitOutcome::Committed(_) => say(format!("{lane} {number}")),
            CommitOutcome::Conflict(conflict) => {
                panic!("no other task is in lane {lane}: {conflict}")
            }
        }
    }
}

fn one() -> Mark {
    Mark::new(1).unwrap()
}

fn streams(lane: u64) -> [StreamName; 2] {
    ["left", "right"].map(|side| StreamName::new(format!("{side}-{lane}")).unwrap())
}

fn records(lane: u64) -> [RecordKey; 2] {
    ["total", "last"].map(|name| RecordKey::new(format!("{name}-{lane}")).unwrap())
}

fn lane_item(lane: u64) -> ItemRef {
    ItemRef::parse(&format!("mixing-{lane}"), "mix").unwrap()
}

fn queue() -> QueueName {
    QueueName::new("mail").unwrap()
}

fn item(key: &str) -> ItemRef {
    ItemRef::parse("mail", key).unwrap()
}
