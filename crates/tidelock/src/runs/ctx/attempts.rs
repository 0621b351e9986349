//! Execution of a step: attempts, retries and the recorded end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use tidelock_store::{RawJson, Result};
use tracing::Instrument;

use super::{OnUnknownOutcome, RunCtx, StepKey, interrupt};
use crate::handler_error::HandlerError;
use crate::retry::RetryLimits;
use crate::runs::StepName;
use crate::runs::activation::Op;
use crate::runs::history::{
    AttemptFailed, Intent, Interruptible, StepDone, StepFailed, UnknownOutcome, Verdict, Why, cut,
};
use crate::runs::replay::{Durability, On, Wait, Woken};
use crate::telemetry;
use crate::worker::{panic_message, within};

/// What is known of a step whose last entry is its intent.
const DIED: &str = "it was started by a process that died, and may have been done or not";

/// The attempts at a step.
#[derive(Clone, Copy)]
pub(super) struct StepAttempts<'a> {
    pub(super) ctx: &'a RunCtx,
    pub(super) op: &'a Op<'a>,
    pub(super) name: &'a StepName,
    pub(super) retry: RetryLimits,
    /// The retry policy of attempts that time out and may run again.
    pub(super) rerun: RetryLimits,
    pub(super) timeout: Duration,
}

/// A failed attempt.
pub(super) struct Failed {
    pub(super) failure: HandlerError,
    pub(super) why: Why,
}

impl StepAttempts<'_> {
    /// Executes the step until its end is recorded.
    pub(super) async fn make<T, E, F, R>(
        &self,
        effect: F,
        at_most_once: Option<OnUnknownOutcome<T>>,
    ) where
        T: Serialize + Send,
        F: Fn(StepKey) -> R + Send,
        R: Future<Output = Result<T, E>> + Send,
        E: Into<HandlerError>,
    {
        let policy = at_most_once.map(stored);
        let progress = self.op.progress();
        if progress.intent
            && let Some(policy) = &policy
            && !self.may_rerun(policy, 1, DIED, progress.unknown_outcome).await
        {
            return;
        }
        let mut attempts = progress.attempts;
        while self.may_try().await {
            if policy.is_some() {
                self.intend();
            }
            self.op.written().await;
            let made = match begin(|| effect(self.key())) {
                Ok(attempt) => {
                    let span = self.span(attempts + 1);
                    self.attempt(attempt).instrument(span).await
                }
                Err(failed) => Err(failed),
            };
            attempts += 1;
            let failed = match made {
                Ok(value) => return self.done(attempts, RawJson::new(&value)),
                Err(failed) => failed,
            };
            let goes_on = match &policy {
                Some(policy) if failed.why == Why::TimedOut => {
                    self.unknown(policy, attempts, &failed).await
                }
                _ => self.again(attempts, &failed),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Handles an attempt that timed out and may have had its effect. Returns whether to try again.
    async fn unknown(
        &self,
        policy: &OnUnknownOutcome<Result<RawJson>>,
        attempts: u32,
        failed: &Failed,
    ) -> bool {
        if matches!(policy, OnUnknownOutcome::Rerun) {
            return Self { retry: self.rerun, ..*self }.again(attempts, failed);
        }
        let error = format!("{}, and may have been done or not", failed.failure);
        self.may_rerun(policy, attempts, &error, false).await
    }

    /// Counts an attempt.
    pub(super) fn attempted(&self, outcome: &'static str) {
        let summary = &self.op.activation().summarized.summary;
        telemetry::step_attempted(&summary.workflow, outcome);
    }

    /// The span of one attempt.
    pub(super) fn span(&self, attempt: u32) -> tracing::Span {
        let activation = self.op.activation();
        let workflow = &activation.summarized.summary.workflow;
        telemetry::step_span(activation.run(), workflow, self.name, attempt)
    }

    fn key(&self) -> StepKey {
        StepKey::new(self.ctx.run(), self.name, self.ctx.generation())
    }

    /// Waits for the next attempt's time. A cancellation ends the step instead, which is recorded.
    pub(super) async fn may_try(&self) -> bool {
        let (cleanup, until) = (self.ctx.cleanup, self.op.progress().again_at);
        let is_cancelled = match until {
            Some(_) => {
                self.op.wait(Wait { on: On::Time, until, cleanup }).await == Woken::Cancelled
            }
            None => self.ctx.is_cancelled(),
        };
        if is_cancelled {
            interrupt(self.op, self.name, Interruptible::Step);
            return false;
        }
        self.op.may_begin().await;
        true
    }

    fn intend(&self) {
        self.op.note(Intent { name: self.name.clone() }).expect("a name can be stored");
    }

    /// Runs one attempt. A panic is a failure of this attempt only.
    async fn attempt<T, E: Into<HandlerError>>(
        &self,
        effect: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, Failed> {
        let effect = self.op.effect(AssertUnwindSafe(effect).catch_unwind());
        let made = within(self.timeout, effect).await.ok_or_else(|| Failed::late(self.timeout))?;
        match made {
            Ok(result) => {
                result.map_err(|error| Failed { failure: error.into(), why: Why::Failed })
            }
            Err(panic) => Err(Failed::panicked(panic_message(&*panic))),
        }
    }

    /// Records the result; or that it cannot be stored: the effect has happened and must not happen
    /// again.
    fn done(&self, attempts: u32, result: Result<RawJson>) {
        let ended = result.and_then(|result| {
            let entry = StepDone { name: self.name.clone(), result };
            self.op.end(entry, Durability::Durable)
        });
        match ended {
            Ok(()) => self.attempted("done"),
            Err(error) => self.fail(attempts, error.context().into(), Why::Unstorable),
        }
    }

    /// Records the failure and returns whether to try again.
    pub(super) fn again(&self, attempts: u32, failed: &Failed) -> bool {
        let error = cut(&failed.failure.to_string());
        let failed_at = self.op.activation().now();
        let pause = self.retry.backoff.after(attempts - 1, fastrand::f64());
        let again_at = failed_at.plus(pause);
        let since = self.op.progress().failing_since.unwrap_or(failed_at);
        let is_too_late = self.retry.within.is_some_and(|limit| again_at >= since.plus(limit));
        let is_exhausted = attempts >= self.retry.attempts || is_too_late;
        if !failed.failure.is_retryable() || is_exhausted {
            let (name, code) = (self.name.clone(), failed.failure.code().map(cut));
            self.end(StepFailed { name, attempts, error, code, why: failed.why });
            return false;
        }
        tracing::debug!(run = %self.ctx.run(), step = %self.name, attempts, "attempt failed");
        let (name, failed_at) = (self.name.clone(), Some(failed_at));
        let entry = AttemptFailed { name, attempt: attempts, error, failed_at, again_at };
        self.op.note(entry).expect("names, times and short texts can be stored");
        self.attempted("retried");
        true
    }

    pub(super) fn fail(&self, attempts: u32, error: String, why: Why) {
        self.end(StepFailed { name: self.name.clone(), attempts, error, code: None, why });
    }

    fn end(&self, failed: StepFailed) {
        self.attempted("failed");
        self.op.end(failed, Durability::Durable).expect("names and short texts can be stored");
    }

    /// Handles a step that was started and whose outcome is unknown. Returns whether it may run
    /// again; otherwise its end is recorded.
    async fn may_rerun(
        &self,
        policy: &OnUnknownOutcome<Result<RawJson>>,
        attempts: u32,
        unknown: &str,
        asked: bool,
    ) -> bool {
        match policy {
            OnUnknownOutcome::Rerun => return true,
            OnUnknownOutcome::Fail => self.fail(attempts, unknown.into(), Why::UnknownOutcome),
            OnUnknownOutcome::Skip(value) => self.done(attempts, value.clone()),
            OnUnknownOutcome::Ask => return self.ask(asked).await,
        }
        false
    }

    async fn ask(&self, asked: bool) -> bool {
        if !asked {
            let entry = UnknownOutcome { name: self.name.clone() };
            self.op.note(entry).expect("a name can be stored");
        }
        let wait = Wait { on: On::Verdict, until: None, cleanup: self.ctx.cleanup };
        match self.op.wait(wait).await {
            Woken::Verdict(Verdict::Done(result)) => self.done(1, Ok(result)),
            Woken::Verdict(Verdict::Fail(error)) => self.fail(1, error, Why::UnknownOutcome),
            Woken::Verdict(Verdict::Rerun) => return true,
            _ => interrupt(self.op, self.name, Interruptible::Step),
        }
        false
    }
}

impl Failed {
    pub(super) fn late(timeout: Duration) -> Self {
        let failure = HandlerError::again(format!("it took longer than {timeout:?}"));
        Self { failure, why: Why::TimedOut }
    }

    pub(super) fn panicked(message: &str) -> Self {
        Self { failure: HandlerError::again(format!("it panicked: {message}")), why: Why::Failed }
    }
}

/// Calls the closure of a step. A panic before it returns its future is a failure of the attempt.
pub(super) fn begin<R>(effect: impl FnOnce() -> R) -> Result<R, Failed> {
    catch_unwind(AssertUnwindSafe(effect)).map_err(|panic| Failed::panicked(panic_message(&*panic)))
}

/// The policy with its value in the recorded form.
fn stored<T: Serialize>(policy: OnUnknownOutcome<T>) -> OnUnknownOutcome<Result<RawJson>> {
    match policy {
        OnUnknownOutcome::Fail => OnUnknownOutcome::Fail,
        OnUnknownOutcome::Skip(value) => OnUnknownOutcome::Skip(RawJson::new(&value)),
        OnUnknownOutcome::Rerun => OnUnknownOutcome::Rerun,
        OnUnknownOutcome::Ask => OnUnknownOutcome::Ask,
    }
}
