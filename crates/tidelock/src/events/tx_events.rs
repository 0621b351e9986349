//! Decisions, reads and appends as parts of a unit of work.

use std::fmt::{Debug, Display};
use std::sync::Arc;

use futures_util::FutureExt;
use tidelock_store::{Commit, ExpectedVersion, Guard, NewEvent, StreamName};

use super::{Aggregate, AggregateRef, ExecuteError, IntoEvents, Loaded};
use crate::error::Result;
use crate::event_draft::IntoNewEvents;
use crate::handler_error::HandlerError;
use crate::metadata::Metadata;
use crate::staging::{Decision, Tx, twice};

impl Tx {
    /// Decides on the current state of an aggregate, and stages the events. On a conflict the
    /// decision is taken again, without the closure or handler.
    ///
    /// One decision for each aggregate: staged events are not visible to a second one.
    ///
    /// # Errors
    /// [`Refused`](ExecuteError::Refused) with the decision's own reason; the errors of
    /// [`AggregateRef::execute`]; `Invalid` for a second decision about the aggregate.
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
    /// stock.append(StockEvent::Received { units: 3 }).await?;
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let reserve = |stock: &Stock| match stock.left {
    ///             2.. => Ok(StockEvent::Reserved { units: 2 }),
    ///             left => Err(format!("only {left} left")),
    ///         };
    ///         tx.execute(&stock, reserve).await?;
    ///         tx.put("orders/7", &2)
    ///     })
    ///     .await?;
    /// assert_eq!(stock.load().await?.state.left, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn execute<A, D, X>(
        &self,
        aggregate: &AggregateRef<A>,
        decide: impl Fn(&A) -> Result<D, X> + Send + Sync + 'static,
    ) -> Result<(), ExecuteError<X>>
    where
        A: Aggregate,
        D: IntoEvents<A::Event> + Send + 'static,
        X: Display + Debug + Send + Sync + 'static,
    {
        self.check_store(aggregate.tidelock())?;
        let stream = aggregate.stream()?;
        if self.staged(|staged| staged.decides_on(stream))? {
            return Err(twice("stream", stream).into());
        }
        let decide = Arc::new(decide);
        // The trace of this call, also when the decision is taken again.
        let decision = aggregate.decision().metadata(self.metadata().traced().into_owned());
        let first = match decision.clone().propose_guarded(&*decide).await {
            Ok(parts) => parts,
            Err((error, guards)) => {
                self.pin(guards)?;
                return Err(error);
            }
        };
        let again = move || {
            let (decision, decide) = (decision.clone(), decide.clone());
            async move {
                let proposed = decision.propose_guarded(&*decide).await;
                proposed.map_err(|(error, _)| HandlerError::again(error.to_string()))
            }
            .boxed()
        };
        let decided = aggregate.clone();
        let follow = move |parts: &Commit| {
            let (decided, parts) = (decided.clone(), parts.clone());
            async move { decided.write_snapshot_after(&parts).await }.boxed()
        };
        let decision = Decision::taken(Box::new(again), first).followed_by(Box::new(follow));
        let is_first = self.staged(|staged| {
            let is_first = !staged.decides_on(stream);
            if is_first {
                staged.decisions.push(decision);
            }
            is_first
        })?;
        // A concurrent call may have decided about the aggregate meanwhile.
        if is_first { Ok(()) } else { Err(twice("stream", stream).into()) }
    }

    /// Loads an aggregate as it is in the store, and stages a guard on its version. Events that
    /// this unit of work stages are not part of the state.
    ///
    /// # Errors
    /// Those of [`AggregateRef::load`].
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
    /// let report = tidelock.transact(async |tx: Tx| -> tidelock::Result<i64> {
    ///     let left = tx.load(&stock).await?.state.left; // the commit is refused if it changes meanwhile
    ///     tx.put("report/assam", &left)?;
    ///     Ok(left)
    /// });
    /// assert_eq!(report.await?, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn load<A: Aggregate>(&self, aggregate: &AggregateRef<A>) -> Result<Loaded<A>> {
        self.check_store(aggregate.tidelock())?;
        let (stream, loaded) = (aggregate.stream()?, aggregate.load().await?);
        let expected = loaded.version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
        self.pin([Guard::Stream { stream: stream.clone(), expected }])?;
        Ok(loaded)
    }

    /// Stages events at the end of an aggregate's stream, whatever its state.
    ///
    /// # Errors
    /// `Invalid` if an event cannot be encoded, or the name is none.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// # #[derive(Debug, Default, Clone)]
    /// # struct Stock;
    /// # #[derive(Debug, Clone, Event)]
    /// # struct Received { units: i64 }
    /// # impl Aggregate for Stock {
    /// #     const KIND: &'static str = "stock";
    /// #     type Event = Received;
    /// #     fn apply(&mut self, _: &Received) {}
    /// # }
    /// let stock = tidelock.aggregate::<Stock>("assam");
    /// let deliver = async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.append(&stock, Received { units: 3 })?;
    ///     tx.add("deliveries", 1, ..)
    /// };
    /// tidelock.transact(deliver).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn append<A: Aggregate>(
        &self,
        aggregate: &AggregateRef<A>,
        events: impl IntoEvents<A::Event>,
    ) -> Result<()> {
        self.check_store(aggregate.tidelock())?;
        self.parts(aggregate.decision().metadata(self.metadata().clone()).parts(events)?)
    }

    /// Stages events at the end of a stream, which must then be as expected. They inherit the
    /// metadata of the unit of work where they do not say otherwise.
    ///
    /// # Errors
    /// `Invalid` if the name is none, or an event cannot be stored.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// tidelock
    ///     .transact(async |tx: Tx| {
    ///         tx.append_to("order-7", ExpectedVersion::NoStream, event("placed", json!({ "units": 2 })))
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_to(
        &self,
        stream: impl AsRef<str>,
        expected: ExpectedVersion,
        events: impl IntoNewEvents,
    ) -> Result<()> {
        self.check()?;
        let stream = StreamName::new(stream.as_ref())?;
        let events = events.into_new_events()?.into_iter().map(|event| self.caused(event));
        let events: Vec<_> = events.collect();
        self.parts(Commit::new().append(&stream, expected, events))
    }

    /// Adds what the event leaves out of the metadata.
    fn caused(&self, event: NewEvent) -> NewEvent {
        let (mut metadata, inherited) = (Metadata::from_json(&event.metadata), self.metadata());
        metadata.correlation = metadata.correlation.or_else(|| inherited.correlation.clone());
        metadata.causation = metadata.causation.or(inherited.causation);
        metadata.reaction = metadata.reaction.or_else(|| inherited.reaction.clone());
        metadata.trace = metadata.trace.or_else(|| self.metadata().traced().trace.clone());
        // It was JSON before, and a few short fields do not change that.
        match metadata.to_json() {
            Ok(metadata) => event.with_metadata(metadata),
            Err(_) => event,
        }
    }
}
