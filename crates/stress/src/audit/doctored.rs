//! Positive controls (schedule 99): honest evidence in which nothing is found, and the same evidence doctored in one way after
//! another, each of which must be found.

mod runs;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock::reactions::Followed;
use tidelock::{
    Bounds, Commit, CommitId, ExpectedVersion, FeedQuery, Fence, Holder, Item, Lease, LeaseRequest,
    ManualClock, Mark, MemoryStore, NewEvent, Position, Settlement, Store, StoreExt, StoredEvent as Event,
    Timestamp, Version, Wake, When, WorkerName, Write,
};

use super::audit;
use crate::caller::Caller;
use crate::evidence::{End, Evidence};
use crate::faults::Faults;
use crate::finding::Kind;
use crate::journal::{self, Entry, Journal};
use crate::ledger::Ledger;
use crate::part::Load;
use crate::reaction::{Handled, Reaction};
use crate::roles::Drained;
use crate::space::Space;
use crate::tally::Tally;
use crate::trouble::{Told, Trouble};

const LEASE: Duration = Duration::from_secs(30);
const WORKERS: [&str; 4] = ["committer", "dead", "consumer", "follower"];
// The places of the workers in all lists of them.
const COMMITTER: usize = 0;
const DEAD: usize = 1;
const CONSUMER: usize = 2;
const FOLLOWER: usize = 3;

/// A store and workers in one process, whose time is moved by hand.
struct Little {
    store: Arc<MemoryStore>,
    clock: ManualClock,
    space: Space,
    callers: Vec<Caller>,
}

impl Little {
    fn new(folder: &std::path::Path) -> Self {
        let clock = ManualClock::at(Timestamp::from_micros(1_000_000_000).unwrap());
        let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let caller = |name: &str| {
            let journal = Arc::new(Journal::begin(&folder.join(name)).unwrap());
            Caller::new(store.clone(), journal, LEASE)
        };
        Self { callers: WORKERS.map(caller).into(), store, clock, space: Space::fresh() }
    }

    /// Two events for one stream, then one for each of two.
    async fn write(&self) {
        let caller = &self.callers[COMMITTER];
        let first = self
            .commit(&[0])
            .append(&self.space.work(0), ExpectedVersion::NoStream, [event(), event()])
            .wake(Wake::to_mark(self.space.item(0), Mark::new(2).unwrap()));
        caller.commit(&first).await.unwrap().committed().unwrap();
        self.clock.advance(LEASE);
        let late = self.commit(&[0]).append(&self.space.work(0), ExpectedVersion::NoStream, [event()]);
        assert!(caller.commit(&late).await.unwrap().conflict().is_some());
        let second = [0, 1].iter().fold(self.commit(&[0, 1]), |commit, n| {
            commit
                .append(&self.space.work(*n), ExpectedVersion::Any, [event()])
                .wake(Wake::at(self.space.item(*n), When::NOW))
        });
        self.commit_in_doubt(&second).await;
    }

    /// A commit that happens, but whose answer is not heard.
    async fn commit_in_doubt(&self, commit: &Commit) {
        let caller = &self.callers[COMMITTER];
        caller.note(&Entry::Try(commit.clone()));
        self.store.commit(commit.clone()).await.unwrap().committed().unwrap();
        let trouble = Trouble::gave_up_after(LEASE);
        caller.note(&Entry::Failed { id: commit.id.unwrap(), trouble });
        self.clock.advance(LEASE);
        caller.commit_again(commit).await.unwrap().committed().unwrap();
    }

    fn commit(&self, streams: &[u64]) -> Commit {
        let commit = Commit::new().with_id(CommitId::fresh());
        let count =
            |commit: Commit, n: &u64| commit.write(Write::add(&self.space.total(*n), 1, Bounds::NONE));
        streams.iter().fold(commit, count)
    }

    /// One worker takes an item and is late; another takes over and does everything.
    async fn drain(&self) {
        let lost = self.lease(DEAD, 1).await.pop().unwrap();
        self.clock.advance(LEASE);
        for lease in self.lease(CONSUMER, 9).await {
            assert!(self.settle(CONSUMER, &lease).await);
        }
        self.callers[DEAD].note(&Entry::Late(lost.token()));
        assert!(!self.settle(DEAD, &lost).await);
    }

    async fn lease(&self, who: usize, limit: usize) -> Vec<Lease> {
        let worker = WorkerName::new(WORKERS[who]).unwrap();
        let request = LeaseRequest::new(&self.space.queue(), &worker, LEASE, limit);
        self.callers[who].lease(&request).await.unwrap().leases
    }

    async fn settle(&self, who: usize, lease: &Lease) -> bool {
        let through = if lease.item == self.space.item(0) { 3 } else { 1 };
        let drained = Drained { after: lease.at, through: Mark::new(through).unwrap(), fence: lease.fence };
        let event = NewEvent::of("drained", &drained).unwrap();
        let commit = Commit::new()
            .with_id(CommitId::fresh())
            .append(&self.space.done_of(&lease.item), ExpectedVersion::Any, [event])
            .settle(Settlement::ack(lease.token(), drained.through));
        self.callers[who].commit(&commit).await.unwrap().committed().is_ok()
    }

    /// Every event handled by each reaction, one of them with two effects.
    async fn react(&self) {
        let page = self.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
        let work = page.events.iter().filter(|event| self.space.is_work(&event.stream));
        for (event, reaction) in work.flat_map(|event| Reaction::ALL.map(|reaction| (event, reaction))) {
            let effect =
                Entry::Effect { reaction, event: event.id, key: format!("{reaction:?} {}", event.id) };
            let first = event.version == Version::FIRST && event.stream == self.space.work(0);
            self.callers[DEAD].note(&effect);
            (first && reaction == Reaction::Own).then(|| self.callers[CONSUMER].note(&effect));
            let stream = self.space.handled(reaction, &reaction.target(event));
            let handled = Handled { event: event.id, fence: Fence::new(1).unwrap() };
            let handled = NewEvent::of("handled", &handled).unwrap();
            let appended = self.store.append(&stream, ExpectedVersion::Any, vec![handled]).await;
            appended.unwrap().committed().unwrap();
        }
    }

    async fn follow(&self) {
        let page = self.store.read_feed(FeedQuery::after(Position::START)).await.unwrap();
        self.callers[FOLLOWER].note(&Entry::Seen(page.events));
    }
}

fn event() -> NewEvent {
    NewEvent::of("written", "something").unwrap()
}

fn honest() -> Evidence {
    let folder = tempfile::tempdir().unwrap();
    let little = Little::new(folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        little.write().await;
        little.drain().await;
        little.follow().await;
        little.react().await;
        little.run().await;
        let read = |name: &str| (name.to_owned(), journal::read(&folder.path().join(name)).unwrap());
        let ends = WORKERS.map(|name| (name.to_owned(), End::Told));
        let journals = WORKERS.map(read).into();
        let (caller, space) = (&little.callers[COMMITTER], &little.space);
        let load = Load { streams: 2, reacts: true, runs: true, ..Load::default() };
        Evidence::gather(caller, space, Position::START, &load, journals, ends.into()).await.unwrap()
    })
}

/// What is found when honest evidence is doctored so.
fn found(doctor: impl FnOnce(&mut Evidence)) -> BTreeSet<Kind> {
    let mut evidence = honest();
    doctor(&mut evidence);
    let findings = audit(&evidence, &Ledger::of(&evidence.journals));
    findings.iter().map(|finding| finding.kind).collect()
}

#[track_caller]
fn assert_found(kind: Kind, doctor: impl FnOnce(&mut Evidence)) {
    let kinds = found(doctor);
    assert!(kinds.contains(&kind), "{kind:?} is not in {kinds:?}");
}

impl Evidence {
    fn entries(&mut self, who: usize) -> &mut Vec<Entry> {
        &mut self.journals[who].1
    }

    /// The last entry of this worker for which there is something to change.
    fn last<'a, T>(&'a mut self, who: usize, pick: impl Fn(&'a mut Entry) -> Option<T>) -> T {
        self.entries(who).iter_mut().rev().find_map(pick).expect("the honest history has one")
    }

    fn work(&mut self) -> &mut Vec<Event> {
        let stream = self.space.work(0);
        self.streams.get_mut(&stream).unwrap()
    }

    fn done(&mut self) -> &mut Vec<Event> {
        let stream = self.space.done_of(&self.space.item(0));
        self.streams.get_mut(&stream).unwrap()
    }

    /// What was handled at the target of a stream by itself.
    fn handled(&mut self) -> &mut Vec<Event> {
        let stream = self.space.handled(Reaction::Own, self.space.work(0).as_str());
        self.reacted.as_mut().unwrap().handled.get_mut(&stream).unwrap()
    }

    /// Adds a target that is as idle as it can be, but for this.
    fn target(&mut self, but: impl FnOnce(&mut Item)) {
        let mut item = self.items[0].clone();
        but(&mut item);
        let followed = Followed {
            reaction: Reaction::Own.name().to_owned(),
            target: item.item.key.to_string(),
            unrouted: false,
            at: item.at,
            mark: item.mark,
            attempts: item.attempts,
            failures: item.failures,
            expiries: item.expiries,
            blocked: item.blocked,
            error: item.error,
            holder: item.holder,
            due: item.due,
            hold: item.hold,
            lane: item.lane,
            priority: item.priority,
        };
        self.reacted.as_mut().unwrap().targets.push(followed);
    }

    fn remove_event(&mut self, version: u64) {
        let (stream, version) = (self.space.work(0), Version::new(version).unwrap());
        self.feed.retain(|event| event.stream != stream || event.version != version);
        self.work().retain(|event| event.version != version);
    }
}

fn acked(entry: &mut Entry) -> Option<&mut Entry> {
    matches!(entry, Entry::Acked { .. }).then_some(entry)
}

fn held(entry: &mut Entry) -> Option<&mut Entry> {
    matches!(entry, Entry::Held { .. }).then_some(entry)
}

fn taken_over(entry: &mut Entry) -> Option<(&mut Timestamp, &mut Lease)> {
    match entry {
        Entry::Held { at, lease } if lease.expiries > 0 => Some((at, lease)),
        _ => None,
    }
}

fn seen(entry: &mut Entry) -> Option<&mut Vec<Event>> {
    match entry {
        Entry::Seen(events) => Some(events),
        _ => None,
    }
}

#[test]
fn nothing_is_found_in_honest_evidence_and_everything_is_counted() {
    assert_eq!(found(|_| ()), BTreeSet::new());
    let evidence = honest();
    let handled = evidence.reacted.as_ref().unwrap().count();
    let tally = Tally::of(&Ledger::of(&evidence.journals), &evidence.journals, handled, Faults::default());
    let expected = Tally {
        acked: 4,
        refused: 2,
        refused_late: 1,
        happened: 1,
        leases: 3,
        taken_over: 1,
        drained: 4,
        handled: 8,
        ran: 1,
        repeated: 2,
        ..Tally::default()
    };
    assert_eq!(tally, expected);
}

#[test]
fn an_acknowledged_commit_that_is_not_there_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let id = CommitId::fresh();
        let commit =
            Commit::new().with_id(id).append(&evidence.space.work(0), ExpectedVersion::Any, [event()]);
        let ack = evidence.last(COMMITTER, acked);
        let Entry::Acked { committed, .. } = ack.clone() else { unreachable!() };
        evidence.entries(COMMITTER).extend([Entry::Try(commit), Entry::Acked { id, committed }]);
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::LostCommit]));
}

#[test]
fn half_a_commit_is_found() {
    assert_found(Kind::HalfCommit, |evidence| evidence.remove_event(1));
}

#[test]
fn a_gap_in_the_versions_is_found() {
    assert_found(Kind::Gap, |evidence| evidence.remove_event(2));
}

#[test]
fn a_commit_that_was_refused_and_is_there_is_found() {
    assert_found(Kind::WrittenThoughRefused, |evidence| {
        let ack = evidence.last(COMMITTER, acked);
        let Entry::Acked { id, .. } = ack.clone() else { unreachable!() };
        *ack = Entry::Refused { id, kinds: Vec::new(), why: String::new() };
    });
}

#[test]
fn two_answers_to_one_commit_are_found() {
    assert_found(Kind::Contradiction, |evidence| {
        let mut second = evidence.entries(COMMITTER).clone();
        second.retain(|entry| matches!(entry, Entry::Acked { .. }));
        for ack in &mut second {
            let Entry::Acked { committed, .. } = ack else { unreachable!() };
            committed.at = committed.at.plus(LEASE);
        }
        evidence.entries(COMMITTER).append(&mut second);
    });
}

#[test]
fn an_answer_that_says_another_place_is_found() {
    assert_found(Kind::Contradiction, |evidence| {
        let version = evidence.last(COMMITTER, |entry| match entry {
            Entry::Acked { committed, .. } => Some(&mut committed.appends[0].version),
            _ => None,
        });
        *version = version.plus(1);
    });
}

#[test]
fn an_error_that_said_that_nothing_was_written_and_was_wrong_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let trouble = evidence.last(COMMITTER, |entry| match entry {
            Entry::Failed { trouble, .. } => Some(trouble),
            _ => None,
        });
        trouble.advice = Told::Later;
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::BrokenPromise]));
}

#[test]
fn a_commit_that_was_never_resolved_is_found() {
    assert_found(Kind::Unresolved, |evidence| {
        evidence.entries(COMMITTER).retain(|entry| !matches!(entry, Entry::Acked { .. }));
    });
}

#[test]
fn an_event_that_nobody_wrote_is_found() {
    assert_found(Kind::Unexplained, |evidence| drop(evidence.entries(COMMITTER).remove(0)));
}

#[test]
fn an_event_that_is_there_twice_is_found() {
    assert_found(Kind::DoubledEvent, |evidence| {
        let mut again = evidence.feed[0].clone();
        again.position = evidence.feed.last().unwrap().position.plus(1);
        evidence.feed.push(again);
    });
}

#[test]
fn a_feed_that_is_not_what_the_streams_are_is_found() {
    assert_found(Kind::FeedDiffers, |evidence| evidence.feed.swap(0, 1));
    assert_found(Kind::FeedDiffers, |evidence| drop(evidence.work().pop()));
}

#[test]
fn an_event_that_the_follower_never_saw_is_found() {
    let doctor = |evidence: &mut Evidence| drop(evidence.last(FOLLOWER, seen).remove(1));
    assert_eq!(found(doctor), BTreeSet::from([Kind::SkippedInFeed]));
}

#[test]
fn a_counter_that_is_not_the_sum_of_the_commits_is_found() {
    let doctor = |evidence: &mut Evidence| *evidence.totals.values_mut().next().unwrap() += 1;
    assert_eq!(found(doctor), BTreeSet::from([Kind::WrongTotal]));
}

#[test]
fn two_holders_at_once_are_found() {
    let too_early = |evidence: &mut Evidence| {
        let (at, _) = evidence.last(CONSUMER, taken_over);
        *at = Timestamp::from_micros(at.micros() - 1).unwrap();
    };
    assert_eq!(found(too_early), BTreeSet::from([Kind::Overlap]));
    let twice = |evidence: &mut Evidence| {
        let grant = evidence.last(CONSUMER, held).clone();
        evidence.entries(DEAD).push(grant);
    };
    assert_eq!(found(twice), BTreeSet::from([Kind::Overlap]));
}

#[test]
fn a_takeover_that_was_not_counted_is_found() {
    let doctor = |evidence: &mut Evidence| evidence.last(CONSUMER, taken_over).1.expiries = 0;
    assert_eq!(found(doctor), BTreeSet::from([Kind::MiscountedExpiry]));
}

#[test]
fn a_lease_that_is_stuck_is_found() {
    let held = |evidence: &mut Evidence| {
        let (worker, now) = (WorkerName::new("dead").unwrap(), Timestamp::from_micros(0).unwrap());
        evidence.items[0].holder = Some(Holder { worker, since: now, deadline: now.plus(LEASE) });
    };
    assert_eq!(found(held), BTreeSet::from([Kind::StuckLease]));
    assert_found(Kind::StuckLease, |evidence| {
        evidence.entries(CONSUMER).retain(|entry| !matches!(entry, Entry::Acked { .. }));
    });
}

#[test]
fn an_event_that_was_not_drained_is_found() {
    assert_found(Kind::Undrained, |evidence| drop(evidence.done().pop()));
    let unfinished = |evidence: &mut Evidence| evidence.items[0].at = Mark::new(2).unwrap();
    assert_eq!(found(unfinished), BTreeSet::from([Kind::Undrained]));
    let unattended = |evidence: &mut Evidence| drop(evidence.items.pop());
    assert_eq!(found(unattended), BTreeSet::from([Kind::Undrained]));
}

#[test]
fn an_event_that_was_drained_twice_is_found() {
    assert_found(Kind::DrainedTwice, |evidence| {
        let again = evidence.done()[0].clone();
        evidence.done().push(again);
    });
}

#[test]
fn an_event_that_a_reaction_did_not_handle_is_found() {
    let doctor = |evidence: &mut Evidence| drop(evidence.handled().pop());
    assert_eq!(found(doctor), BTreeSet::from([Kind::Unhandled]));
    let nowhere = |evidence: &mut Evidence| evidence.reacted.as_mut().unwrap().handled.clear();
    assert_eq!(found(nowhere), BTreeSet::from([Kind::Unhandled]));
}

#[test]
fn an_event_that_a_reaction_handled_twice_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let again = evidence.handled().last().unwrap().clone();
        evidence.handled().push(again);
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::HandledTwice]));
}

#[test]
fn events_that_were_handled_out_of_order_are_found() {
    let doctor = |evidence: &mut Evidence| evidence.handled().swap(0, 1);
    assert_eq!(found(doctor), BTreeSet::from([Kind::OutOfOrder]));
}

#[test]
fn an_event_that_was_handled_at_the_wrong_target_is_found() {
    assert_found(Kind::Unexplained, |evidence| {
        let (stray, other) = (evidence.handled().pop().unwrap(), evidence.space.work(1));
        let stream = evidence.space.handled(Reaction::Own, other.as_str());
        evidence.reacted.as_mut().unwrap().handled.get_mut(&stream).unwrap().push(stray);
    });
}

#[test]
fn an_effect_that_is_missing_or_has_another_key_is_found() {
    let missing = |evidence: &mut Evidence| {
        let is_effect = |entry: &Entry| matches!(entry, Entry::Effect { .. });
        let last = evidence.entries(DEAD).iter().rposition(is_effect).unwrap();
        evidence.entries(DEAD).remove(last);
    };
    assert_eq!(found(missing), BTreeSet::from([Kind::WrongEffect]));
    let renamed = |evidence: &mut Evidence| {
        let key = evidence.last(CONSUMER, |entry| match entry {
            Entry::Effect { key, .. } => Some(key),
            _ => None,
        });
        key.push_str(" again");
    };
    assert_eq!(found(renamed), BTreeSet::from([Kind::WrongEffect]));
}

#[test]
fn a_target_that_is_blocked_or_held_or_behind_is_found() {
    assert_eq!(found(|evidence| evidence.target(|_| ())), BTreeSet::new());
    let blocked = |evidence: &mut Evidence| evidence.target(|item| item.blocked = true);
    assert_eq!(found(blocked), BTreeSet::from([Kind::Blocked]));
    let behind =
        |evidence: &mut Evidence| evidence.target(|item| item.mark = item.mark.max(Mark::new(9).unwrap()));
    assert_eq!(found(behind), BTreeSet::from([Kind::Unhandled]));
    let held = |evidence: &mut Evidence| {
        let (worker, now) = (WorkerName::new("dead").unwrap(), Timestamp::from_micros(0).unwrap());
        evidence.target(|item| item.holder = Some(Holder { worker, since: now, deadline: now.plus(LEASE) }));
    };
    assert_eq!(found(held), BTreeSet::from([Kind::StuckLease]));
}

#[test]
fn a_worker_that_ended_by_itself_is_found() {
    let doctor = |evidence: &mut Evidence| evidence.ends[0].1 = End::Failed("panicked".to_owned());
    assert_eq!(found(doctor), BTreeSet::from([Kind::WorkerFailed]));
}
