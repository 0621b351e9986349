//! A workflow definition: a function with a name, a version, and options.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, limits};

use super::activation::Activation;
use super::registered::Registered;
use super::{InvalidName, RunCtx, StepName, WorkflowName, WorkflowVersion};
use crate::bounds;
use crate::worker::TIMEOUT;

/// An error of a workflow's function.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// A workflow function: `async fn(&mut RunCtx, I) -> Result<O, E>`. Implemented for every such
/// function.
pub trait WorkflowFn<'c, I>: Send + Sync + 'static {
    /// The result.
    type Output;
    /// The error.
    type Error;
    /// The returned future.
    type Future: Future<Output = Result<Self::Output, Self::Error>> + Send + 'c;

    /// Calls the function.
    fn call(&self, ctx: &'c mut RunCtx, input: I) -> Self::Future;
}

impl<'c, I, O, E, F, R> WorkflowFn<'c, I> for F
where
    F: Fn(&'c mut RunCtx, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, E>> + Send + 'c,
{
    type Output = O;
    type Error = E;
    type Future = R;

    fn call(&self, ctx: &'c mut RunCtx, input: I) -> R {
        self(ctx, input)
    }
}

/// The default retention of ended runs.
pub(crate) const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A workflow, to be registered with an application.
#[derive(Clone)]
pub struct Workflow {
    name: Result<WorkflowName, InvalidName>,
    pub(crate) version: WorkflowVersion,
    pub(crate) code: Arc<dyn Code>,
    pub(crate) lease: Duration,
    /// How long its function may wait outside of the context.
    pub(crate) stall: Duration,
    pub(crate) limit: Option<usize>,
    pub(crate) max_crashes: u32,
    retention: Option<Duration>,
}

impl Workflow {
    /// Creates version 1 of a workflow from an async function. The lease lasts 30 seconds and is
    /// renewed.
    pub fn new<I, O, E, F>(name: impl AsRef<str>, function: F) -> Self
    where
        F: for<'c> WorkflowFn<'c, I, Output = O, Error = E>,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        Self {
            name: WorkflowName::new(name),
            version: WorkflowVersion::FIRST,
            code: Arc::new(Typed { function, types: PhantomData::<fn(I) -> (O, E)> }),
            lease: Duration::from_secs(30),
            stall: TIMEOUT,
            limit: None,
            max_crashes: 5,
            retention: Some(RETENTION),
        }
    }

    /// Creates version 1 of a workflow from a closure that captures state.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::runs::{StepError, Workflow};
    /// let greeting = String::from("hello");
    /// let workflow = Workflow::boxed("greet", move |ctx, name: String| {
    ///     let greeting = greeting.clone();
    ///     Box::pin(async move {
    ///         let greet = |_key| async { Ok::<_, HandlerError>(format!("{greeting}, {name}")) };
    ///         ctx.step("greet", greet).await
    ///     })
    /// });
    /// # let _: Workflow = workflow;
    /// ```
    pub fn boxed<I, O, E, F>(name: impl AsRef<str>, function: F) -> Self
    where
        F: for<'c> Fn(&'c mut RunCtx, I) -> BoxFuture<'c, Result<O, E>> + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        Self::new(name, function)
    }

    /// Sets the version. A run follows the newest version at its start: keep old versions
    /// registered until their runs have ended.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = WorkflowVersion(version);
        self
    }

    /// Sets the lease duration: how long a run waits after its process died.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long the function may wait for something outside of its [`RunCtx`]. The default is
    /// [five minutes](TIMEOUT).
    ///
    /// If no step runs and nothing is recorded for this long, the run is parked. Steps have their
    /// own [timeouts](super::Step::timeout). A function that blocks its thread cannot be parked:
    /// its lease is no longer renewed and expires, which counts towards
    /// [`max_crashes`](Self::max_crashes).
    #[must_use]
    pub fn stalled_after(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// Sets the maximum number of runs driven concurrently in this process.
    #[must_use]
    pub fn max_concurrency(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets after how many consecutive crashes without a recorded entry a run is blocked. The
    /// default is 5.
    #[must_use]
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.max_crashes = crashes;
        self
    }

    /// Sets how long runs are kept after their end, unless their start sets it. The default is 30
    /// days.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Keeps ended runs indefinitely.
    #[must_use]
    pub fn without_retention(mut self) -> Self {
        self.retention = None;
        self
    }

    /// Why an option is not valid, if one is not.
    pub(crate) fn problem(&self) -> Option<String> {
        let retention = self.retention.map_or(Ok(()), |long| bounds::keeps("a retention", long));
        match retention {
            Err(problem) => Some(problem.context().to_owned()),
            Ok(()) if self.limit == Some(0) => {
                Some("at most 0 runs at once; it needs at least 1".to_owned())
            }
            Ok(()) if self.stall.is_zero() => {
                Some(format!("stalled after {:?}; it needs some time before each step", self.stall))
            }
            Ok(()) => None,
        }
    }

    pub(crate) fn checked_name(&self) -> Result<WorkflowName, InvalidName> {
        self.name.clone()
    }

    /// The validated name.
    pub(crate) fn known_name(&self) -> &WorkflowName {
        self.name.as_ref().expect("an application is only built of workflows with valid names")
    }

    /// Its registry entry.
    pub(crate) fn registered(&self) -> Registered {
        Registered { version: self.version, retention: self.retention }
    }
}

impl fmt::Debug for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflow")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// A workflow's function, independent of its types.
pub(crate) trait Code: Send + Sync + 'static {
    /// Checks whether the function can decode the input. The error contains nothing of the input.
    fn check(&self, input: &RawJson) -> tidelock_store::Result<()>;

    /// Runs the function against its history, and compensates if it fails.
    fn run(
        &self,
        activation: Arc<Activation>,
        input: RawJson,
    ) -> BoxFuture<'_, Result<RawJson, BodyError>>;
}

struct Typed<I, O, E, F> {
    function: F,
    types: PhantomData<fn(I) -> (O, E)>,
}

impl<I, O, E, F> Code for Typed<I, O, E, F>
where
    F: for<'c> WorkflowFn<'c, I, Output = O, Error = E>,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
{
    fn check(&self, input: &RawJson) -> tidelock_store::Result<()> {
        input.to::<I>().map(drop)
    }

    fn run(
        &self,
        activation: Arc<Activation>,
        input: RawJson,
    ) -> BoxFuture<'_, Result<RawJson, BodyError>> {
        async move {
            let mut ctx = RunCtx::new(&activation);
            let input = match input.to() {
                Ok(input) => input,
                Err(error) => ctx.unfit(&input_name(), &error).await,
            };
            let error = match self.function.call(&mut ctx, input).await.map_err(Into::into) {
                Ok(output) => return result_of(&output),
                Err(error) => error,
            };
            match RunCtx::new(&activation).compensate().await {
                Ok(()) => Err(error),
                Err(undoing) => Err(format!("{error}; and then: {undoing}").into()),
            }
        }
        .boxed()
    }
}

fn input_name() -> StepName {
    StepName::new("input").expect("it is short and plain")
}

fn result_of(output: &impl Serialize) -> Result<RawJson, BodyError> {
    let unstorable =
        |error: String| BodyError::from(format!("the result cannot be stored: {error}"));
    let result = RawJson::new(output).map_err(|e| unstorable(e.context().into()))?;
    // The surrounding entry needs a few bytes, too.
    let most = limits::PAYLOAD_BYTES - 64;
    match result.as_str().len() {
        bytes if bytes > most => {
            Err(unstorable(format!("it has {bytes} bytes; the limit is {most}")))
        }
        _ => Ok(result),
    }
}
