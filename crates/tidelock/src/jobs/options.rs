//! Options of a job type.

use std::time::Duration;

use tidelock_store::limits;

use crate::bounds;
use crate::reactions::OnExhausted;
use crate::retry::{Retry, RetryLimits};
use crate::worker::TIMEOUT;

/// The options of a [`Job`](super::Job).
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use tidelock::jobs::JobOptions;
///
/// let patient = JobOptions::new()
///     .timeout(Duration::from_secs(30))
///     .keep_results(Duration::from_secs(24 * 3_600));
/// # let _ = patient;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct JobOptions {
    pub(super) retry: RetryLimits,
    /// Whether the retry policy has a time limit, which no store counts.
    has_time_limit: bool,
    pub(super) on_exhausted: OnExhausted,
    pub(super) lease: Duration,
    /// The timeout of one call of the handler.
    pub(super) timeout: Duration,
    pub(super) max_crashes: u32,
    pub(super) limit: Option<usize>,
    pub(super) global_limit: Option<u32>,
    pub(super) per_key: Option<u32>,
    pub(super) rate: Option<(u32, Duration)>,
    pub(super) burst: Option<u32>,
    pub(super) keep_results: Option<Duration>,
    pub(super) unique_for: Option<Duration>,
}

impl JobOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self {
            retry: RetryLimits::JOB,
            has_time_limit: false,
            on_exhausted: OnExhausted::default(),
            lease: Duration::from_secs(30),
            timeout: TIMEOUT,
            max_crashes: 3,
            limit: None,
            global_limit: None,
            per_key: None,
            rate: None,
            burst: None,
            keep_results: None,
            unique_for: None,
        }
    }

    /// Sets the retry policy of a job that fails: the number of attempts and the pauses between
    /// them. The default is 20 attempts, with pauses from a second to an hour: about a night.
    ///
    /// The pause is stored, and holds no worker. A policy with a [time limit](Retry::within) is an
    /// error of the build: the store counts the failures of a job, and not their time.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.has_time_limit = retry.time_limit().is_some();
        self.retry = retry.or(RetryLimits::JOB);
        self
    }

    /// Sets what happens to a job whose attempts are used up. By default it is blocked, with its
    /// error, until an operator retries or discards it.
    pub fn on_exhausted(mut self, policy: OnExhausted) -> Self {
        self.on_exhausted = policy;
        self
    }

    /// Sets the lease: how long a job waits after its process died. The default is 30 seconds. The
    /// lease is renewed while the handler runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the timeout of one call of the handler. The default is [five
    /// minutes](crate::worker::TIMEOUT). A call that exceeds it is dropped, and counts as failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets after how many expired leases a job is blocked. The default is 3: a job that kills its
    /// process does not kill the next ones.
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.max_crashes = crashes;
        self
    }

    /// Sets the maximum number of jobs handled concurrently in each process.
    pub fn max_concurrency(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the maximum number of jobs handled concurrently over all processes, from 1 to 1,000.
    ///
    /// It is a number of permits, which are leased like work items: it is never exceeded, and those
    /// of a process that died are free when their leases expire. Processes that disagree about the
    /// limit each keep to their own.
    pub fn global_concurrency(mut self, limit: u32) -> Self {
        self.global_limit = Some(limit);
        self
    }

    /// Sets the maximum number of jobs of one [`concurrency_key`](super::Job::concurrency_key) that
    /// are handled concurrently over all processes, from 1 to 100.
    ///
    /// A job for whose key there is no room waits in the key's line, by priority and arrival, and
    /// holds up no job of another key. No failure is counted. A process that dies makes room when
    /// its leases expire.
    pub fn concurrency_per_key(mut self, limit: u32) -> Self {
        self.per_key = Some(limit);
        self
    }

    /// Sets how many jobs begin in a span of time, over all processes. Every attempt counts.
    ///
    /// It is a rate limit like [`Tidelock::rate`](crate::Tidelock::rate), replenished continuously
    /// and judged by the store. Jobs that have to wait are not touched meanwhile: they keep their
    /// place, and no attempt is counted. Processes that disagree about the rate each draw at their
    /// own from what is common.
    pub fn rate(mut self, limit: u32, every: Duration) -> Self {
        self.rate = Some((limit, every));
        self
    }

    /// Sets how many jobs begin at once after a pause, of a [`rate`](Self::rate). The default is
    /// its limit; 1 spaces them evenly.
    pub fn burst(mut self, jobs: u32) -> Self {
        self.burst = Some(jobs);
        self
    }

    /// Keeps the result of a finished job for this long. By default nothing of it is kept.
    pub fn keep_results(mut self, retention: Duration) -> Self {
        self.keep_results = Some(retention);
        self
    }

    /// Keeps a key taken for this long after its job has finished: another job enqueued under it
    /// meanwhile is a duplicate. By default a key is free again when its job has finished.
    pub fn unique_for(mut self, window: Duration) -> Self {
        self.unique_for = Some(window);
        self
    }

    /// How long an attempt can last, with a lot to spare.
    pub(super) fn longest(&self) -> Duration {
        const SPARE: Duration = Duration::from_secs(24 * 3_600);
        self.timeout.saturating_add(self.lease).saturating_add(SPARE).min(limits::HORIZON)
    }

    pub(crate) fn lease_duration(&self) -> Duration {
        self.lease
    }

    /// How long the record of a finished job is kept, if at all.
    pub(super) fn kept(&self) -> Option<Duration> {
        self.keep_results.max(self.unique_for)
    }

    /// Why an option is not valid, if one is not.
    pub(super) fn problem(&self) -> Option<String> {
        let kept = self.kept().map_or(Ok(()), |long| bounds::keeps("a retention", long));
        match kept {
            Err(problem) => Some(problem.context().to_owned()),
            Ok(()) if self.limit == Some(0) => {
                Some("at most 0 jobs at once; it needs at least 1".to_owned())
            }
            Ok(()) if self.rate.is_none() && self.burst.is_some() => {
                Some("a burst without a rate".to_owned())
            }
            Ok(()) if self.has_time_limit => {
                Some("a retry policy with a time limit; give it a number of attempts".to_owned())
            }
            Ok(()) => None,
        }
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self::new()
    }
}
