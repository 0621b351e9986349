//! The cached state of one aggregate, with its pending events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_store::{
    Commit, Committed, Conflict, ExpectedVersion, NewEvent, Position, Store, StreamName, Timestamp,
    Version, limits,
};

use super::aggregate::Aggregate;
use super::error::LoadError;
use super::folded::Folded;
use super::load::{self, Until};
use super::rebase::Recent;
use crate::group_commit::{Entry, Target, View};

/// JSON size at which a batch stops accepting decisions: well below the limit of a commit, and
/// large enough to keep any disk busy.
const BATCH_BYTES: usize = limits::COMMIT_BYTES / 8;

pub(crate) struct CachedStream<A: Aggregate> {
    /// The newest known state of the store.
    pub(super) base: Option<Folded<A>>,
    /// Another writer may have appended since: catch up before the next decision.
    stale: bool,
    /// The base with all pending events applied; computed on demand.
    speculative: Option<Arc<A>>,
    /// Decided events that are not committed yet, in order.
    pub(super) pending: VecDeque<Arc<[A::Event]>>,
    pub(super) recent: Recent<A::Event>,
}

/// State to decide on.
pub(crate) struct StreamView<A> {
    pub(super) state: Arc<A>,
    /// The version after all pending events are committed.
    pub(super) version: Option<Version>,
    /// The version known to be in the store.
    pub(super) committed: Option<Version>,
    pub(super) is_personal: bool,
}

/// The events of one caller, as decided and as encoded.
pub(crate) struct DecidedEvents<E> {
    pub(super) events: Arc<[E]>,
    pub(super) encoded: Vec<NewEvent>,
}

/// The events of one batch.
pub(crate) struct BatchEvents<E> {
    bytes: usize,
    count: usize,
    /// The encoded events, until they are sent.
    encoded: Vec<NewEvent>,
    /// The decided events, one list per caller.
    decided: Vec<Arc<[E]>>,
}

/// The result of a batch.
pub(crate) struct AppendReceipt<A> {
    /// The stream's version.
    version: Version,
    count: u64,
    /// Positions of the first and the last event.
    positions: Option<(Position, Position)>,
    /// The state to write as a snapshot, if one is due.
    snapshot: Mutex<Option<Folded<A>>>,
}

impl<A: Aggregate> Default for CachedStream<A> {
    fn default() -> Self {
        Self {
            base: None,
            stale: false,
            speculative: None,
            pending: VecDeque::new(),
            recent: Recent::default(),
        }
    }
}

impl<E> Default for BatchEvents<E> {
    fn default() -> Self {
        Self { bytes: 0, count: 0, encoded: Vec::new(), decided: Vec::new() }
    }
}

impl<A: Aggregate> Target for CachedStream<A> {
    type Key = StreamName;
    type View = StreamView<A>;
    type Change = DecidedEvents<A::Event>;
    type Changes = BatchEvents<A::Event>;
    /// Number of the batch's events up to the end of the share.
    type Share = u64;
    type Expected = ExpectedVersion;
    type Receipt = AppendReceipt<A>;

    fn view(&mut self) -> Option<StreamView<A>> {
        let base = self.base.as_ref()?;
        if self.pending.is_empty() {
            return (!self.stale).then(|| StreamView::of(base));
        }
        let speculative = self.speculative.get_or_insert_with(|| {
            let mut state = A::clone(&base.state);
            let pending = self.pending.iter().flat_map(|events| events.iter());
            pending.for_each(|event| state.apply(event));
            Arc::new(state)
        });
        let state = speculative.clone();
        Some(StreamView { state, version: self.version(), ..StreamView::of(base) })
    }

    fn expected(view: &StreamView<A>) -> ExpectedVersion {
        view.expected()
    }

    fn has_room(batch: &Self::Changes, more: &Self::Change) -> bool {
        batch.bytes < BATCH_BYTES && batch.count + more.encoded.len() <= limits::EVENTS_PER_COMMIT
    }

    fn add(&mut self, batch: &mut Self::Changes, change: Self::Change) -> u64 {
        let DecidedEvents { events, encoded } = change;
        if let Some(speculative) = &mut self.speculative {
            events.iter().for_each(|event| Arc::make_mut(speculative).apply(event));
        }
        self.pending.push_back(events.clone());
        let bytes = |event: &NewEvent| event.payload.as_str().len() + event.metadata.as_str().len();
        batch.bytes += encoded.iter().map(bytes).sum::<usize>();
        batch.count += encoded.len();
        batch.encoded.extend(encoded);
        batch.decided.push(events);
        batch.count as u64
    }

    /// An append needs no commit id: its event ids make it idempotent.
    fn seal(stream: &StreamName, expected: ExpectedVersion, batch: &mut Self::Changes) -> Commit {
        Commit::new().append(stream, expected, std::mem::take(&mut batch.encoded))
    }

    fn landed(
        state: Option<&mut Self>,
        batch: &Self::Changes,
        committed: &Committed,
    ) -> AppendReceipt<A> {
        let appended = committed.appends.first().expect("an append has a result");
        let count = batch.count as u64;
        let before = Version::new(appended.version.get() - count).ok();
        let last = appended.positions.map(|(_, last)| (last, committed.at));
        let snapshot = state.and_then(|state| state.apply_batch(before, &batch.decided, last));
        AppendReceipt {
            version: appended.version,
            count,
            positions: appended.positions,
            snapshot: Mutex::new(snapshot),
        }
    }

    fn after(receipt: &AppendReceipt<A>) -> ExpectedVersion {
        ExpectedVersion::Exact(receipt.version)
    }

    fn discard(&mut self, _: &StreamName, _: Option<&Conflict>) {
        self.pending.clear();
        self.speculative = None;
        self.stale = true;
    }

    fn invalidate(&mut self) {
        self.stale = true;
    }

    fn clear(&mut self) {
        self.base = None;
        self.stale = false;
        self.recent.clear();
    }

    fn is_worth_caching(&self) -> bool {
        self.base.is_some()
    }
}

impl<A: Aggregate> CachedStream<A> {
    /// The version after all pending events are committed.
    pub(super) fn version(&self) -> Option<Version> {
        let version = self.base.as_ref().and_then(|base| base.version);
        after(version, self.pending.iter().map(|events| events.len()).sum())
    }

    /// Caches a state that was read, unless a newer one is cached, decisions are pending, or it
    /// holds personal data. Returns whether the cached state was replaced.
    fn cache(&mut self, folded: &Folded<A>) -> bool {
        if !self.pending.is_empty() {
            return false;
        }
        if folded.personal {
            self.clear();
            return true;
        }
        let is_newer = self.base.as_ref().is_none_or(|base| base.version < folded.version);
        if is_newer {
            self.base = Some(folded.clone());
            self.stale = false;
        }
        is_newer
    }

    /// Caches a state that the turn's holder has just read, and returns the newest one.
    fn cache_fresh(&mut self, folded: &Folded<A>) -> StreamView<A> {
        self.cache(folded);
        match &self.base {
            // A newer state was in the store during this call too.
            Some(base) => {
                self.stale &= base.version != folded.version;
                StreamView::of(base)
            }
            None => StreamView::of(folded),
        }
    }

    /// Drops the base, unless decisions are pending on it. Returns whether it did.
    fn drop_base(&mut self) -> bool {
        let is_idle = self.pending.is_empty();
        if is_idle {
            self.clear();
        }
        is_idle
    }

    /// Applies a committed batch to the base. Returns the state if a snapshot is due.
    fn apply_batch(
        &mut self,
        before: Option<Version>,
        decided: &[Arc<[A::Event]>],
        last: Option<(Position, Timestamp)>,
    ) -> Option<Folded<A>> {
        let base = self.base.as_mut()?;
        // A stream can begin above version 1, if an earlier one of its name was forgotten.
        base.version = before;
        for events in decided {
            self.recent.record_ours(base.next(), events);
            base.append(events, last);
            self.pending.pop_front();
        }
        if self.pending.is_empty() {
            self.speculative = None;
        }
        A::snapshots().are_due(before, base).then(|| base.clone())
    }

    /// Applies events that a commit outside the batches appended. Returns the state if a snapshot
    /// is due.
    pub(super) fn apply_committed(
        &mut self,
        before: Option<Version>,
        events: &[A::Event],
        last: Option<(Position, Timestamp)>,
        personal: bool,
    ) -> Option<Folded<A>> {
        if personal {
            self.clear();
        }
        // A concurrent load may have applied the events already.
        let base = self.base.as_mut().filter(|base| base.version == before)?;
        base.append(events, last);
        A::snapshots().are_due(before, base).then(|| base.clone())
    }
}

impl<A: Aggregate> Entry<CachedStream<A>> {
    /// Returns the state to decide on. The caller has the turn. Reads from the store only if the
    /// state is unknown or may be stale.
    pub(super) async fn view_or_read(
        &self,
        store: &(impl Store + ?Sized),
    ) -> Result<View<CachedStream<A>>, LoadError> {
        if let Some(view) = self.view() {
            return Ok(view);
        }
        let folded = self.catch_up(store).await?;
        Ok(self.fresh_view(|state| state.cache_fresh(&folded)))
    }

    /// Loads the current state from the store.
    pub(super) async fn load(&self, store: &(impl Store + ?Sized)) -> Result<Folded<A>, LoadError> {
        let folded = self.catch_up(store).await?;
        self.replace(|state| state.cache(&folded));
        Ok(folded)
    }

    /// Reads the events after the cached state, or the whole stream.
    async fn catch_up(&self, store: &(impl Store + ?Sized)) -> Result<Folded<A>, LoadError> {
        if let Some(known) = self.with(|state| state.base.clone()) {
            let keep = |first, events| self.with(|state| state.recent.record_theirs(first, events));
            if let Some(folded) = load::fold_from(store, &self.key, known, Until::End, keep).await?
            {
                return Ok(folded);
            }
            // Trimmed, or another stream of this name: the cached state leads nowhere.
            self.replace(CachedStream::drop_base);
        }
        load::load(store, &self.key, Until::End).await
    }
}

impl<A: Aggregate> StreamView<A> {
    fn of(folded: &Folded<A>) -> Self {
        Self {
            state: folded.state.clone(),
            version: folded.version,
            committed: folded.version,
            is_personal: folded.personal,
        }
    }

    /// The version that an append decided on this state expects. A new stream must not exist.
    pub(super) fn expected(&self) -> ExpectedVersion {
        self.version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact)
    }

    /// The version after this many more events.
    pub(super) fn version_after(&self, events: usize) -> Option<Version> {
        after(self.version, events)
    }
}

impl<A> AppendReceipt<A> {
    /// Returns the version of the last event of a share.
    pub(super) fn version(&self, end: u64) -> Option<Version> {
        Version::new(self.version.get() - (self.count - end)).ok()
    }

    /// Returns the position of the last event of a share. The events of a commit usually have
    /// consecutive positions. If they do not, this is the last position of the commit, which is
    /// sufficient for waiting readers.
    pub(super) fn position(&self, end: u64) -> Option<Position> {
        let (first, last) = self.positions?;
        let without_gap = last.get() - first.get() + 1 == self.count;
        Some(if without_gap { first.plus(end - 1) } else { last })
    }

    /// Takes the state to write as a snapshot; `Some` once.
    pub(super) fn take_snapshot(&self) -> Option<Folded<A>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The version after this many more events.
fn after(version: Option<Version>, events: usize) -> Option<Version> {
    match (version, events as u64) {
        (version, 0) => version,
        (Some(version), more) => Some(version.plus(more)),
        (None, more) => Some(Version::FIRST.plus(more - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Personal;
    use crate::handle::Tidelock;
    use std::convert::Infallible;
    use tidelock_derive::Event;
    use tidelock_store::MemoryStore;

    #[derive(Debug, Default, Clone)]
    struct Club {
        members: usize,
    }

    #[derive(Debug, Event)]
    enum ClubEvent {
        Founded,
        Joined { name: Personal<String> },
    }

    impl Aggregate for Club {
        const KIND: &'static str = "club";
        type Event = ClubEvent;

        fn apply(&mut self, event: &ClubEvent) {
            if let ClubEvent::Joined { name } = event {
                self.members += usize::from(name.get().is_some());
            }
        }
    }

    async fn found(tidelock: &Tidelock, id: usize) {
        let club = tidelock.aggregate::<Club>(id.to_string());
        club.execute(|_| Ok::<_, Infallible>(ClubEvent::Founded)).await.unwrap();
    }

    fn over(capacity: usize) -> Tidelock {
        Tidelock::over(Arc::new(MemoryStore::new())).with_cache_capacity(capacity)
    }

    #[tokio::test]
    async fn the_number_of_cached_states_is_bounded_and_recently_used_ones_stay() {
        let tidelock = over(80);
        for id in 0..1_000 {
            found(&tidelock, id).await;
            found(&tidelock, 0).await;
        }
        assert!(
            (80..=80 + 10 + 64 + 1).contains(&tidelock.states().len()),
            "{}",
            tidelock.states().len()
        );
        let remembered = |id: &str| {
            let stream = StreamName::new(format!("club-{id}")).unwrap();
            tidelock
                .states()
                .entry::<CachedStream<Club>>(&stream)
                .with(|stream| stream.base.is_some())
        };
        assert!(remembered("0") && remembered("999") && !remembered("1"));
    }

    #[tokio::test]
    async fn without_capacity_an_unused_entry_is_removed() {
        let tidelock = over(0);
        found(&tidelock, 1).await;
        assert_eq!(tidelock.states().len(), 0);
        tidelock.aggregate::<Club>("1").load().await.unwrap();
        assert_eq!(tidelock.states().len(), 0);
    }

    #[tokio::test]
    async fn a_state_with_personal_data_is_not_cached() {
        let tidelock = over(80);
        let club = tidelock.aggregate::<Club>("chess");
        let join = |_: &Club| {
            Ok::<_, Infallible>(ClubEvent::Joined { name: Personal::new("ada", "Ada".to_owned()) })
        };
        found(&tidelock, 1).await;
        club.execute(join).await.unwrap();
        club.execute(join).await.unwrap();
        assert_eq!(club.load().await.unwrap().members, 2);
        assert_eq!(tidelock.states().len(), 1, "only the other one's is");
    }

    #[tokio::test]
    async fn a_cancelled_waiter_leaves_no_entry() {
        let tidelock = over(0);
        let stream = StreamName::new("club-1").unwrap();
        let entry = tidelock.states().entry::<CachedStream<Club>>(&stream);
        let turn = entry.turn(|| None).await.unwrap();
        {
            let club = tidelock.aggregate::<Club>("1");
            let waiting = std::pin::pin!(club.execute(|_| Ok::<_, Infallible>(ClubEvent::Founded)));
            assert!(futures_poll(waiting).is_pending());
        }
        drop(turn);
        found(&tidelock, 1).await;
        drop(entry);
        assert_eq!(tidelock.states().len(), 0);
        assert_eq!(tidelock.aggregate::<Club>("1").history().await.unwrap().len(), 1);
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}
