//! Runner: drives runs.
//!
//! A step journals its effect, as a call to an outside system; the transactional step counts in the
//! store. After its effect, and before that is recorded, it may hold, report it, and wait: most are
//! killed or stopped there. When the worker is told to finish it continues until no run is open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::runs::{OnUnknownOutcome, RunCtx, StepError, StepKey, WorkflowOptions};
use tidelock::store::{Bounds, Commit, LeaseToken, RecordWrite, StoreExt, WorkerName};
use tidelock::worker::{PollInterval, WorkerOptions};
use tidelock::{App, BuildError, HandlerError};
use tidelock::{Tidelock, Tx};
use tokio::time::sleep;

use super::LOOK_AGAIN;
use super::countdown::Countdown;
use crate::broken::Flaw;
use crate::caller::{Backoff, Bug, Caller};
use crate::journal::Entry;
use crate::pipe::{Held, Orders, Report, report};
use crate::run_audit;
use crate::sample_run::{CALL, COUNT, DONE, GO, NAP, SEND, THANK, UNKNOWN};
use crate::trouble::Trouble;
use crate::worker_spec::{Holds, WorkerSpec};

/// Concurrent runs.
const SLOTS: usize = 8;
/// No injected fault keeps a run from ending for nearly as long; the audit reports what is left.
const GIVE_UP_AFTER: Duration = Duration::from_secs(15);
/// A sleep during which the run stays leased,
const SHORT_NAP: Duration = Duration::from_millis(20);
/// and one for which it is suspended.
const LONG_NAP: Duration = Duration::from_millis(1_200);

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    holds: Holds,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (spec, caller, orders) = (spec.clone(), caller.clone(), orders.clone());
    let runner = Arc::new(Runner { spec, caller, orders, countdown: Countdown::of(holds) });
    let mut backoff = Backoff::new();
    loop {
        let app = runner.app(holds).map_err(|e| Bug(e.to_string()))?;
        match app.run_until(runner.clone().until_nothing_is_left()).await {
            Ok(stopped) if stopped.still_running == 0 => return Ok(()),
            Ok(stopped) => return Err(Bug(format!("{} runs did not stop", stopped.still_running))),
            // Its server may be restarting.
            Err(error) => backoff.after(&Trouble::from(error)).await?,
        }
    }
}

struct Runner {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    orders: Orders,
    countdown: Countdown,
}

impl Runner {
    fn app(self: &Arc<Self>, holds: Holds) -> Result<App, BuildError> {
        let tidelock = Tidelock::over(self.caller.store.clone());
        // Processes are killed here, and not by a run: no run should be blocked for that.
        let workflow = WorkflowOptions::named(self.spec.space.workflow())
            .lease(self.spec.load.lease)
            .max_crashes(u32::MAX);
        let runner = self.clone();
        let app = tidelock.app().worker(self.options(holds));
        app.workflow(workflow, move |ctx, (): ()| sample_run(ctx, runner.clone())).build()
    }

    fn options(&self, holds: Holds) -> WorkerOptions {
        let name = WorkerName::new(self.spec.name.as_str()).expect("workers have short names");
        let mut options = WorkerOptions::new(name);
        options.pace = PollInterval { least: LOOK_AGAIN * 2, per_queue: Duration::ZERO };
        options.slots = if holds == Holds::Alone { 1 } else { SLOTS };
        options
    }

    /// Has an outside effect.
    async fn act(&self, key: StepKey) -> Result<String, HandlerError> {
        let (run, step) = (key.run().to_string(), key.step().to_string());
        self.caller.note(&Entry::Acted { run, step, key: key.to_string() });
        self.hold_now_and_then(key.run().as_str(), key.step().as_str()).await;
        Ok(DONE.to_owned())
    }

    /// Counts in the store.
    async fn count(&self, tx: Tx) -> Result<(), HandlerError> {
        let (run, step) = tx.effect_key().rsplit_once(':').expect("it is RUN:STEP");
        let count = RecordWrite::add(&self.spec.space.counted(run), 1, Bounds::NONE);
        let strayed = self.stray(&tx, &count).await?;
        self.hold_now_and_then(run, step).await;
        if !strayed {
            tx.write(count)?;
        }
        Ok(())
    }

    /// With this flaw a step writes outside the commit of its record.
    async fn stray(&self, tx: &Tx, count: &RecordWrite) -> Result<bool, HandlerError> {
        if self.spec.flaw != Some(Flaw::Strays) {
            return Ok(false);
        }
        let _ = tx.store().commit(Commit::new().write(count.clone())).await?;
        Ok(true)
    }

    /// Waits inside the step: with a flaw, inside the one where it shows. Most are killed or
    /// stopped meanwhile.
    async fn hold_now_and_then(&self, run: &str, step: &str) {
        if self.spec.flaw == Some(Flaw::Strays) && step != COUNT {
            return;
        }
        let Some(_over) = self.countdown.over_with(1) else { return };
        if let Some(lease) = self.lease_on(run).await {
            report(&Report::Holding(Held::Leases(vec![lease])));
            self.orders.wait_to_go_on().await;
        }
    }

    /// The lease under which this worker drives a run; none if the store gives no answer, or says
    /// that it is lost.
    async fn lease_on(&self, run: &str) -> Option<LeaseToken> {
        let item = self.caller.store.item(&self.spec.space.run_item(run)).await.ok()??;
        let is_own = item.holder.is_some_and(|holder| holder.worker.as_str() == self.spec.name);
        item.fence.filter(|_| is_own).map(|fence| LeaseToken { item: item.item, fence })
    }

    async fn until_nothing_is_left(self: Arc<Self>) {
        self.orders.wait_to_finish().await;
        let (mut last, mut since) = (None, Instant::now());
        while last != Some(0) && since.elapsed() < GIVE_UP_AFTER {
            // Unknown if the store gives no answer in this time.
            let left =
                run_audit::open(&self.caller, &self.spec.space).await.ok().map(|open| open.len());
            if left != last {
                (last, since) = (left, Instant::now());
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

async fn sample_run(ctx: RunCtx, runner: Arc<Runner>) -> Result<String, StepError> {
    ctx.step(CALL, |key| runner.act(key)).await?;
    ctx.transact(COUNT, |tx| runner.count(tx)).await?;
    let send = ctx.step(SEND, |key| runner.act(key));
    let sent = send.at_most_once(OnUnknownOutcome::Skip(UNKNOWN.to_owned())).await?;
    let long = ctx.random("length").await? % 4 == 0;
    ctx.sleep(NAP, if long { LONG_NAP } else { SHORT_NAP }).await?;
    let (): () = ctx.wait_for_signal(GO).await?;
    ctx.step(THANK, |key| runner.act(key)).await?;
    Ok(sent)
}
