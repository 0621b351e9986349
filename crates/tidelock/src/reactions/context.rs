//! What a handler can do besides its own affairs: write in the commit of its ack, and know where it
//! stands.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::sync::{Arc, MutexGuard};

use serde::Serialize;
use tidelock_store::{
    Commit, EventId, ExpectedRevision, ExpectedVersion, Guard, ItemKey, LeaseToken, NewEvent,
    RawJson, RecordKey, RecordWrite, Result, Store, StoredEvent, StreamName, Wake,
};
use tokio_util::sync::CancellationToken;

use super::{HandlerError, ReactionName};
use crate::events::{Aggregate, ExecuteError, IntoEvents};
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::runs::client::commit_target::CommitTarget;
use crate::runs::client::signal::SignalRequest;
use crate::runs::client::start::StartRequest;
use crate::runs::{RunError, RunId, SendSignal, StartRun};
use crate::staging::{Stage, Staged};
use crate::worker::LeasedTask;

/// A handler's way to the store. Whatever is staged here lands in the commit of the handler's ack,
/// or not at all.
#[derive(Debug, Clone)]
pub struct ReactionCtx {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    task: LeasedTask,
    reaction: ReactionName,
    cause: EventId,
    rebuild: bool,
    silent: bool,
    stage: Stage,
}

/// How an event came to be handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replay {
    /// It was handled before a reset.
    pub(crate) rebuild: bool,
    /// And what it did elsewhere then is not to be done again.
    pub(crate) silent: bool,
}

impl ReactionCtx {
    pub(crate) fn new(
        tidelock: &Tidelock,
        task: &LeasedTask,
        reaction: &ReactionName,
        cause: &StoredEvent,
        replay: Replay,
    ) -> Self {
        let metadata = Metadata {
            reaction: Some(reaction.to_string()),
            ..Metadata::caused_by(cause.id, &Metadata::of(cause))
        };
        let shared = Shared {
            task: task.clone(),
            reaction: reaction.clone(),
            cause: cause.id,
            rebuild: replay.rebuild,
            silent: replay.silent,
            stage: Stage::new(tidelock, metadata),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The reaction that handles.
    pub fn reaction(&self) -> &str {
        self.shared.reaction.as_str()
    }

    /// The target that the event was routed to.
    pub fn target(&self) -> &ItemKey {
        &self.shared.task.lease().item.key
    }

    /// Everything else that Tidelock can do. Writes made past this context are not part of the ack.
    pub fn tidelock(&self) -> &Tidelock {
        &self.shared.stage.tidelock
    }

    /// What events should say that this one led to: its correlation, itself as the cause, and this
    /// reaction.
    pub fn metadata(&self) -> &Metadata {
        &self.shared.stage.metadata
    }

    /// The store, for reading. Writes made past this context are not part of the ack.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.shared.task.store()
    }

    /// Proof of the lease, for a commit of one's own that must not land once the lease is lost.
    pub fn lease(&self) -> LeaseToken {
        self.shared.task.token()
    }

    /// The key for effects outside the store: the same for this reaction and this event, however
    /// often it is handled. In a batch it is that of the first event.
    pub fn effect_key(&self) -> String {
        self.effect_key_of(self.shared.cause)
    }

    /// The key for effects of this event, for handlers of batches.
    pub fn effect_key_of(&self, event: EventId) -> String {
        format!("{}:{event}", self.shared.reaction)
    }

    /// Cancelled when the lease is lost: whatever is committed from then on is refused, so stop.
    pub fn cancelled(&self) -> &CancellationToken {
        self.shared.task.lost()
    }

    /// Whether this event was handled before the target was reset.
    pub fn is_rebuild(&self) -> bool {
        self.shared.rebuild
    }

    /// Does something outside the store, under a stable key: at least once. Left out, giving
    /// nothing, for events that were handled before a reset (unless the reset asked for effects to
    /// be repeated).
    ///
    /// # Errors
    /// Whatever the effect failed with.
    pub async fn external<T, F>(
        &self,
        effect: impl FnOnce(String) -> F,
    ) -> Result<Option<T>, HandlerError>
    where
        F: Future<Output = Result<T, HandlerError>>,
    {
        match self.shared.silent {
            true => Ok(None),
            false => effect(self.effect_key()).await.map(Some),
        }
    }

    /// Stages events at the end of a stream, which must then be as expected. They inherit the
    /// correlation of the event that is handled and name it as their cause, unless they say
    /// otherwise.
    pub fn append(
        &self,
        stream: &StreamName,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = NewEvent>,
    ) {
        self.shared.stage.append(stream, expected, events);
    }

    /// Stages events at the end of a stream, whatever was appended to it meanwhile. Only for events
    /// that need no decision: a decision on an old state can sell what is not there.
    pub fn append_unchecked(
        &self,
        stream: &StreamName,
        events: impl IntoIterator<Item = NewEvent>,
    ) {
        self.append(stream, ExpectedVersion::Any, events);
    }

    /// Takes a decision on state as it is now, and stages the parts of a commit that it comes to.
    /// If somebody else is quicker, the decision is taken again, and the handler is not.
    ///
    /// # Errors
    /// Whatever the decision failed with.
    pub async fn decide<F>(
        &self,
        decide: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<(), HandlerError>
    where
        F: Future<Output = Result<Commit, HandlerError>> + Send + 'static,
    {
        self.shared.stage.decide(decide).await
    }

    /// Decides on an aggregate as it is now, and stages what was decided. If somebody else is
    /// quicker, it is decided again, and the handler is not run again; if the decision then says
    /// no, the handler is, and finds the state that made it so.
    ///
    /// One decision about each aggregate: what is staged is not yet there for a second one to see.
    ///
    /// # Errors
    /// What the decision said, or what the store did.
    pub async fn execute<A, D, X>(
        &self,
        id: &str,
        decide: impl Fn(&A) -> Result<D, X> + Clone + Send + Sync + 'static,
    ) -> Result<(), ExecuteError<X>>
    where
        A: Aggregate,
        D: IntoEvents<A::Event> + Send + 'static,
        X: Display + Debug + Send + Sync + 'static,
    {
        self.shared.stage.execute(id, decide).await
    }

    /// Stages the start of a run: it is there once the ack is. Nothing is done if it is there
    /// already, with the same input: see [`StartRun`].
    pub fn start(&self, workflow: &str, run: &str, input: &(impl Serialize + ?Sized)) -> StartRun {
        let order = StartRequest::new(workflow, run, input);
        StartRun::new(self.destination(), order).metadata(self.metadata().clone())
    }

    /// Stages a signal to a run: it is sent with the ack, once for this event and this name, even
    /// if the target is reset and the event is handled again. Several signals of one name to one
    /// run need [ids](SendSignal::id) of their own.
    pub fn signal(&self, run: &str, name: &str, payload: &(impl Serialize + ?Sized)) -> SendSignal {
        let letter = RunId::new(run)
            .map_err(RunError::from)
            .and_then(|run| SignalRequest::new(run, name, payload));
        let signal =
            SendSignal::new(self.destination(), letter.map(|letter| letter.about(self.metadata())));
        signal.id(format!("{}:{name}", self.effect_key()))
    }

    /// Stages a change to a record.
    pub fn write(&self, write: RecordWrite) {
        self.staged().commit.writes.push(write);
    }

    /// Stages the JSON of this value under a key, whatever was there.
    ///
    /// # Errors
    /// If the value cannot be stored.
    pub fn put(&self, key: &RecordKey, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.write(RecordWrite::put(key, ExpectedRevision::Any, RawJson::new(value)?));
        Ok(())
    }

    /// Stages a wake of a work item.
    pub fn wake(&self, wake: Wake) {
        self.staged().commit.wakes.push(wake);
    }

    /// Stages a guard: the ack lands only if this is still so.
    pub fn guard(&self, guard: Guard) {
        self.staged().commit.guards.push(guard);
    }

    /// What was staged, once the handler is done.
    pub(crate) fn take(&self) -> Staged {
        self.shared.stage.take()
    }

    /// For what other patterns can put into the commit of the ack.
    fn destination(&self) -> CommitTarget {
        let context = self.clone();
        let stage = Box::new(move |decision| context.staged().decisions.push(decision));
        CommitTarget::Commit(self.tidelock().clone(), stage)
    }

    pub(crate) fn task(&self) -> &LeasedTask {
        &self.shared.task
    }

    pub(crate) fn staged(&self) -> MutexGuard<'_, Staged> {
        self.shared.stage.staged()
    }
}
