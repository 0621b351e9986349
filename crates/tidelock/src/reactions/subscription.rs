//! Subscriptions: which events a reaction handles, their targets, and the retry options.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock_store::{EventType, LaneName, Position, Priority, Store, StoredEvent, Timestamp};

use super::options::Options;
use super::route::Route;
use super::{Input, IntoTarget, OnExhausted, StartFrom};
use crate::event::Event as Typed;
use crate::recorded::Recorded;
use crate::retry::{Retry, RetryLimits};

/// Subscribes to every event that is an `E`, of any stream.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock::prelude::*;
///
/// #[derive(Event)]
/// enum OrderEvent {
///     Placed { customer: String },
/// }
///
/// let tidelock = Tidelock::open("memory:").await?;
/// let app = tidelock.app().reaction("mail", on::<OrderEvent>(), |order, ctx| async move {
///     let OrderEvent::Placed { customer } = &order.event;
///     println!("mail {customer} under key {}", ctx.effect_key());
///     Ok(())
/// });
/// app.build()?;
/// # Ok(())
/// # }
/// ```
pub fn on<E: Typed>() -> Subscription<Recorded<E>> {
    Subscription::new()
}

/// Subscribes to every event, in its stored form.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use serde_json::json;
/// use tidelock::prelude::*;
/// use tidelock::store::{NewEvent, StoreExt, StreamName};
/// use tokio::sync::Notify;
///
/// let tidelock = Tidelock::open("memory:").await?;
/// let placed = NewEvent::of("placed", &json!({ "units": 2 }))?;
/// let order = StreamName::new("order-7")?;
/// tidelock.store().append(&order, ExpectedVersion::NoStream, vec![placed]).await?.committed()?;
///
/// let handled = Arc::new(Notify::new());
/// let done = handled.clone();
/// let log = move |event: tidelock::store::StoredEvent, _ctx: ReactionCtx| {
///     let done = done.clone();
///     async move {
///         println!("{} {}", event.stream, event.event_type);
///         done.notify_one();
///         Ok(())
///     }
/// };
/// let app = tidelock.app().reaction("log", on_any().in_streams("order-"), log).build()?;
/// app.run_until(handled.notified()).await?;
/// # Ok(())
/// # }
/// ```
pub fn on_any() -> Subscription<StoredEvent> {
    Subscription::new()
}

/// The events that a reaction handles. Created by [`on`] or [`on_any`].
#[derive(Clone)]
pub struct Subscription<I> {
    pub(crate) types: Vec<EventType>,
    pub(crate) streams: String,
    pub(crate) route: Route,
    pub(crate) options: Options,
    /// An invalid option, reported when the app is built.
    pub(crate) problem: Option<String>,
    input: PhantomData<fn() -> I>,
}

impl<I: Input> Subscription<I> {
    pub(crate) fn new() -> Self {
        Self {
            types: I::types(),
            streams: String::new(),
            route: Route::Own,
            options: Options::default(),
            problem: None,
            input: PhantomData,
        }
    }

    /// Routes each event to a target computed from it.
    ///
    /// The function returns a name, `None` (the event is skipped), or an error. An error or a panic
    /// affects this event only: it is retried and then blocked, where operators see it. The
    /// function may be called more than once and must depend on nothing but the event.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Event)]
    /// enum OrderEvent {
    ///     Placed { customer: String, units: u64 },
    /// }
    ///
    /// // Units per customer, over all orders.
    /// let by_customer = on::<OrderEvent>().to(|order| {
    ///     let OrderEvent::Placed { customer, .. } = &order.event;
    ///     customer.clone()
    /// });
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let app = tidelock.app().projection("units", by_customer, |sum: &mut u64, order| {
    ///     let OrderEvent::Placed { units, .. } = order.event;
    ///     *sum += units;
    /// });
    /// app.build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn to<T: IntoTarget>(mut self, target: impl Fn(&I) -> T + Send + Sync + 'static) -> Self {
        let target = Arc::new(target);
        self.route = Route::Computed(Arc::new(move |store: Arc<dyn Store>, event: StoredEvent| {
            let target = target.clone();
            async move {
                let read = I::read(&*store, vec![event]).await?;
                read.first().map_or(Ok(None), |event| target(event).into_target())
            }
            .boxed()
        }));
        self
    }

    /// Restricts to streams whose names have this prefix.
    #[must_use]
    pub fn in_streams(mut self, prefix: impl Into<String>) -> Self {
        self.streams = prefix.into();
        self
    }

    /// Restricts to these event types.
    #[must_use]
    pub fn of_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let types: Result<Vec<_>, _> =
            types.into_iter().map(|name| EventType::new(name.into())).collect();
        match types {
            Ok(types) => self.types = types,
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    /// Starts a new reaction at the next new event instead of the first stored one.
    #[must_use]
    pub fn from_now(mut self) -> Self {
        self.options.start = StartFrom::Now;
        self
    }

    /// Starts a new reaction after this position of the feed, such as one that another reaction, or
    /// another system, has reached.
    ///
    /// A position beyond the end of the feed stops the application with
    /// [`Rewound`](tidelock_store::StoreErrorKind::Rewound).
    #[must_use]
    pub fn from_position(mut self, after: Position) -> Self {
        self.options.start = StartFrom::After(after);
        self
    }

    /// Starts a new reaction at the first event that was recorded at this time or later, by the
    /// store's clock.
    ///
    /// Events of concurrent commits can be in the feed in another order than their times; of those
    /// around this moment, some can be handled that are a little older.
    #[must_use]
    pub fn from_time(mut self, moment: Timestamp) -> Self {
        self.options.start = StartFrom::Since(moment);
        self
    }

    /// Sets the retry policy of a failed call: the number of attempts and the pauses between them.
    /// The default is 6 attempts.
    ///
    /// Then [`on_exhausted`](Self::on_exhausted) decides what happens. The pause is stored, and the
    /// target's later events wait behind it. A policy with a [time limit](Retry::within) is an
    /// error of the build: the store counts the failures of a target, and not their time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tidelock::prelude::*;
    ///
    /// let backoff = Backoff::exponential(Duration::from_millis(200), Duration::from_secs(30));
    /// let source = on_any().in_streams("order-").retry(Retry::attempts(9).backoff(backoff));
    /// ```
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        if retry.time_limit().is_some() {
            self.problem =
                Some("a retry policy with a time limit; give it a number of attempts".to_owned());
        }
        self.options.retry = retry.or(RetryLimits::REACTION);
        self
    }

    /// Sets what happens to a target whose attempts are exhausted. By default it is blocked.
    #[must_use]
    pub fn on_exhausted(mut self, policy: OnExhausted) -> Self {
        self.options.on_exhausted = policy;
        self
    }

    /// Sets the lease duration. The lease is renewed while the handler runs. The default is 30
    /// seconds.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets the timeout of one call of the handler, for an event or a batch. The default is [five
    /// minutes](crate::worker::TIMEOUT).
    ///
    /// A call that takes longer is dropped at its next await and counts as a failure: nothing that
    /// it staged is written, it is retried like any other, and its slot is free. A handler that
    /// blocks its thread cannot be dropped: its lease is no longer renewed and expires, which
    /// counts towards [`max_crashes`](Self::max_crashes).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if timeout.is_zero() {
            self.problem = Some("a timeout of zero leaves no time for its handler".to_owned());
        }
        self.options.timeout = timeout;
        self
    }

    /// Sets after how many expired leases without progress a target is blocked. The default is 3.
    #[must_use]
    pub fn max_crashes(mut self, budget: u32) -> Self {
        self.options.expiries = budget;
        self
    }

    /// Assigns new targets to this lane, which selected workers serve.
    #[must_use]
    pub fn lane(mut self, lane: impl AsRef<str>) -> Self {
        match LaneName::new(lane.as_ref()) {
            Ok(lane) => self.options.lane = Some(lane),
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    /// Sets the priority of new targets, from -100 to 100.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        match Priority::new(priority) {
            Ok(priority) => self.options.priority = priority,
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    /// Sets the maximum number of targets processed concurrently in each process.
    #[must_use]
    pub fn max_concurrency(mut self, targets: usize) -> Self {
        self.options.limit = Some(targets);
        self
    }

    /// Sets the maximum number of events per lease of a target. The default is 100.
    #[must_use]
    pub fn max_events_per_lease(mut self, events: usize) -> Self {
        match events {
            1..=1000 => self.options.page = events,
            _ => self.problem = Some(format!("a page of {events} events; it has 1 to 1000")),
        }
        self
    }
}

impl<I> std::fmt::Debug for Subscription<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("types", &self.types)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
