//! A registered job type: its queue, its options, and its handler independent of types.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{QueueName, RawJson, Result, StoreError};

use super::key_limit::KeyLimit;
use super::{Job, JobCtx, JobOptions};
use crate::handler_error::HandlerError;
use crate::queues;
use crate::worker::{GlobalLimit, GlobalRate};

/// A job type with its handler, as registered with an application.
#[derive(Clone)]
pub(crate) struct Definition {
    name: &'static str,
    queue: Result<QueueName>,
    pub(crate) options: JobOptions,
    pub(super) handler: Arc<dyn Handler>,
}

impl Definition {
    pub(super) fn new<J, O, F, R>(handler: F) -> Self
    where
        J: Job,
        O: Serialize + Send + 'static,
        F: Fn(J, JobCtx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        Self {
            name: J::QUEUE,
            queue: queues::checked_name(J::QUEUE),
            options: J::options(),
            handler: Arc::new(Typed { handler, types: PhantomData::<fn(J) -> (O, R)> }),
        }
    }

    /// Why the name or an option is not valid, if one is not.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = self.queue.as_ref().err().map(|error| error.context().to_owned());
        let limit = || Some(self.global_limit().err()?.context().to_owned());
        let rate = || Some(self.global_rate().err()?.context().to_owned());
        let per_key = || Some(self.key_limit().err()?.context().to_owned());
        name.or_else(|| self.options.problem()).or_else(limit).or_else(rate).or_else(per_key)
    }

    /// The limit over all processes, if there is one.
    pub(super) fn global_limit(&self) -> Result<Option<GlobalLimit>> {
        let name = format!("queue/{}", self.name);
        self.options.global_limit.map(|limit| GlobalLimit::new(&name, limit)).transpose()
    }

    /// The rate over all processes, if there is one.
    pub(super) fn global_rate(&self) -> Result<Option<GlobalRate>> {
        let Some((limit, every)) = self.options.rate else { return Ok(None) };
        let burst = self.options.burst.unwrap_or(limit);
        GlobalRate::new(&format!("queue/{}", self.name), limit, every, burst).map(Some)
    }

    /// The limit per concurrency key, if there is one.
    pub(super) fn key_limit(&self) -> Result<Option<KeyLimit>> {
        let Some(jobs) = self.options.per_key else { return Ok(None) };
        KeyLimit::new(&self.queue.clone()?, jobs, self.options.longest()).map(Some)
    }

    /// The name of the queue, valid or not.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The validated name of the queue.
    pub(crate) fn known_queue(&self) -> &QueueName {
        self.queue.as_ref().expect("an application is only built of jobs with valid queues")
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("queue", &self.queue)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A handler, independent of the job's type.
pub(super) trait Handler: Send + Sync + 'static {
    /// Handles the payload, and returns the result as JSON.
    fn handle(
        &self,
        payload: &RawJson,
        ctx: JobCtx,
    ) -> BoxFuture<'static, Result<RawJson, HandlerError>>;

    /// The concurrency key of the job; none, if it has none or cannot be read.
    fn concurrency_key(&self, payload: &RawJson) -> Option<String>;
}

struct Typed<F, T> {
    handler: F,
    types: PhantomData<T>,
}

impl<J, O, F, R> Handler for Typed<F, fn(J) -> (O, R)>
where
    J: Job,
    O: Serialize + Send + 'static,
    F: Fn(J, JobCtx) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, HandlerError>> + Send + 'static,
{
    fn handle(
        &self,
        payload: &RawJson,
        ctx: JobCtx,
    ) -> BoxFuture<'static, Result<RawJson, HandlerError>> {
        let job = match payload.to::<J>() {
            Ok(job) => job,
            Err(error) => return unreadable::<J>(&error),
        };
        let handled = (self.handler)(job, ctx);
        async move { RawJson::new(&handled.await?).map_err(unstorable) }.boxed()
    }

    fn concurrency_key(&self, payload: &RawJson) -> Option<String> {
        payload.to::<J>().ok()?.concurrency_key()
    }
}

/// The same payload is as unreadable for the next attempt.
fn unreadable<J: Job>(error: &StoreError) -> BoxFuture<'static, Result<RawJson, HandlerError>> {
    let error = format!("the payload is not a {}: {error}", std::any::type_name::<J>());
    async move { Err(HandlerError::fatal(error)) }.boxed()
}

fn unstorable(error: StoreError) -> HandlerError {
    HandlerError::fatal(error.about("result of a job"))
}
