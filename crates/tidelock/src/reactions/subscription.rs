//! Which events a reaction follows, where each of them goes, and how failures are met.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidelock_store::{EventType, LaneName, Priority, Store, StoredEvent};

use super::options::Options;
use super::route::Route;
use super::{Backoff, Input, IntoTarget, OnExhausted, StartFrom};
use crate::event::Event as Typed;
use crate::recorded::Recorded;

/// Every event that is an `E`, from whatever stream.
pub fn on<E: Typed>() -> Subscription<Recorded<E>> {
    Subscription::new()
}

/// Every event, as the store has it.
pub fn on_any() -> Subscription<StoredEvent> {
    Subscription::new()
}

/// What a reaction follows. Made by [`on`] or [`on_any`], and refined from there.
#[derive(Clone)]
pub struct Subscription<I> {
    pub(crate) types: Vec<EventType>,
    pub(crate) streams: String,
    pub(crate) route: Route,
    pub(crate) options: Options,
    /// A problem with an option, told when the app is built.
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

    /// The same, to a target computed from the event: a name, no name (the event is skipped), or a
    /// failure. A failure, or a panic, holds back this event alone, where operators see it.
    ///
    /// The function must not look at anything but the event: it may be called more than once.
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

    /// The same, from streams whose names begin with this only.
    #[must_use]
    pub fn in_streams(mut self, prefix: impl Into<String>) -> Self {
        self.streams = prefix.into();
        self
    }

    /// The same, of these types only.
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

    /// The same; if the reaction is new, it begins with the next event and not with the first.
    #[must_use]
    pub fn from_now(mut self) -> Self {
        self.options.start = StartFrom::Now;
        self
    }

    /// The same, with this many retries of a failure before it counts as lasting. The default is 5.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// The same, with these waits between retries.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// The same, and this is what becomes of a target whose retries are used up. By default it is
    /// blocked.
    #[must_use]
    pub fn exhausted(mut self, exhausted: OnExhausted) -> Self {
        self.options.exhausted = exhausted;
        self
    }

    /// The same, leased for this long at a time; renewed while the handler works. The default is 30
    /// seconds.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// The same, with this much time for one call of the handler: for an event, or a batch. A call
    /// that takes longer is dropped where it waits, and counts as a failure: nothing that it staged
    /// is written, it is retried like any other, and its slot is free. A handler that blocks its
    /// thread cannot be dropped: its lease is renewed no more and runs out, which
    /// [`expiries`](Self::max_crashes) counts. The default is [five
    /// minutes](crate::worker::TIMEOUT).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if timeout.is_zero() {
            self.problem = Some("a timeout of zero leaves no time for its handler".to_owned());
        }
        self.options.timeout = timeout;
        self
    }

    /// The same, blocked after this many leases ran out without progress. The default is 3.
    #[must_use]
    pub fn max_crashes(mut self, budget: u32) -> Self {
        self.options.expiries = budget;
        self
    }

    /// The same, in this lane, for workers that serve it alone.
    #[must_use]
    pub fn lane(mut self, lane: &str) -> Self {
        match LaneName::new(lane) {
            Ok(lane) => self.options.lane = Some(lane),
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    /// The same; its new targets have this priority, from -100 to 100.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        match Priority::new(priority) {
            Ok(priority) => self.options.priority = priority,
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    /// The same, with this many targets at once in each process at most.
    #[must_use]
    pub fn max_concurrency(mut self, targets: usize) -> Self {
        self.options.limit = Some(targets);
        self
    }

    /// The same, with at most this many events of a target for one lease. The default is 100.
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
        f.debug_struct("Source")
            .field("types", &self.types)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
