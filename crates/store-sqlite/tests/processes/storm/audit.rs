//! The audit: compares the file with everything that was reported.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidelock_store::{
    Change, Commit, CommitId, CommitOutcome, Committed, Conflict, EventId, FeedQuery, Fence,
    HeadQuery, ItemFilter, ItemQuery, ItemRef, Lease, Position, RecordKey, Store, StoreExt,
    StoredEvent, StreamName, Timestamp, ViolationKind,
};
use tidelock_store_sqlite::SqliteStore;

use super::journal::{Told, What};
use super::writer::stock;
use super::{
    COMMITS, DOOMED_LESSEES, LEASE, SHARED, STOCK, WRITERS, done_stream, item_of, shared_stream,
};

/// All reports, by subject.
#[derive(Default)]
struct Said {
    tries: HashMap<CommitId, Commit>,
    acks: HashMap<CommitId, Committed>,
    refused: HashMap<CommitId, Conflict>,
    /// By item and fence: the lease, and its holder.
    held: BTreeMap<(ItemRef, Fence), (Lease, String)>,
    /// The processes that waited to be killed or stopped while they held leases.
    holding: HashSet<String>,
    seen: Vec<StoredEvent>,
    repeated: usize,
}

pub(super) async fn audit(store: &SqliteStore, told: &[Told]) {
    let said = collect(told);
    let feed = read_feed(store).await;
    let there: HashMap<EventId, &StoredEvent> =
        feed.iter().map(|event| (event.id, event)).collect();
    assert_eq!(there.len(), feed.len(), "an event is in the feed twice");

    check_feed(store, &said, &feed).await;
    let happened = check_commits(&said, &there);
    check_records(store, &happened).await;
    check_leases(&said);
    check_work(store, &there, &said).await;
    check_replays(store, &said, feed.len()).await;

    let (bounded, late) =
        (refusals(&said, ViolationKind::Exceeded), refusals(&said, ViolationKind::LeaseLost));
    let moved = refusals(&said, ViolationKind::Moved) + refusals(&said, ViolationKind::Taken);
    let unknown = said.tries.len() - said.acks.len() - said.refused.len();
    println!(
        "{} tries: {} acknowledged, {} refused ({moved} moved, {bounded} over the bound, {late} lost leases), {unknown} unknown; \
         {} leases, {} of them taken over; {} sent twice",
        said.tries.len(),
        said.acks.len(),
        said.refused.len(),
        said.held.len(),
        said.held.values().filter(|(lease, _)| lease.expiries > 0).count(),
        said.repeated,
    );
    // A storm in which little happened proves little.
    assert!(
        said.acks.len() as u64 >= WRITERS * COMMITS,
        "{} commits were acknowledged",
        said.acks.len()
    );
    assert!(moved > 0 && bounded > 0 && late > 0 && said.repeated > 0, "there was no contention");
    assert_eq!(
        said.holding.len() as u64,
        DOOMED_LESSEES + 1,
        "a process was killed without a lease"
    );
}

fn collect(told: &[Told]) -> Said {
    let mut said = Said::default();
    for Told { who, what } in told {
        match what.clone() {
            What::Try(commit) => drop(said.tries.insert(commit.id.unwrap(), commit)),
            What::Ack(commit, committed) => {
                if let Some(first) = said.acks.insert(commit.id.unwrap(), committed.clone()) {
                    assert_eq!(
                        first, committed,
                        "the same commit, sent again, gave something else"
                    );
                    said.repeated += 1;
                }
            }
            What::Refused(commit, conflict) => {
                drop(said.refused.insert(commit.id.unwrap(), conflict));
            }
            What::Held(lease) => {
                let name = (lease.item.clone(), lease.fence);
                if let Some((_, other)) = said.held.insert(name, (lease.clone(), who.clone())) {
                    panic!("{who} and {other} were granted the same lease: {lease:?}");
                }
            }
            What::Holding => drop(said.holding.insert(who.clone())),
            What::Seen(events) => said.seen.extend(events),
        }
    }
    said
}

fn refusals(said: &Said, kind: ViolationKind) -> usize {
    said.refused.values().filter(|conflict| conflict.has(kind)).count()
}

async fn read_feed(store: &SqliteStore) -> Vec<StoredEvent> {
    let (mut events, mut after) = (Vec::new(), Position::START);
    loop {
        let page = store.read_feed(FeedQuery::after(after)).await.unwrap();
        events.extend(page.events);
        after = page.next;
        if page.at_end {
            return events;
        }
    }
}

/// LOG-2, LOG-7: positions grow, versions are contiguous, the feed is all the streams, and the
/// reader that followed it while it grew saw exactly what is there now.
async fn check_feed(store: &SqliteStore, said: &Said, feed: &[StoredEvent]) {
    assert!(feed.is_sorted_by(|one, next| one.position < next.position), "positions do not grow");
    let mut by_stream: BTreeMap<&StreamName, Vec<&StoredEvent>> = BTreeMap::new();
    for event in feed {
        by_stream.entry(&event.stream).or_default().push(event);
    }
    for (stream, events) in &by_stream {
        let versions: Vec<u64> = events.iter().map(|event| event.version.get()).collect();
        assert_eq!(
            versions,
            (1..=events.len() as u64).collect::<Vec<_>>(),
            "versions of {stream:?}"
        );
        assert!(store.read_whole_stream(stream).await.unwrap().iter().eq(events.iter().copied()));
    }
    let heads = store.heads(HeadQuery::prefix("")).await.unwrap().heads;
    assert!(
        heads.iter().map(|head| &head.stream).eq(by_stream.into_keys()),
        "a stream is not in the feed"
    );
    let positions =
        |events: &[StoredEvent]| events.iter().map(|event| event.position).collect::<Vec<_>>();
    assert_eq!(
        positions(&said.seen),
        positions(feed),
        "the reader missed something, or saw it twice"
    );
    assert_eq!(said.seen, feed, "an event changed after the reader had seen it");
}

/// COMMIT-1, COMMIT-5: what was acknowledged is there as acknowledged, what was refused is not, and
/// everything that is there was tried. Returns the commits that happened.
fn check_commits<'a>(said: &'a Said, there: &HashMap<EventId, &StoredEvent>) -> Vec<&'a Commit> {
    let mut happened = Vec::new();
    let mut explained = 0;
    for (id, commit) in &said.tries {
        let ids: Vec<EventId> =
            commit.appends.iter().flat_map(|a| &a.events).map(|e| e.id).collect();
        let found = ids.iter().filter(|id| there.contains_key(id)).count();
        assert!(
            found == 0 || found == ids.len(),
            "half of commit {id} is there: {found} of {}",
            ids.len()
        );
        assert!(
            found > 0 || !said.acks.contains_key(id),
            "commit {id} was acknowledged and is lost"
        );
        assert!(
            found == 0 || !said.refused.contains_key(id),
            "commit {id} was refused and is there"
        );
        if let Some(committed) = said.acks.get(id) {
            check_acknowledged(commit, committed, there);
        }
        explained += found;
        happened.extend((found > 0).then_some(commit));
    }
    assert_eq!(explained, there.len(), "there are events that no process wrote");
    happened
}

fn check_acknowledged(
    commit: &Commit,
    committed: &Committed,
    there: &HashMap<EventId, &StoredEvent>,
) {
    for (append, appended) in commit.appends.iter().zip(&committed.appends) {
        let events: Vec<_> = append.events.iter().map(|event| there[&event.id]).collect();
        assert!(events.iter().all(|event| event.stream == append.stream));
        let (first, last) = (events.first().unwrap(), events.last().unwrap());
        assert_eq!(appended.version, last.version);
        assert_eq!(appended.positions, Some((first.position, last.position)));
    }
}

/// REC-2, REC-4: every record was written as often as commits that happened wrote it, and the
/// counter is their sum.
async fn check_records(store: &SqliteStore, happened: &[&Commit]) {
    let mut writes: BTreeMap<&RecordKey, u64> = BTreeMap::new();
    let mut taken = 0;
    for write in happened.iter().flat_map(|commit| &commit.writes) {
        *writes.entry(&write.key).or_default() += 1;
        if let Change::Add { delta, .. } = write.change {
            taken += delta;
        }
    }
    for (key, count) in writes {
        let slot = store.get_one(key).await.unwrap();
        assert_eq!(
            slot.revision().unwrap().get(),
            count,
            "record {key:?} was written {count} times"
        );
    }
    let counter = store.get_one(&stock()).await.unwrap();
    assert_eq!(counter.live().unwrap().value.to::<i64>().unwrap(), taken);
    assert_eq!(taken, STOCK, "everything was taken, and no more");
}

/// LEASE-1, LEASE-2, LEASE-6: no lease was granted before the previous one had ended, and expired
/// ones were counted.
fn check_leases(said: &Said) {
    let ended = ends(said);
    let leases: Vec<_> = said.held.iter().collect();
    for pair in leases.windows(2) {
        let ((before, (earlier, first)), (after, (later, second))) = (pair[0], pair[1]);
        if before.0 != after.0 {
            continue;
        }
        let granted =
            Timestamp::from_micros(later.deadline.micros() - LEASE.as_micros() as i64).unwrap();
        let free = ended.get(before).copied().unwrap_or(earlier.deadline);
        assert!(
            granted >= free,
            "{second} was granted {} with fence {} at {granted}, when {first} had it until {free}",
            before.0,
            later.fence
        );
        // A fence in between means a holder that was killed before it could report.
        if !ended.contains_key(before) && later.fence == earlier.fence.plus(1) {
            assert_eq!(
                later.expiries,
                earlier.expiries + 1,
                "{second} took over {} from {first}",
                before.0
            );
            assert_eq!(later.attempts, earlier.attempts + 1);
        }
    }
    for (name, (lease, who)) in &said.held {
        let taken_over = said.held.range((name.0.clone(), name.1.plus(1))..).next();
        let taken_over = taken_over.is_some_and(|(other, _)| other.0 == name.0);
        assert!(
            ended.contains_key(name) || taken_over,
            "{who} ended and no process took over {lease:?}"
        );
    }
}

/// When leases were settled, as far as it was reported.
fn ends(said: &Said) -> HashMap<(ItemRef, Fence), Timestamp> {
    let settled = |(id, committed): (&CommitId, &Committed)| {
        let leases = said.tries[id].settlements.iter().map(|settlement| settlement.lease.clone());
        leases.map(|lease| ((lease.item, lease.fence), committed.at)).collect::<Vec<_>>()
    };
    said.acks.iter().flat_map(settled).collect()
}

/// LEASE-3, LEASE-5: all work was done, each piece once, and the pieces follow one another without
/// gap or overlap.
async fn check_work(store: &SqliteStore, there: &HashMap<EventId, &StoredEvent>, said: &Said) {
    let items = store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items;
    assert_eq!(items.len() as u64, SHARED);
    for n in 0..SHARED {
        let stream = shared_stream(n);
        let written = there.values().filter(|event| event.stream == stream).count() as u64;
        let item =
            items.iter().find(|item| item.item == item_of(&stream)).expect("its work has an item");
        assert_eq!(
            (item.at.get(), item.mark.get(), &item.holder),
            (written, written, &None),
            "{item:?}"
        );
        let (mut done, mut fence) = (0, 0);
        for event in store.read_whole_stream(&done_stream(&item.item)).await.unwrap() {
            let piece: HashMap<String, u64> = event.payload.to().unwrap();
            assert_eq!(piece["from"], done, "work of {} was done twice, or never", item.item);
            assert!(
                piece["fence"] > fence,
                "an earlier holder of {} wrote after a later one",
                item.item
            );
            (done, fence) = (piece["to"], piece["fence"]);
            let holder = said.held.get(&(item.item.clone(), Fence::new(fence).unwrap()));
            assert!(holder.is_some(), "no process held {} with fence {fence}", item.item);
        }
        assert_eq!(done, written, "work of {} is left", item.item);
    }
}

/// COMMIT-4: everything that was acknowledged, sent once more, gives the same answer and writes
/// nothing.
async fn check_replays(store: &SqliteStore, said: &Said, events: usize) {
    for (id, committed) in &said.acks {
        let again = store.commit(said.tries[id].clone()).await.unwrap();
        assert_eq!(again, CommitOutcome::Committed(committed.clone()), "commit {id}");
    }
    assert_eq!(read_feed(store).await.len(), events, "something was written twice");
}
