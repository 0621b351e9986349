//! A decision on several aggregates.

use tidelock_store::{Result, StoreError};

use super::error::ExecuteError;
use super::executed::Executed;
use super::execution::Execution;
use super::options::{Options, setters};
use super::participant::{IntoDecisions, ParticipantSet};
use crate::handle::Tidelock;

/// A decision on several aggregates, committed atomically.
///
/// ```
/// # use tidelock::prelude::*;
/// # #[derive(Default, Clone)]
/// # struct Account { balance: i64 }
/// # #[derive(Event)]
/// # enum AccountEvent { PaidIn { cents: i64 }, PaidOut { cents: i64 } }
/// # impl Aggregate for Account {
/// #     const KIND: &'static str = "account";
/// #     type Event = AccountEvent;
/// #     fn apply(&mut self, event: &AccountEvent) {
/// #         match event {
/// #             AccountEvent::PaidIn { cents } => self.balance += cents,
/// #             AccountEvent::PaidOut { cents } => self.balance -= cents,
/// #         }
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let tidelock = Tidelock::open("memory:").await?;
/// let (ada, bob) = (tidelock.aggregate::<Account>("ada"), tidelock.aggregate::<Account>("bob"));
/// ada.execute(|_| Ok::<_, String>(AccountEvent::PaidIn { cents: 500 })).await?;
///
/// let transfer = |cents| {
///     move |(from, _to): (&Account, &Account)| match from.balance >= cents {
///         true => Ok((AccountEvent::PaidOut { cents }, AccountEvent::PaidIn { cents })),
///         false => Err("not enough"),
///     }
/// };
/// tidelock.decide((&ada, &bob)).execute(transfer(300)).await?;
/// let refused = tidelock.decide((&ada, &bob)).execute(transfer(300)).await.unwrap_err();
/// assert_eq!(refused.to_string(), "not enough");
/// assert_eq!((ada.load().await?.balance, bob.load().await?.balance), (200, 300));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before it is executed"]
pub struct MultiDecision<S> {
    tidelock: Tidelock,
    participants: Result<S>,
    options: Options,
}

impl<S: ParticipantSet> MultiDecision<S> {
    pub(crate) fn new(tidelock: Tidelock, participants: Result<S>) -> Self {
        Self { tidelock, participants, options: Options::default() }
    }

    setters!();

    /// Decides on the states of all aggregates and appends the resulting events in one commit.
    ///
    /// A stream without new events is still guarded: it must not have moved either. Otherwise as
    /// [`AggregateRef::execute`](crate::events::AggregateRef::execute).
    ///
    /// Returns one [`Executed`] per stream, in the order in which they were given.
    ///
    /// # Errors
    /// [`ExecuteError::Refused`] if the decision returned an error; [`ExecuteError::Store`] if no
    /// stream was given, or one of them twice; the other variants tell why nothing was appended.
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
    /// let (here, there) = (tidelock.aggregate::<Stock>("here"), tidelock.aggregate::<Stock>("there"));
    /// here.append(StockEvent::Received { units: 3 }).await?;
    /// let moved = |(here, _): (&Stock, &Stock)| match here.left {
    ///     2.. => Ok((StockEvent::Reserved { units: 2 }, StockEvent::Received { units: 2 })),
    ///     left => Err(format!("only {left} left")),
    /// };
    /// tidelock.decide((&here, &there)).execute(moved).await?;
    /// assert_eq!(there.load().await?.state.left, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn execute<D, X>(
        self,
        mut decide: impl FnMut(S::States<'_>) -> Result<D, X>,
    ) -> Result<Vec<Executed>, ExecuteError<X>>
    where
        S: IntoDecisions<D>,
    {
        let mut participants = self.participants?;
        check_streams(&mut participants)?;
        let mut execution = Execution::new(&self.tidelock, &self.options, participants)?;
        execution.execute_alone(&mut decide).await
    }
}

/// A decision needs a stream, and no stream may be given twice.
fn check_streams(participants: &mut impl ParticipantSet) -> Result<()> {
    let participants = participants.each();
    if participants.is_empty() {
        return Err(StoreError::invalid("a decision about no streams"));
    }
    for (at, one) in participants.iter().enumerate() {
        let stream = one.stream();
        if participants[..at].iter().any(|other| other.stream() == stream) {
            let twice = format!("stream {stream:?} comes twice in one decision");
            return Err(StoreError::invalid(twice));
        }
    }
    Ok(())
}
