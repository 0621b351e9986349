//! A decision on one aggregate.

use tidelock_store::{
    Commit, CommitOutcome, EventId, ExpectedVersion, Guard, Result, StoreError, Version,
};
use tracing::Instrument;

use super::aggregate::Aggregate;
use super::aggregate_ref::AggregateRef;
use super::encoded::Encoded;
use super::error::ExecuteError;
use super::executed::{Executed, Provenance};
use super::execution::{Execution, moved};
use super::into_events::IntoEvents;
use super::options::{OperationId, Options, setters};
use super::participant::Participant;
use super::submit::ensure_retry_id;
use crate::group_commit::Submit;
use crate::handle::Tidelock;
use crate::telemetry;

/// A decision on one aggregate, with its options.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is executed"]
pub struct Decision<A> {
    target: AggregateRef<A>,
    options: Options,
}

impl<A: Aggregate> Decision<A> {
    pub(crate) fn new(target: AggregateRef<A>) -> Self {
        Self { target, options: Options::default() }
    }

    setters!();

    /// Requires the aggregate to be at this version.
    ///
    /// At any other version the decision returns a [conflict](ExecuteError::Conflict) and is not
    /// retried: the caller has to load the state again.
    pub fn at_version(mut self, version: Version) -> Self {
        self.options.pinned = Some(ExpectedVersion::Exact(version));
        self
    }

    /// Requires that the aggregate does not exist yet.
    ///
    /// Otherwise the decision returns a [conflict](ExecuteError::Conflict), as for
    /// [`at_version`](Self::at_version).
    pub fn new_only(mut self) -> Self {
        self.options.pinned = Some(ExpectedVersion::NoStream);
        self
    }

    /// Sets the ids of the events to [append](Self::append), one per event.
    pub fn event_ids(mut self, ids: impl IntoIterator<Item = EventId>) -> Self {
        self.options.event_ids = ids.into_iter().collect();
        self
    }

    /// Decides and appends the resulting events: see [`AggregateRef::execute`].
    ///
    /// # Errors
    /// [`ExecuteError::Refused`] if the decision returned an error; the other variants tell why
    /// nothing was appended.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
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
    /// let receive = |_: &Stock| Ok::<_, String>(StockEvent::Received { units: 3 });
    /// for _ in 0..2 {
    ///     stock.decision().operation_id("delivery-42").by("ada").execute(receive).await?;
    /// }
    /// assert_eq!(stock.load().await?.state.left, 3); // received once
    /// # Ok(())
    /// # }
    /// ```
    pub async fn execute<D: IntoEvents<A::Event>, X>(
        self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Executed, ExecuteError<X>> {
        let span = telemetry::execute_span(self.target.stream()?);
        self.execution()?.execute(decide).instrument(span).await
    }

    /// Appends events without loading the state, if the stream is at the
    /// [required version](Self::at_version), if any.
    ///
    /// With [event ids](Self::event_ids) the call is idempotent: if the events exist already, it
    /// returns the original result. [Parts](Self::also) beside them make it an operation, whose id
    /// follows from theirs. As an [operation](Self::operation_id) it does load the state.
    ///
    /// # Errors
    /// [`ExecuteError::Conflict`] if the stream is not at the required version;
    /// [`ExecuteError::Store`] if the number of event ids does not match the events, or the store
    /// failed.
    pub async fn append(
        self,
        events: impl IntoEvents<A::Event>,
    ) -> Result<Executed, ExecuteError<std::convert::Infallible>> {
        let (stream, events) = (self.target.stream()?.clone(), events.into_events());
        if let Some(operation) = self.operation_of_append() {
            self.check_ids(events.len())?;
            let options = Options { operation: Some(operation), ..self.options };
            let participant = self.target.participant()?;
            return Execution::new(self.target.tidelock(), &options, participant)?
                .append(events)
                .await;
        }
        let encoded = self.encode(&events)?;
        let ids = encoded.events.iter().map(|event| event.id).collect();
        let expected = self.options.pinned.unwrap_or(ExpectedVersion::Any);
        let commit = encoded.add_to(self.options.also.clone(), &stream, expected)?;
        let committed = match self.tidelock().submit(&ensure_retry_id(commit)).await? {
            CommitOutcome::Committed(committed) => committed,
            CommitOutcome::Conflict(conflict) => {
                let (stream, conflict) = moved(&conflict, std::slice::from_ref(&stream))?;
                return Err(ExecuteError::Conflict { stream, conflict });
            }
        };
        let appended = committed.appends.iter().find(|appended| appended.stream == stream);
        let is_replayed = appended.is_some_and(|appended| appended.replayed);
        Ok(Executed {
            version: appended.map(|appended| appended.version),
            position: appended.and_then(|appended| Some(appended.positions?.1)),
            events: ids,
            attempts: 1,
            how: if is_replayed { Provenance::Replayed } else { Provenance::Decided },
            stream,
        })
    }

    /// Decides on the current state and returns the parts of the commit instead of sending it.
    ///
    /// The caller merges them into its own commit. If that commit conflicts, call this again.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn propose<D: IntoEvents<A::Event>, X>(
        self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Commit, ExecuteError<X>> {
        self.execution()?.propose(decide).await
    }

    /// Like [`propose`](Self::propose); a refusal, or a decision without effect, comes with guards
    /// on the state that it rests on.
    pub(crate) async fn propose_guarded<D: IntoEvents<A::Event>, X>(
        self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Commit, (ExecuteError<X>, Vec<Guard>)> {
        let execution = self.execution().map_err(|error| (error.into(), Vec::new()))?;
        execution.propose_guarded(decide).await
    }

    /// The parts of a commit that append these events, whatever the state.
    pub(crate) fn parts(self, events: impl IntoEvents<A::Event>) -> Result<Commit> {
        let stream = self.target.stream()?.clone();
        let encoded = self.encode(&events.into_events())?;
        encoded.add_to(self.options.also, &stream, ExpectedVersion::Any)
    }

    /// What makes the whole commit of an append happen once.
    fn operation_of_append(&self) -> Option<OperationId> {
        let Options { operation, event_ids, also, remembered, .. } = &self.options;
        let is_more = !event_ids.is_empty() && also.parts() > 0;
        let of_events = || OperationId::of_events(event_ids, *remembered);
        operation.clone().or_else(|| is_more.then(of_events))
    }

    fn encode(&self, events: &[A::Event]) -> Result<Encoded> {
        self.check_ids(events.len())?;
        let id = |nth| self.options.event_id(nth).unwrap_or_else(EventId::fresh);
        let encoded = Encoded::with_ids(events, &self.options.metadata, id);
        encoded.map_err(|e| e.about(format_args!("stream {:?}", self.target.stream())))
    }

    fn check_ids(&self, events: usize) -> Result<()> {
        let ids = self.options.event_ids.len();
        if ids == 0 || ids == events {
            return Ok(());
        }
        let error = StoreError::invalid(format!("{ids} event ids for {events} events"));
        Err(error.about(format_args!("stream {:?}", self.target.stream())))
    }

    fn execution(&self) -> Result<Execution<'_, Participant<A>>> {
        if !self.options.event_ids.is_empty() {
            return Err(StoreError::invalid(format!(
                "stream {:?}: event ids are for an append; a decision takes effect once under an operation id",
                self.target.stream()?
            )));
        }
        Execution::new(self.tidelock(), &self.options, self.target.participant()?)
    }

    fn tidelock(&self) -> &Tidelock {
        self.target.tidelock()
    }
}
