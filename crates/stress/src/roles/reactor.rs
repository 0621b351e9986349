//! Reactor: runs an application with two reactions to the events of work.
//!
//! A handler journals its effect, as a call to an outside system, and stages in the commit of its
//! ack that it handled the event. In between it may hold, report it, and wait: most are killed or
//! stopped there. When it is told to finish it continues until nothing is left to handle.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::reactions::{ReactionCtx, Subscription, on_any};
use tidelock::store::{NewEvent, StoreExt, StoredEvent, StreamName, WorkerName};
use tidelock::worker::{PollInterval, WorkerOptions};
use tidelock::{App, BuildError, HandlerError};
use tidelock::{ExpectedVersion, Tidelock};
use tokio::time::sleep;

use super::LOOK_AGAIN;
use super::countdown::Countdown;
use crate::broken::Flaw;
use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::pipe::{Held, Orders, Report, report};
use crate::reaction::{Handled, Reaction};
use crate::reaction_audit;
use crate::worker_spec::{Holds, WorkerSpec};

/// Maximum size of a batch.
const BATCH: usize = 8;
/// Concurrent targets.
const SLOTS: usize = 8;
/// No injected fault stops work for nearly as long; the audit reports what is left.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    holds: Holds,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (spec, caller, orders) = (spec.clone(), caller.clone(), orders.clone());
    let reactor = Arc::new(Reactor { spec, caller, orders, countdown: Countdown::of(holds) });
    let app = reactor.app(holds).map_err(|e| Bug(e.to_string()))?;
    let stopped = app.run_until(reactor.until_nothing_is_left()).await;
    match stopped.map_err(|e| Bug(format!("the application cannot run: {e}")))?.still_running {
        0 => Ok(()),
        count => Err(Bug(format!("{count} handlers did not end"))),
    }
}

struct Reactor {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    orders: Orders,
    countdown: Countdown,
}

impl Reactor {
    fn app(self: &Arc<Self>, holds: Holds) -> Result<App, BuildError> {
        let (own, gathered) = (self.clone(), self.clone());
        let name = |reaction| self.spec.space.reaction(reaction);
        let gathering = self.source().to(|event: &StoredEvent| Reaction::Gathered.target(event));
        Tidelock::over(self.caller.store.clone())
            .app()
            .worker(self.options(holds))
            .route_lease(self.spec.load.lease)
            .reaction(
                name(Reaction::Own),
                self.source(),
                move |event: StoredEvent, ctx: ReactionCtx| {
                    own.clone().handle(Reaction::Own, vec![event], ctx)
                },
            )
            .batch_reaction(
                name(Reaction::Gathered),
                gathering,
                BATCH,
                move |events: Vec<StoredEvent>, ctx: ReactionCtx| {
                    gathered.clone().handle(Reaction::Gathered, events, ctx)
                },
            )
            .build()
    }

    /// Processes are killed here, and not by an event: no event should be blocked for that.
    fn source(&self) -> Subscription<StoredEvent> {
        on_any()
            .in_streams(self.spec.space.work_prefix())
            .lease(self.spec.load.lease)
            .max_crashes(u32::MAX)
    }

    fn options(&self, holds: Holds) -> WorkerOptions {
        let name = WorkerName::new(self.spec.name.as_str()).expect("workers have short names");
        let mut options = WorkerOptions::new(name);
        options.poll_interval = PollInterval { least: LOOK_AGAIN * 2, per_queue: Duration::ZERO };
        options.max_concurrency = if holds == Holds::Alone { 1 } else { SLOTS };
        options
    }

    async fn handle(
        self: Arc<Self>,
        reaction: Reaction,
        events: Vec<StoredEvent>,
        ctx: ReactionCtx,
    ) -> Result<(), HandlerError> {
        for event in &events {
            let (event, key) = (event.id, ctx.effect_key_of(event.id));
            self.caller.note(&Entry::Effect { reaction, event, key });
        }
        let stream = self.spec.space.handled(reaction, ctx.target().as_str());
        let handled =
            events.iter().map(|event| Handled { event: event.id, fence: ctx.lease().fence });
        let handled = handled
            .map(|handled| NewEvent::of("handled", &handled))
            .collect::<Result<Vec<_>, _>>()?;
        let strayed = self.stray(&ctx, &stream, &handled).await?;
        self.hold_now_and_then(&ctx).await;
        if !strayed {
            ctx.append_to(&stream, ExpectedVersion::Any, handled)?;
        }
        Ok(())
    }

    /// With this flaw a handler writes outside the commit of its ack.
    async fn stray(
        &self,
        ctx: &ReactionCtx,
        stream: &StreamName,
        handled: &[NewEvent],
    ) -> Result<bool, HandlerError> {
        if self.spec.flaw != Some(Flaw::Strays) {
            return Ok(false);
        }
        let _ = ctx.store().append(stream, ExpectedVersion::Any, handled.to_vec()).await?;
        Ok(true)
    }

    /// Waits inside the handler. Most are killed or stopped meanwhile.
    async fn hold_now_and_then(&self, ctx: &ReactionCtx) {
        if let Some(_over) = self.countdown.over_with(1) {
            report(&Report::Holding(Held::Leases(vec![ctx.lease()])));
            self.orders.wait_to_go_on().await;
        }
    }

    async fn until_nothing_is_left(self: Arc<Self>) {
        self.orders.wait_to_finish().await;
        let (mut last, mut since) = (None, Instant::now());
        while last != Some(0) && since.elapsed() < GIVE_UP_AFTER {
            // Unknown if the store gives no answer in this time.
            let left = reaction_audit::left(&self.caller, &self.spec.space).await.ok();
            if left != last {
                (last, since) = (left, Instant::now());
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}
