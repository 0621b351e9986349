//! The work on one target: read new events, call the handler, and settle the lease.
//!
//! Events go to the handler one after another (or in batches). The first call that stages writes
//! ends the lease with a commit: the next event's handler reads these writes. Calls that stage
//! nothing share one ack.

mod beside;
mod page;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, TryFutureExt};
use tidelock_store::{
    Commit, ExpectedRevision, Lease, Mark, Position, RecordKey, RecordWrite, Result, Settlement,
    Store, StoreError, StoredEvent,
};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::Instrument;

use super::context::{ReactionCtx, Replay};
use super::options::OnExhausted;
use super::projections::Generations;
use super::reaction::Reaction;
use super::rebuild::Rebuild;
use super::recent::Recent;
use super::skip::StoredSkip;
use super::{EventsGone, keys, unrouted};
use crate::handle::Tidelock;
use crate::handler_error::HandlerError;
use crate::staging::{Landed, Staged};
use crate::telemetry;
use crate::trace_context::{Traces, scoped};
use crate::worker::{
    LeasedTask, QueueHandler, TaskFuture, TaskOutcome, panic_message, timed_out, within,
};
use beside::Beside;
use page::Page;

/// How long calls that stage nothing may keep a target before their progress is acknowledged.
const MAX_TURN: Duration = Duration::from_secs(60);

/// What is rebuilt of items that were leased together, read in one call.
type Rebuilds = Shared<BoxFuture<'static, Result<Arc<Begun>>>>;

/// The resets of such items, and the generations of the projection, if it is one.
struct Begun {
    resets: Vec<Option<Rebuild>>,
    generations: Generations,
}

/// The queue handler of a reaction's targets. Clones share the same state.
#[derive(Debug, Clone)]
pub(crate) struct ReactionWork {
    tidelock: Tidelock,
    store: Arc<dyn Store>,
    reaction: Arc<Reaction>,
    recent: Arc<Recent>,
    /// The position at which the reaction began; read once, because it never changes.
    start: Arc<OnceCell<Position>>,
}

impl QueueHandler for ReactionWork {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        let rebuilds = self.clone().rebuilds(&tasks);
        let handle = |(nth, task): (usize, LeasedTask)| {
            let (work, rebuilds) = (self.clone(), rebuilds.clone());
            async move { work.work(task, nth, rebuilds).await }.boxed()
        };
        tasks.into_iter().enumerate().map(handle).collect()
    }
}

impl ReactionWork {
    pub(crate) fn new(tidelock: &Tidelock, reaction: &Arc<Reaction>, recent: &Arc<Recent>) -> Self {
        let (tidelock, store) = (tidelock.clone(), tidelock.store().clone());
        Self {
            tidelock,
            store,
            reaction: reaction.clone(),
            recent: recent.clone(),
            start: Arc::default(),
        }
    }

    /// Read after the leases were granted: a later reset revokes them.
    fn rebuilds(self, tasks: &[LeasedTask]) -> Rebuilds {
        let keys =
            tasks.iter().map(|task| Rebuild::key(&self.reaction.name, &task.lease().item.key));
        let projection = self.reaction.handler.projection();
        let generations = projection.map(|_| Ok(keys::generations(&self.reaction.name)));
        let keys: Result<Vec<_>> = keys.chain(generations).collect();
        let leased = tasks.len();
        async move {
            let slots = self.store.get(&keys?).await?;
            let (resets, generations) = slots.split_at(leased);
            let resets = resets.iter().map(Rebuild::read).collect::<Result<_>>()?;
            let generations = generations.first().map(Generations::read).transpose()?;
            Ok(Arc::new(Begun { resets, generations: generations.unwrap_or_default() }))
        }
        .boxed()
        .shared()
    }

    async fn work(self, task: LeasedTask, nth: usize, rebuilds: Rebuilds) -> Result<TaskOutcome> {
        let begun = rebuilds.await?;
        let rebuild = begun.resets[nth].clone();
        if keys::is_unrouted(&task.lease().item.key) {
            return unrouted::route_again(&self.store, &self.reaction, &task, rebuild).await;
        }
        let mut beside = self.beside(&task, &begun.generations).await?;
        if let Some(beside) = &mut beside
            && !beside.catch_up(&task).await?
        {
            return Ok(TaskOutcome::Lost);
        }
        let stored = rebuild.as_ref().map(|rebuild| &rebuild.stored);
        let page = Page::read(&self, task.lease(), stored).await?;
        if let Some(gone) = self.gone(&task, rebuild.as_ref(), &page).await? {
            let error =
                format!("{gone}; to handle the remaining events anyway, request a partial reset");
            return task.settle(Settlement::block(task.token(), error)).await;
        }
        let (started, done) = (Instant::now(), task.lease().at);
        let row = self.row(&task, begun.generations.live)?;
        TargetTurn { work: &self, started, done, task, rebuild, row, beside }.run(page).await
    }

    /// The record that a projection folds the events of this target into.
    fn row(&self, task: &LeasedTask, generation: u32) -> Result<Option<RecordKey>> {
        let Reaction { name, handler, .. } = &*self.reaction;
        let target = task.lease().item.key.as_str();
        handler.projection().map(|_| keys::row(name.as_str(), generation, target)).transpose()
    }

    /// The next row of the target, while the projection is rebuilt.
    async fn beside(
        &self,
        task: &LeasedTask,
        generations: &Generations,
    ) -> Result<Option<Beside<'_>>> {
        match (self.reaction.handler.projection(), generations.in_progress()) {
            (Some(projection), Some(building)) => {
                Beside::begin(self, projection, task.lease(), building).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Deleted events that a rebuild still has to handle: anywhere when it begins, and in its next
    /// page after that. The target is not rebuilt without them, unless a partial reset was
    /// requested.
    ///
    /// Checked after the page was read, so that concurrent deletions are found.
    async fn gone(
        &self,
        task: &LeasedTask,
        rebuild: Option<&Rebuild>,
        page: &Page,
    ) -> Result<Option<EventsGone>> {
        let (name, Lease { at, item, .. }) = (&self.reaction.name, task.lease());
        if !rebuild.is_some_and(|rebuild| rebuild.needs_all_after(*at)) {
            return Ok(None);
        }
        if *at > Mark::ZERO {
            return Ok(page.gone.clone().map(|gone| EventsGone::of(name, &item.key, gone)));
        }
        let cursor = super::router::cursor_of(&*self.store, name).await?;
        EventsGone::find(&*self.store, name, &cursor, &item.key).await
    }

    /// The position at which the reaction began.
    async fn start(&self) -> Result<Position> {
        let name = &self.reaction.name;
        let read = || super::router::cursor_of(&*self.store, name).map_ok(|cursor| cursor.start);
        self.start.get_or_try_init(read).await.copied()
    }
}

/// One lease of one target.
struct TargetTurn<'a> {
    work: &'a ReactionWork,
    task: LeasedTask,
    started: Instant,
    rebuild: Option<Rebuild>,
    /// Events up to this mark are handled.
    done: Mark,
    /// The row, if this is a projection.
    row: Option<RecordKey>,
    /// Its next row, while the projection is rebuilt.
    beside: Option<Beside<'a>>,
}

impl TargetTurn<'_> {
    async fn run(mut self, mut page: Page) -> Result<TaskOutcome> {
        if self.skip().is_some() {
            return self.skip_first(page).await;
        }
        let batch = self.batch();
        while let Some((events, mark)) = page.next_batch(batch) {
            let count = events.len();
            match self.handle(events, mark).await {
                Err(failure) => return self.fail(failure, count).await,
                Ok(staged) if !staged.is_empty() => {
                    return self.commit_staged(staged, page.reached(mark), count).await;
                }
                Ok(_) => self.done = mark,
            }
            if self.task.lost().is_cancelled() {
                return Ok(TaskOutcome::Lost);
            }
            if self.task.stopping().is_cancelled() || self.started.elapsed() >= MAX_TURN {
                return self.ack().await;
            }
        }
        self.done = self.done.max(page.through);
        self.ack().await
    }

    /// How many events the handler gets at once: one after a failure, so that the target stops at
    /// the event that fails, and not at the batch around it.
    fn batch(&self) -> usize {
        let lease = self.task.lease();
        let is_first = lease.failures == 0 && lease.expiries == 0;
        if is_first { self.work.reaction.handler.batch() } else { 1 }
    }

    /// The decision to skip the next event.
    fn skip(&self) -> Option<&StoredSkip> {
        self.rebuild.as_ref().and_then(|rebuild| rebuild.skip(self.task.lease().at))
    }

    /// Moves the target past its next event, with the record of that, in one commit.
    async fn skip_first(mut self, mut page: Page) -> Result<TaskOutcome> {
        let next = page.next_batch(1);
        self.done = next.as_ref().map_or(page.through, |(_, mark)| page.reached(*mark));
        let (name, lease) = (&self.work.reaction.name, self.task.lease());
        let now = self.work.store.now().await?;
        let skipped = next.iter().flat_map(|(events, _)| events).zip(self.skip());
        let record = |(event, skip): (&StoredEvent, &StoredSkip)| {
            tracing::info!(reaction = %name, target = %lease.item.key, event = %event.id, "skipped");
            skip.record(name, &lease.item, event, now)
        };
        let records = skipped.map(record).collect::<Result<Vec<_>>>()?;
        self.ack_with(records).await
    }

    /// Calls the handler. A panic, or a timeout, is a failure of this call only.
    async fn handle(&self, events: Vec<StoredEvent>, mark: Mark) -> Result<Staged, HandlerError> {
        let reaction = &self.work.reaction;
        let count = events.len() as u64;
        let context = ReactionCtx::new(
            &self.work.tidelock,
            &self.task,
            &reaction.name,
            &events[0],
            self.replay(mark),
            self.row.clone(),
        );
        let _owner = context.owner();
        let traces = Traces::of(&events);
        let span = telemetry::handle_span(&reaction.name, &events, &traces);
        let timeout = reaction.options.timeout;
        let call = AssertUnwindSafe(async {
            let handled = within(timeout, reaction.handler.handle(events, context.clone())).await;
            let late = || Err(HandlerError::again(format!("the handler {}", timed_out(timeout))));
            handled.unwrap_or_else(late)
        });
        let call = scoped(traces.one().cloned(), call.catch_unwind()).instrument(span);
        let handled = call.await.unwrap_or_else(|panic| {
            Err(HandlerError::again(format!("the handler panicked: {}", panic_message(&*panic))))
        });
        metrics::counter!(telemetry::HANDLED, "reaction" => reaction.name.to_string())
            .increment(count);
        handled.map(|()| context.take())
    }

    fn replay(&self, mark: Mark) -> Replay {
        self.rebuild.as_ref().map(|rebuild| rebuild.replay(mark)).unwrap_or_default()
    }

    async fn ack(self) -> Result<TaskOutcome> {
        self.ack_with(Vec::new()).await
    }

    async fn ack_with(mut self, records: Vec<RecordWrite>) -> Result<TaskOutcome> {
        let settlement = Settlement::ack(self.task.token(), self.done);
        let mut commit = records.into_iter().fold(Commit::new().settle(settlement), Commit::write);
        commit.writes.extend(self.rebuild_after(self.done)?);
        commit.writes.extend(self.row_deletion());
        commit.writes.extend(self.beside_through(self.done).await?);
        let outcome = self.task.commit(commit).await?;
        Ok(outcome.committed().map_or(TaskOutcome::Lost, |_| TaskOutcome::Acked))
    }

    async fn commit_staged(
        mut self,
        mut staged: Staged,
        done: Mark,
        events: usize,
    ) -> Result<TaskOutcome> {
        staged.commit.writes.extend(self.rebuild_after(done)?);
        staged.commit.writes.extend(self.beside_through(done).await?);
        let settlement = Settlement::ack(self.task.token(), done);
        match staged.land(&self.task, settlement).await? {
            Landed::Settled(settled) => Ok(settled),
            Landed::Refused(failure) => self.fail(failure, events).await,
        }
    }

    /// The rebuild that this lease begins.
    fn starting_rebuild(&self) -> Option<&Rebuild> {
        self.rebuild.as_ref().filter(|_| self.task.lease().at == Mark::ZERO)
    }

    /// Deletes the row from before the reset with the ack that begins the rebuild, if no event has
    /// replaced it: there may be no event left, or none in the first page.
    fn row_deletion(&self) -> Option<RecordWrite> {
        let row = self.row.as_ref().filter(|_| self.starting_rebuild().is_some())?;
        Some(RecordWrite::delete(row, ExpectedRevision::Any))
    }

    /// Moves the next row with the ack.
    async fn beside_through(&mut self, done: Mark) -> Result<Vec<RecordWrite>> {
        match &mut self.beside {
            Some(beside) => beside.through(done).await,
            None => Ok(Vec::new()),
        }
    }

    /// Changes the record of a rebuild with the ack that completes it.
    fn rebuild_after(&self, done: Mark) -> Result<Option<RecordWrite>> {
        self.rebuild.as_ref().map_or(Ok(None), |rebuild| rebuild.after(done))
    }

    /// Keeps the progress made before the failure, which also resets the failure count. Before the
    /// target is blocked for several events, they are handled one by one.
    async fn fail(self, failure: HandlerError, events: usize) -> Result<TaskOutcome> {
        let lease = self.task.lease();
        let failures = if self.done > lease.at { 0 } else { lease.failures };
        let settlement = match events {
            0 | 1 => failed(&self.work.reaction, &self.task, failures, &failure),
            _ => retried(&self.work.reaction, &self.task, failures, &failure),
        };
        self.task.settle(settlement.having_done(self.done)).await
    }
}

/// The settlement of a failed lease, after this many earlier failures.
pub(super) fn failed(
    reaction: &Reaction,
    task: &LeasedTask,
    failures: u32,
    failure: &HandlerError,
) -> Settlement {
    let options = &reaction.options;
    let is_last = failures.saturating_add(1) >= options.retry.attempts;
    let exhausted = is_last && options.on_exhausted == OnExhausted::Block;
    match failure.is_retryable() && !exhausted {
        true => retried(reaction, task, failures, failure),
        false => Settlement::block(task.token(), failure.to_string()),
    }
}

fn retried(
    reaction: &Reaction,
    task: &LeasedTask,
    failures: u32,
    failure: &HandlerError,
) -> Settlement {
    let after = reaction.options.retry.backoff.after(failures, fastrand::f64());
    Settlement::retry(task.token(), after, failure.to_string())
}

/// The store's temporary error, if that is the cause: then nothing is wrong with the event.
pub(super) fn store_failure(failure: &HandlerError) -> Option<&StoreError> {
    let error = failure.error().downcast_ref::<StoreError>()?;
    (error.advice() != tidelock_store::RetryAdvice::Never).then_some(error)
}
