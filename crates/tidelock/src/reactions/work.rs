//! The work on one target: read what is new, hand it to the handler, and settle.
//!
//! Events go to the handler one after another (or in batches). The first call that stages something
//! for the store ends the lease with it: the next event's handler finds it there. Calls that stage
//! nothing share one ack.

mod page;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Shared};
use futures_util::{FutureExt, TryFutureExt};
use tidelock_store::{
    Commit, ExpectedRevision, Lease, Mark, Position, RecordWrite, Result, Settlement, Store,
    StoreError, StoredEvent,
};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::context::{ReactionCtx, Replay};
use super::options::OnExhausted;
use super::reaction::Reaction;
use super::rebuild::Rebuild;
use super::recent::Recent;
use super::{EventsGone, HandlerError, keys, unrouted};
use crate::handle::Tidelock;
use crate::staging::{Landed, Staged};
use crate::telemetry;
use crate::worker::{
    LeasedTask, QueueHandler, TaskFuture, TaskOutcome, panic_message, timed_out, within,
};
use page::Page;

/// How long a target is kept by calls that stage nothing, before what they did is acked and the
/// next one may have it.
const TURN: Duration = Duration::from_secs(60);

/// The rebuilds of all items that were leased together, read in one go.
type Rebuilds = Shared<BoxFuture<'static, Result<Arc<Vec<Option<Rebuild>>>>>>;

/// A reaction at work. Clones are handles on the same.
#[derive(Debug, Clone)]
pub(crate) struct ReactionWork {
    tidelock: Tidelock,
    store: Arc<dyn Store>,
    reaction: Arc<Reaction>,
    recent: Arc<Recent>,
    /// Where the reaction began; read once, because it never changes.
    start: Arc<OnceCell<Position>>,
}

impl QueueHandler for ReactionWork {
    fn begin(&self, tasks: Vec<LeasedTask>) -> Vec<TaskFuture> {
        let rebuilds = self.clone().rebuilds(&tasks);
        let handle = |(nth, task): (usize, LeasedTask)| {
            let (reacting, rebuilds) = (self.clone(), rebuilds.clone());
            async move { reacting.work(task, nth, rebuilds).await }.boxed()
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

    /// Read after the leases were granted: a reset that comes later revokes them.
    fn rebuilds(self, tasks: &[LeasedTask]) -> Rebuilds {
        let keys =
            tasks.iter().map(|task| Rebuild::key(&self.reaction.name, &task.lease().item.key));
        let keys: Result<Vec<_>> = keys.collect();
        async move {
            let slots = self.store.get(&keys?).await?;
            Ok(Arc::new(slots.iter().map(Rebuild::read).collect::<Result<_>>()?))
        }
        .boxed()
        .shared()
    }

    async fn work(self, task: LeasedTask, nth: usize, rebuilds: Rebuilds) -> Result<TaskOutcome> {
        if keys::is_unrouted(&task.lease().item.key) {
            return unrouted::route_again(&self.store, &self.reaction, &task).await;
        }
        let rebuild = rebuilds.await?[nth].clone();
        let page = Page::read(&self, task.lease(), rebuild.as_ref()).await?;
        if let Some(gone) = self.gone(&task, rebuild.as_ref(), &page).await? {
            let error =
                format!("{gone}; to handle what is left all the same, ask for a partial reset");
            return task.settle(Settlement::block(task.token(), error)).await;
        }
        Turn { reacting: &self, begun: Instant::now(), done: task.lease().at, task, rebuild }
            .take(page)
            .await
    }

    /// What is gone of what a rebuild has still to handle: anywhere when it begins, and in its next
    /// page after that. Whatever reset the target, it is not rebuilt without it, unless that was
    /// asked for.
    ///
    /// Looked for after the page was read, so that what goes in between is found.
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

    /// Where the reaction began.
    async fn start(&self) -> Result<Position> {
        let name = &self.reaction.name;
        let read = || super::router::cursor_of(&*self.store, name).map_ok(|cursor| cursor.start);
        self.start.get_or_try_init(read).await.copied()
    }
}

/// One lease of one target.
struct Turn<'a> {
    reacting: &'a ReactionWork,
    task: LeasedTask,
    begun: Instant,
    rebuild: Option<Rebuild>,
    /// Handled up to here.
    done: Mark,
}

impl Turn<'_> {
    async fn take(mut self, mut page: Page) -> Result<TaskOutcome> {
        let batch = self.reacting.reaction.handler.batch();
        while let Some((events, mark)) = page.next_batch(batch) {
            match self.handle(events, mark).await {
                Err(failure) => return self.fail(failure).await,
                Ok(staged) if !staged.is_empty() => {
                    return self.land(staged, page.reached(mark)).await;
                }
                Ok(_) => self.done = mark,
            }
            if self.task.lost().is_cancelled() {
                return Ok(TaskOutcome::Lost);
            }
            if self.task.stopping().is_cancelled() || self.begun.elapsed() >= TURN {
                return self.ack().await;
            }
        }
        self.done = self.done.max(page.through);
        self.ack().await
    }

    /// A panic is a failure of this handler and of nothing else; so is a call that takes too long,
    /// which is dropped.
    async fn handle(&self, events: Vec<StoredEvent>, mark: Mark) -> Result<Staged, HandlerError> {
        let reaction = &self.reacting.reaction;
        let count = events.len() as u64;
        let context = ReactionCtx::new(
            &self.reacting.tidelock,
            &self.task,
            &reaction.name,
            &events[0],
            self.replay(mark),
        );
        let timeout = reaction.options.timeout;
        let handling = AssertUnwindSafe(async {
            let handled = within(timeout, reaction.handler.handle(events, context.clone())).await;
            let late = || Err(HandlerError::again(format!("the handler {}", timed_out(timeout))));
            handled.unwrap_or_else(late)
        });
        let handled = handling.catch_unwind().await.unwrap_or_else(|panic| {
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
        let settlement = Settlement::ack(self.task.token(), self.done);
        let mut commit =
            self.ending_rebuild(self.done).fold(Commit::new().settle(settlement), Commit::write);
        commit.writes.extend(self.without_row()?);
        let outcome = self.task.commit(commit).await?;
        Ok(outcome.committed().map_or(TaskOutcome::Lost, |_| TaskOutcome::Acked))
    }

    async fn land(self, mut staged: Staged, done: Mark) -> Result<TaskOutcome> {
        staged.commit.writes.extend(self.ending_rebuild(done));
        let settlement = Settlement::ack(self.task.token(), done);
        match staged.land(&self.task, settlement).await? {
            Landed::Settled(settled) => Ok(settled),
            Landed::Refused(failure) => self.fail(failure).await,
        }
    }

    /// The rebuild that this lease begins.
    fn begun_rebuild(&self) -> Option<&Rebuild> {
        self.rebuild.as_ref().filter(|_| self.task.lease().at == Mark::ZERO)
    }

    /// A row from before the reset goes with the ack that begins the rebuild, if no event has
    /// replaced it: there may be none left, or none in the first page.
    fn without_row(&self) -> Result<Option<RecordWrite>> {
        let Some(_) = self.begun_rebuild() else { return Ok(None) };
        let Reaction { name, handler, .. } = &*self.reacting.reaction;
        let row = handler.row(name, &self.task.lease().item.key)?;
        Ok(row.map(|row| RecordWrite::delete(&row, ExpectedRevision::Any)))
    }

    /// The record of a rebuild goes with the ack that completes it.
    fn ending_rebuild(&self, done: Mark) -> impl Iterator<Item = RecordWrite> + use<> {
        let over = self.rebuild.as_ref().filter(|rebuild| rebuild.ends_at(done));
        over.map(|rebuild| RecordWrite::delete(&rebuild.key, ExpectedRevision::Any)).into_iter()
    }

    /// Progress made before the failure is kept, and begins the count of failures anew.
    async fn fail(self, failure: HandlerError) -> Result<TaskOutcome> {
        let lease = self.task.lease();
        let failures = if self.done > lease.at { 0 } else { lease.failures };
        let settlement = failed(&self.reacting.reaction, &self.task, failures, &failure);
        self.task.settle(settlement.having_done(self.done)).await
    }
}

/// How a failure ends a lease, after this many earlier ones.
pub(super) fn failed(
    reaction: &Reaction,
    task: &LeasedTask,
    failures: u32,
    failure: &HandlerError,
) -> Settlement {
    let options = &reaction.options;
    let exhausted = failures >= options.retries && options.exhausted == OnExhausted::Block;
    match failure.is_retryable() && !exhausted {
        true => {
            let after = options.backoff.after(failures, fastrand::f64());
            Settlement::retry(task.token(), after, failure.to_string())
        }
        false => Settlement::block(task.token(), failure.to_string()),
    }
}

/// The store's failure, if that is what it was: then nothing is wrong with the event.
pub(super) fn store_failure(failure: &HandlerError) -> Option<&StoreError> {
    let error = failure.error().downcast_ref::<StoreError>()?;
    (error.advice() != tidelock_store::RetryAdvice::Never).then_some(error)
}
