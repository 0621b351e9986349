//! [`WaitFor`]: waits until a reaction has handled an event, to read what its handler wrote.
//!
//! It polls, because a handled event is no topic of the store. With a [target](WaitFor::target) a
//! poll reads a few rows; without one, a poll for a reaction with computed targets lists them all.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{ItemKey, Position, Store, StoreExt};
use tokio::time::Instant;

use super::operators::named;
use super::router::find_cursor;
use super::unfinished::StreamEvents;
use super::{ReactionName, Reactions, Unfinished};
use crate::deadline;
use crate::error::{Error, ErrorKind, Result};

/// The time limit of a wait that sets none.
const WITHIN: Duration = Duration::from_secs(10);
/// The first pause between two polls, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// A wait for a reaction: await it.
#[must_use = "nothing is waited for before it is awaited"]
pub struct WaitFor {
    store: Arc<dyn Store>,
    reaction: String,
    position: Position,
    target: Option<String>,
    within: Duration,
}

impl Reactions {
    /// Waits until a reaction has handled the event at this position, and those before it in its
    /// stream: read your writes.
    ///
    /// An event that is not the reaction's, because of its type or stream, counts as handled. So
    /// does one that was deleted.
    ///
    /// # Errors
    /// - `NotFound` if no process has registered the reaction yet.
    /// - `Failed` if it is blocked before or at the event: an operator has to act.
    /// - `TimedOut` if it has not handled the event within ten seconds, or
    ///   [another time](WaitFor::within).
    ///
    /// # Examples
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// # #[derive(Debug, Default, Clone)]
    /// # struct Till;
    /// #[derive(Debug, Clone, Event)]
    /// struct Sold { units: i64 }
    /// # impl Aggregate for Till {
    /// #     const KIND: &'static str = "till";
    /// #     type Event = Sold;
    /// #     fn apply(&mut self, _: &Sold) {}
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let count = |units: &mut i64, sold: Recorded<Sold>| *units += sold.event.units;
    /// let app = tidelock.app().projection("sold", on::<Sold>(), count).build()?;
    /// # let (stop, stopped) = tokio::sync::oneshot::channel();
    /// # let running = tokio::spawn(async move { app.run_until(async { let _ = stopped.await; }).await });
    ///
    /// let done = tidelock.aggregate::<Till>("assam").append(Sold { units: 2 }).await?;
    /// # while tidelock.reactions().missing_reaction("sold").await?.is_some() { tokio::task::yield_now().await; }
    /// tidelock.reactions().wait_for("sold", done.position.expect("it has an event")).await?;
    /// assert_eq!(tidelock.reactions().row::<i64>("sold", "till-assam").await?, Some(2));
    /// # let _ = stop.send(());
    /// # running.await??;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_for(&self, reaction: impl AsRef<str>, position: Position) -> WaitFor {
        let (store, reaction) = (self.store().clone(), reaction.as_ref().to_owned());
        WaitFor { store, reaction, position, target: None, within: WITHIN }
    }
}

impl WaitFor {
    /// Waits for this target only. The target of an event is its stream, unless the reaction
    /// computes it.
    pub fn target(mut self, target: impl AsRef<str>) -> Self {
        self.target = Some(target.as_ref().to_owned());
        self
    }

    /// Sets the time limit.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = limit;
        self
    }

    async fn wait(self) -> Result<()> {
        let reaction = named(&self.reaction)?;
        let target = self.target.as_deref().map(ItemKey::new).transpose()?;
        let (deadline, mut pause) = (deadline::after(self.within), PAUSES.0);
        while let Some(unfinished) = self.unfinished(&reaction, target.as_ref()).await? {
            if unfinished.is_blocked() {
                return Err(Error::new(ErrorKind::Failed, unfinished.to_string()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let late = format!("not within {:?}: {unfinished}", self.within);
                return Err(Error::new(ErrorKind::TimedOut, late).retryable());
            }
            tokio::time::sleep(pause.min(left)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
        Ok(())
    }

    /// What the reaction has left to do up to the event.
    async fn unfinished(
        &self,
        reaction: &ReactionName,
        target: Option<&ItemKey>,
    ) -> Result<Option<Unfinished>> {
        let Some(cursor) = find_cursor(&*self.store, reaction).await? else {
            let unknown = format!("reaction {reaction} was never registered");
            return Err(Error::new(ErrorKind::NotFound, unknown));
        };
        let Some(event) = self.store.event_at(self.position).await? else {
            let is_routed = self.position <= cursor.position.max(cursor.start);
            let routing = || Unfinished::routing(reaction, cursor.position, self.position);
            return Ok((!is_routed).then(routing));
        };
        let events = StreamEvents {
            store: &*self.store,
            stream: &event.stream,
            through: event.version,
            position: event.position,
        };
        Ok(events.of(reaction, &cursor, target).await?)
    }
}

impl IntoFuture for WaitFor {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.wait().boxed()
    }
}

impl fmt::Debug for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WaitFor");
        shown.field("reaction", &self.reaction).field("position", &self.position);
        shown.finish_non_exhaustive()
    }
}
