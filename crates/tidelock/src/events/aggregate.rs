//! The aggregate trait: a state, its events, and the fold.

use super::snapshots::Snapshots;
use crate::event::Event;

/// State folded from the events of one stream.
///
/// The stream of an aggregate is named by its kind and id: `stock-sku-7`. The state before the
/// first event is the default.
///
/// ```
/// use tidelock::prelude::*;
///
/// #[derive(Default, Clone)]
/// struct Stock {
///     left: i64,
/// }
///
/// #[derive(Event)]
/// enum StockEvent {
///     Received { units: i64 },
///     Reserved { units: i64, order: String },
/// }
///
/// impl Aggregate for Stock {
///     const KIND: &'static str = "stock";
///     type Event = StockEvent;
///
///     fn apply(&mut self, event: &StockEvent) {
///         match event {
///             StockEvent::Received { units } => self.left += units,
///             StockEvent::Reserved { units, .. } => self.left -= units,
///         }
///     }
/// }
///
/// impl Stock {
///     fn reserve(&self, units: i64, order: &str) -> Result<StockEvent, String> {
///         if units > self.left {
///             return Err(format!("only {} left", self.left));
///         }
///         Ok(StockEvent::Reserved { units, order: order.to_owned() })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tidelock = Tidelock::open("memory:").await?;
/// let stock = tidelock.aggregate::<Stock>("sku-7");
/// stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 3 })).await?;
/// stock.execute(|stock| stock.reserve(2, "order-1")).await?;
/// let refused = stock.execute(|stock| stock.reserve(2, "order-2")).await.unwrap_err();
/// assert_eq!(refused.to_string(), "only 1 left");
/// assert_eq!(stock.load().await?.left, 1);
/// # Ok(())
/// # }
/// ```
pub trait Aggregate: Default + Clone + Send + Sync + 'static {
    /// Prefix of the stream names. Must not contain a `-` or start with a `~`.
    const KIND: &'static str;

    /// The events the state is folded from.
    type Event: Event;

    /// Applies an event to the state. The event has happened: there is nothing to check or to
    /// refuse.
    fn apply(&mut self, event: &Self::Event);

    /// Whether an event remains valid if it is appended after another event that its decision did
    /// not know. If that holds for all pairs, a conflict is resolved by appending the decided
    /// events behind the missed ones (rebase) instead of deciding again.
    fn commutes(ours: &Self::Event, theirs: &Self::Event) -> bool {
        let _ = (ours, theirs);
        false
    }

    /// Returns the snapshot policy: when the state is stored, so that loading does not start at the
    /// first event.
    fn snapshots() -> Snapshots<Self> {
        Snapshots::never()
    }
}
