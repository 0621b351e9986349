//! Closing the books: a finished stream is closed, archived and trimmed, and optionally continues
//! from a snapshot.
//!
//! First a tombstone is appended, after which appends are rejected, including those of reactions.
//! Then reactions handle the existing events. Then the archive receives every event, and only then
//! are the events removed. Each stage is recorded in the same commit as its effect, under a lease:
//! a call after a crash continues where the last one stopped, and two callers never close the same
//! stream concurrently.
//!
//! Start at [`AggregateRef::archive_to`].
//!
//! This module never runs a handler, and does not define what an archive is.

mod any_stream;
mod archive;
mod error;
mod keys;
mod lease;
mod record;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    AfterTrim, Append, Commit, Conflict, ExpectedRevision, ExpectedVersion, Result, Revision,
    Store, StoreExt, StoredEvent, StreamName, StreamQuery, StreamState, Version,
};
use tokio::time::Instant;

use crate::events::{Aggregate, AggregateRef};
use crate::reactions::{Unfinished, leftovers};
use lease::ClosingLease;
use record::{ClosingRecord, Plan};

pub(crate) use keys::is_closing_queue;
pub(crate) use record::UnfinishedClosing;

pub use any_stream::AnyStream;
pub use archive::{Archive, discard};
pub use error::CloseError;

/// The default time to wait for reactions.
const REACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// The default lease.
const LEASE: Duration = Duration::from_secs(15);

/// Number of attempts to append the tombstone directly behind the events that reactions have
/// handled, before it is appended behind any newer events.
const QUIET_ATTEMPTS: usize = 3;

/// Number of attempts of the last commit while its snapshot is replaced concurrently.
const ATTEMPTS: usize = 8;

/// First and maximum pause between two checks of the reactions; it doubles each time.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl<A: Aggregate> AggregateRef<A> {
    /// Starts closing the stream, or trimming its oldest events.
    ///
    /// The archive gets every event to be removed, in order, page by page, once. A page is repeated
    /// only if the process died between the archive's answer and its record. Personal data is not
    /// in the events; [`Tidelock::read`](crate::Tidelock::read) joins it. Use [`discard`] to keep
    /// nothing.
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    /// use tidelock::closing::discard;
    ///
    /// # #[derive(Default, Clone)]
    /// # struct Order;
    /// # #[derive(Event)]
    /// # enum OrderEvent { Shipped }
    /// # impl Aggregate for Order {
    /// #     const KIND: &'static str = "order";
    /// #     type Event = OrderEvent;
    /// #     fn apply(&mut self, _: &OrderEvent) {}
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let order = tidelock.aggregate::<Order>("7");
    /// order.execute(|_| Ok::<_, String>(OrderEvent::Shipped)).await?;
    ///
    /// let closed = order.archive_to(discard).close().await?;
    /// assert_eq!(closed.archived, 1);
    /// assert!(order.execute(|_| Ok::<_, String>(OrderEvent::Shipped)).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn archive_to(&self, archive: impl Archive + 'static) -> Closing<A> {
        Closing {
            target: self.clone(),
            archive: Arc::new(archive),
            reaction_timeout: REACTION_TIMEOUT,
            lease: LEASE,
            ignored: BTreeSet::new(),
        }
    }
}

/// The closing of one aggregate's stream, with its options.
#[must_use = "nothing happens before it is said what becomes of the stream"]
pub struct Closing<A: Aggregate> {
    target: AggregateRef<A>,
    archive: Arc<dyn Archive>,
    reaction_timeout: Duration,
    lease: Duration,
    ignored: BTreeSet<String>,
}

/// Result of a closing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseSummary {
    /// The stream.
    pub stream: StreamName,
    /// Events up to this version are removed.
    pub through: Version,
    /// Number of events that this call archived; an earlier, interrupted call may have archived
    /// others.
    pub archived: u64,
}

impl<A: Aggregate> Closing<A> {
    /// Sets how long to wait for reactions to handle the events, before the stream is closed and
    /// again after.
    ///
    /// Zero does not wait. Concurrent appends do not extend it. The default is 30 seconds.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.reaction_timeout = timeout;
        self
    }

    /// Sets the lease: how long the stream stays locked for other callers after a caller died.
    ///
    /// The lease is renewed during the work, so it need not be as long. The default is 15 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Ignores the unfinished work of a reaction that is no longer run.
    ///
    /// It will never handle the events that it has not handled yet.
    ///
    /// A target of it that is being rebuilt and still has to handle the removed events cannot be
    /// rebuilt without them: the target is blocked with the reason, and needs a [partial
    /// reset](crate::reactions::Reactions::reset_partial).
    pub fn ignore_reaction(mut self, reaction: impl Into<String>) -> Self {
        self.ignored.insert(reaction.into());
        self
    }

    /// Closes the stream permanently.
    ///
    /// Idempotent: a repeated call continues an interrupted closing, or finds that it is done.
    ///
    /// Concurrent appends do not delay it. First it tries to close the stream behind events that
    /// reactions have handled. If other writers are faster each time, it closes the stream behind
    /// their events, and reactions handle those before they are removed. It renews its lease while
    /// it works; the archive may take as long as it needs.
    ///
    /// # Errors
    /// See [`CloseError`]. Once the tombstone is appended the stream stays closed, whatever fails
    /// afterwards.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::closing::discard;
    /// # #[derive(Debug, Default, Clone)]
    /// # struct Stock { left: i64 }
    /// # #[derive(Debug, Clone, Event)]
    /// # enum StockEvent { Received { units: i64 }, Reserved { units: i64 } }
    /// # impl Aggregate for Stock {
    /// #     const KIND: &'static str = "stock";
    /// #     type Event = StockEvent;
    /// #     fn apply(&mut self, event: &StockEvent) {
    /// #         match event {
    /// #             StockEvent::Received { units } => self.left += units,
    /// #             StockEvent::Reserved { units } => self.left -= units,
    /// #         }
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let stock = tidelock.aggregate::<Stock>("assam");
    /// stock.append(StockEvent::Received { units: 3 }).await?;
    /// let closed = stock.archive_to(discard).close().await?;
    /// assert_eq!(closed.archived, 1);
    /// assert!(stock.append(StockEvent::Received { units: 1 }).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(self) -> Result<CloseSummary, CloseError> {
        self.work(Plan::StayClosed).await
    }

    /// Closes the stream and opens it again: empty, at the same version and with the same state,
    /// which is kept in a snapshot.
    ///
    /// # Errors
    /// [`NoSnapshot`](CloseError::NoSnapshot) if the aggregate has no snapshots; otherwise as
    /// [`close`](Self::close).
    pub async fn restart(self) -> Result<CloseSummary, CloseError> {
        self.work(Plan::Restart).await
    }

    /// Removes all but the newest events, after writing a snapshot of the state.
    ///
    /// The stream stays open throughout.
    ///
    /// # Errors
    /// As [`restart`](Self::restart).
    pub async fn keep_last(self, events: u64) -> Result<CloseSummary, CloseError> {
        self.work(Plan::Window { keep: events }).await
    }

    async fn work(self, plan: Plan) -> Result<CloseSummary, CloseError> {
        let stream = self.target.stream()?;
        if plan.goes_on() && !A::snapshots().are_enabled() {
            return Err(CloseError::NoSnapshot { stream: stream.clone() });
        }
        let lease = ClosingLease::acquire(self.store(), stream, self.lease).await?;
        let done = lease.renew_during(self.work_leased(&lease, plan)).await;
        lease.release().await;
        done?
    }

    async fn work_leased(
        &self,
        lease: &ClosingLease<'_>,
        plan: Plan,
    ) -> Result<CloseSummary, CloseError> {
        let Some(mut record) = self.open(lease, plan).await? else {
            let through = self.version_of_closed(lease.stream).await?;
            leftovers::forget_cursors(self.store(), lease.stream).await?;
            return Ok(CloseSummary { stream: lease.stream.clone(), through, archived: 0 });
        };
        self.wait_for_reactions(lease.stream, record.through, self.deadline()).await?;
        let archived = self.archive_events(lease, &mut record).await?;
        self.finish(lease, &record).await?;
        if plan == Plan::StayClosed {
            leftovers::forget_cursors(self.store(), lease.stream).await?;
        }
        Ok(CloseSummary { stream: lease.stream.clone(), through: record.through, archived })
    }

    /// Returns the interrupted closing, or begins a new one; `None` if the stream was closed
    /// permanently and everything is done.
    async fn open(
        &self,
        lease: &ClosingLease<'_>,
        plan: Plan,
    ) -> Result<Option<ClosingRecord>, CloseError> {
        let deadline = self.deadline();
        let mut attempts = 0;
        loop {
            let last = ClosingRecord::find(self.store(), lease.stream).await?;
            match last {
                Some(last) if !last.done && last.plan == plan => {
                    return self.extend_to_tombstone(lease, last).await.map(Some);
                }
                Some(last) if !last.done => {
                    return Err(CloseError::OtherPlan {
                        stream: lease.stream.clone(),
                        begun: last.plan.to_string(),
                    });
                }
                Some(last) if last.plan == Plan::StayClosed => return Ok(None),
                _ => {}
            }
            let revision = last.and_then(|last| last.revision);
            let quiet = attempts < QUIET_ATTEMPTS;
            attempts += 1;
            match self.begin(lease, plan, revision, deadline, quiet).await? {
                Ok(begun) => return Ok(Some(begun)),
                Err(_) if quiet => {}
                Err(conflict) => return Err(refused(lease, conflict)),
            }
        }
    }

    /// Begins a closing, with the tombstone in the same commit: if `quiet`, directly behind the
    /// events that reactions have handled, otherwise behind all events that exist by then.
    async fn begin(
        &self,
        lease: &ClosingLease<'_>,
        plan: Plan,
        revision: Option<Revision>,
        deadline: Instant,
        quiet: bool,
    ) -> Result<Result<ClosingRecord, Conflict>, CloseError> {
        let stream = lease.stream;
        let page = self.store().read_stream(StreamQuery::backward(stream).limit(1)).await?;
        let Some(version) = page.state.version() else {
            return Err(CloseError::NoStream { stream: stream.clone() });
        };
        let Some(through) = plan.through(version, page.first) else {
            return Err(CloseError::NothingToClear { stream: stream.clone(), version });
        };
        let is_open = matches!(page.state, StreamState::Open(_));
        if !plan.shuts() && !is_open {
            return Err(CloseError::Shut { stream: stream.clone(), version });
        }
        // Everything that can be refused is refused before the stream is closed.
        self.wait_for_reactions(stream, through, deadline).await?;
        let begun_at = Some(lease.since);
        let mut record =
            ClosingRecord { plan, through, archived: None, begun_at, done: false, revision };
        let mut commit = lease.record_commit(&record)?;
        if plan.shuts() && is_open {
            let expected =
                if quiet { ExpectedVersion::Exact(version) } else { ExpectedVersion::Exists };
            commit = commit.with_append(Append::closing(stream, expected));
        }
        let committed = match lease.commit(commit).await?.committed() {
            Ok(committed) => committed,
            Err(conflict) => return Ok(Err(conflict)),
        };
        record.revision = committed.writes.first().and_then(|written| written.revision);
        self.extend_to_tombstone(lease, record).await.map(Ok)
    }

    /// Extends the closing to the tombstone, if there is one: events may have been appended between
    /// the last read and it.
    async fn extend_to_tombstone(
        &self,
        lease: &ClosingLease<'_>,
        mut record: ClosingRecord,
    ) -> Result<ClosingRecord, CloseError> {
        let page = self.store().read_stream(StreamQuery::backward(lease.stream).limit(1)).await?;
        if let (true, StreamState::Closed(version)) = (record.plan.shuts(), page.state) {
            record.through = version;
        }
        Ok(record)
    }

    /// Returns until when to wait for reactions.
    fn deadline(&self) -> Instant {
        crate::deadline::after(self.reaction_timeout)
    }

    async fn wait_for_reactions(
        &self,
        stream: &StreamName,
        through: Version,
        deadline: Instant,
    ) -> Result<(), CloseError> {
        let (mut pause, mut first) = (BACKOFF.0, None);
        while let Some(unfinished) =
            Unfinished::find(self.store(), stream, through, &self.ignored).await?
        {
            if unfinished.is_blocked() || Instant::now() + pause > deadline {
                let unfinished = unfinished.clone().since(first.as_ref().unwrap_or(&unfinished));
                return Err(CloseError::Unfinished { stream: stream.clone(), unfinished });
            }
            first.get_or_insert(unfinished);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BACKOFF.1);
        }
        Ok(())
    }

    /// Archives the remaining events, and records it page by page.
    async fn archive_events(
        &self,
        lease: &ClosingLease<'_>,
        record: &mut ClosingRecord,
    ) -> Result<u64, CloseError> {
        let mut count = 0;
        loop {
            let events = self.next_page(lease.stream, record).await?;
            let (Some(first), Some(last)) = (events.first(), events.last()) else {
                return Ok(count);
            };
            let (from, to) = (first.version, last.version);
            count += events.len() as u64;
            self.archive.take(events).await.map_err(|source| {
                let stream = lease.stream.clone();
                CloseError::Archive { stream, from, to, source }
            })?;
            record.archived = Some(to);
            record.revision = lease.record(record).await?;
        }
    }

    async fn next_page(
        &self,
        stream: &StreamName,
        record: &ClosingRecord,
    ) -> Result<Vec<StoredEvent>> {
        let from = record.archived.map_or(Version::FIRST, |archived| archived.plus(1));
        if from > record.through {
            return Ok(Vec::new());
        }
        let mut events =
            self.store().full_page(StreamQuery::forward(stream).from(from)).await?.events;
        events.retain(|event| event.version <= record.through);
        Ok(events)
    }

    /// Removes the events and writes what replaces them, in one commit.
    async fn finish(
        &self,
        lease: &ClosingLease<'_>,
        record: &ClosingRecord,
    ) -> Result<(), CloseError> {
        let (stream, through) = (lease.stream, record.through);
        let over = ClosingRecord { done: true, ..record.clone() };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let removals = leftovers::link_removals(self.store(), stream).await?;
            let commit = removals.into_iter().fold(lease.record_commit(&over)?, Commit::wake);
            let commit = match record.plan {
                Plan::StayClosed => commit.trim(stream, through, AfterTrim::StayClosed),
                Plan::Restart => {
                    let commit = self.with_snapshot(stream, through, commit).await?;
                    commit.trim(stream, through, AfterTrim::Reopen)
                }
                Plan::Window { .. } => {
                    let commit = self.with_snapshot(stream, through, commit).await?;
                    let shut = Append::closing(stream, ExpectedVersion::Exists);
                    commit.with_append(shut).trim(stream, through, AfterTrim::Reopen)
                }
            };
            // The snapshot can have changed, because other writers store them too; a newer one is
            // as good.
            match lease.commit(commit).await?.committed() {
                Ok(_) => return Ok(()),
                Err(_) if attempts < ATTEMPTS => {}
                Err(conflict) => return Err(refused(lease, conflict)),
            }
        }
    }

    /// Adds the snapshot to a commit, unless a recent one is stored already.
    async fn with_snapshot(
        &self,
        stream: &StreamName,
        through: Version,
        commit: Commit,
    ) -> Result<Commit, CloseError> {
        let folded = self.target.fold().await?;
        if folded.personal {
            return Err(CloseError::Personal { stream: stream.clone() });
        }
        let kept = A::snapshots().write(self.store(), stream, &folded, through).await?;
        Ok(match kept {
            Some(write) => commit.write(write),
            None => {
                commit.guard_record(&crate::events::snapshot_key(stream)?, ExpectedRevision::Exists)
            }
        })
    }

    async fn version_of_closed(&self, stream: &StreamName) -> Result<Version, CloseError> {
        let head = self.store().head(stream).await?;
        head.state.version().ok_or_else(|| CloseError::NoStream { stream: stream.clone() })
    }

    fn store(&self) -> &dyn Store {
        &**self.target.tidelock().store()
    }
}

fn refused(lease: &ClosingLease<'_>, conflict: Conflict) -> CloseError {
    CloseError::Refused { stream: lease.stream.clone(), conflict }
}

impl<A: Aggregate> std::fmt::Debug for Closing<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closing")
            .field("stream", &self.target.stream())
            .field("reaction_timeout", &self.reaction_timeout)
            .finish_non_exhaustive()
    }
}
