//! A workflow as a value: the name, input and result of a function that runs follow, and the
//! options under which a process registers it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use tidelock_store::RawJson;

use super::names::is_workflow_name;
use super::{InvalidName, WorkflowName, WorkflowVersion};
use crate::bounds;
use crate::worker::TIMEOUT;

/// The default retention of ended runs.
pub(crate) const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// A workflow: its name, with the types of its input `I` and its result `O`.
///
/// It is a plain value, usually a constant. A process registers a function for it with
/// [`AppBuilder::workflow`](crate::AppBuilder::workflow); any process starts runs of it
/// with [`Tidelock::start`](crate::Tidelock::start). The name identifies the workflow in the store;
/// the types are checked by the compiler and not stored.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock::prelude::*;
///
/// const DELIVERY: Workflow<u32, String> = Workflow::new("delivery");
///
/// async fn deliver(ctx: RunCtx, units: u32) -> Result<String, StepError> {
///     ctx.step("ship", |_key| async { Ok::<_, HandlerError>(format!("{units} shipped")) }).await
/// }
///
/// let tidelock = Tidelock::open("memory:").await?;
/// let app = tidelock.app().workflow(DELIVERY, deliver).build()?;
/// let run = tidelock.start(DELIVERY, "order-7", &3).await?;
/// # let _ = (app, run);
/// # Ok(())
/// # }
/// ```
///
/// An input of another type does not compile:
///
/// ```compile_fail
/// # async fn start(tidelock: tidelock::Tidelock) -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock::prelude::*;
///
/// const DELIVERY: Workflow<u32, String> = Workflow::new("delivery");
/// tidelock.start(DELIVERY, "order-7", "three").await?;
/// # Ok(())
/// # }
/// ```
///
/// Neither does a constant with a name that is not valid:
///
/// ```compile_fail
/// const DELIVERY: tidelock::runs::Workflow<u32, String> = tidelock::runs::Workflow::new("a/b");
/// # fn main() { let _ = DELIVERY; }
/// ```
pub struct Workflow<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Clone for Workflow<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Workflow<I, O> {}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workflow").field(&self.name).finish()
    }
}

impl<I, O> Workflow<I, O> {
    /// Creates the workflow of this name: 1 to 64 bytes, which do not begin with `~`, and no `/`,
    /// `@`, `*`, `?` or control character.
    ///
    /// # Panics
    /// If the name is not valid; in a constant, that is a compile error. A name that is only known
    /// at run time is used as a string instead.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        assert!(
            is_workflow_name(name),
            "a workflow's name has 1 to 64 bytes, does not begin with ~, and has no /, @, *, ? or control character in it"
        );
        Self { name, types: PhantomData }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the default options, to change some and register the workflow with them.
    pub const fn options(self) -> WorkflowOptions<I, O> {
        WorkflowOptions {
            name: Cow::Borrowed(self.name),
            settings: Settings::DEFAULT,
            types: PhantomData,
        }
    }
}

/// The options under which a process registers a workflow.
///
/// # Examples
///
/// ```
/// # use tidelock::prelude::*;
/// # use std::time::Duration;
/// # async fn deliver(_: RunCtx, _: u32) -> Result<String, StepError> { Ok(String::new()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const DELIVERY: Workflow<u32, String> = Workflow::new("delivery");
///
/// let options = DELIVERY.options().version(2).retention(Duration::from_secs(3600));
/// let app = Tidelock::open("memory:").await?.app().workflow(options, deliver).build()?;
/// # let _ = app;
/// # Ok(())
/// # }
/// ```
#[must_use = "a workflow is registered with AppBuilder::workflow"]
pub struct WorkflowOptions<I, O> {
    pub(super) name: Cow<'static, str>,
    pub(super) settings: Settings,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Clone for WorkflowOptions<I, O> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), settings: self.settings, types: PhantomData }
    }
}

impl<I, O> fmt::Debug for WorkflowOptions<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkflowOptions")
            .field("name", &self.name)
            .field("settings", &self.settings)
            .finish()
    }
}

/// The settings of a workflow in one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) version: WorkflowVersion,
    pub(crate) lease: Duration,
    /// How long its function may wait outside of the context.
    pub(crate) stall: Duration,
    pub(crate) limit: Option<usize>,
    pub(crate) global_limit: Option<u32>,
    pub(crate) max_crashes: u32,
    pub(crate) retention: Option<Duration>,
}

impl Settings {
    const DEFAULT: Self = Self {
        version: WorkflowVersion::FIRST,
        lease: Duration::from_secs(30),
        stall: TIMEOUT,
        limit: None,
        global_limit: None,
        max_crashes: 5,
        retention: Some(RETENTION),
    };

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
}

impl<I, O> WorkflowOptions<I, O> {
    /// Creates the default options of a workflow whose name is only known at run time. The name is
    /// checked when the application is built.
    pub fn named(name: impl AsRef<str>) -> Self {
        let name = Cow::Owned(name.as_ref().to_owned());
        Self { name, settings: Settings::DEFAULT, types: PhantomData }
    }

    /// Sets the version. The default is 1. A run follows the newest version at its start: keep old
    /// versions registered until their runs have ended.
    pub fn version(mut self, version: u32) -> Self {
        self.settings.version = WorkflowVersion(version);
        self
    }

    /// Sets the lease duration: how long a run waits after its process died. The default is 30
    /// seconds. The lease is renewed while the run is driven.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets how long the function may wait for something outside of its
    /// [`RunCtx`](super::RunCtx). The default is [five minutes](TIMEOUT).
    ///
    /// If no step runs and nothing is recorded for this long, the run is parked. Steps have their
    /// own [timeouts](super::Step::timeout). A function that blocks its thread cannot be parked:
    /// its lease is no longer renewed and expires, which counts towards
    /// [`max_crashes`](Self::max_crashes).
    pub fn stalled_after(mut self, stall: Duration) -> Self {
        self.settings.stall = stall;
        self
    }

    /// Sets the maximum number of runs driven concurrently in this process.
    pub fn max_concurrency(mut self, limit: usize) -> Self {
        self.settings.limit = Some(limit);
        self
    }

    /// Sets the maximum number of runs driven concurrently over all processes and versions, from 1
    /// to 1,000. A run that waits for a signal, a child or a time is not driven.
    ///
    /// It is never exceeded. Processes that disagree about the limit each keep to their own.
    pub fn global_concurrency(mut self, limit: u32) -> Self {
        self.settings.global_limit = Some(limit);
        self
    }

    /// Sets after how many consecutive crashes without a recorded entry a run is blocked. The
    /// default is 5.
    pub fn max_crashes(mut self, crashes: u32) -> Self {
        self.settings.max_crashes = crashes;
        self
    }

    /// Sets how long runs are kept after their end, unless their start sets it. The default is 30
    /// days.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.settings.retention = Some(retention);
        self
    }

    /// Keeps ended runs indefinitely.
    pub fn without_retention(mut self) -> Self {
        self.settings.retention = None;
        self
    }
}

/// What [`AppBuilder::workflow`](crate::AppBuilder::workflow) registers a function for:
/// a [`Workflow`], its [options](WorkflowOptions), or a name.
pub trait IntoWorkflow<I, O> {
    /// Converts it to the options of the workflow.
    fn into_workflow(self) -> WorkflowOptions<I, O>;
}

impl<I, O> IntoWorkflow<I, O> for Workflow<I, O> {
    fn into_workflow(self) -> WorkflowOptions<I, O> {
        self.options()
    }
}

impl<I, O> IntoWorkflow<I, O> for WorkflowOptions<I, O> {
    fn into_workflow(self) -> Self {
        self
    }
}

impl<I, O, S: AsRef<str> + ?Sized> IntoWorkflow<I, O> for &S {
    fn into_workflow(self) -> WorkflowOptions<I, O> {
        WorkflowOptions::named(self)
    }
}

impl<I, O> IntoWorkflow<I, O> for String {
    fn into_workflow(self) -> WorkflowOptions<I, O> {
        WorkflowOptions::named(self)
    }
}

/// The workflow of a run to start: a [`Workflow`], whose input has its type, or a name, whose input
/// is anything that can be serialized and whose result is [`RawJson`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take an input of type `{I}`",
    note = "a `Workflow<I, O>` takes a reference to its input type `I`"
)]
pub trait WorkflowRef<I: ?Sized> {
    /// The result of the run.
    type Output;

    /// Returns the workflow's name.
    ///
    /// # Errors
    /// Returns an error if the name is not valid.
    fn into_name(self) -> Result<WorkflowName, InvalidName>;
}

impl<I, O> WorkflowRef<I> for Workflow<I, O> {
    type Output = O;

    fn into_name(self) -> Result<WorkflowName, InvalidName> {
        WorkflowName::new(self.name)
    }
}

impl<O> WorkflowRef<str> for Workflow<String, O> {
    type Output = O;

    fn into_name(self) -> Result<WorkflowName, InvalidName> {
        WorkflowName::new(self.name)
    }
}

impl<T, O> WorkflowRef<[T]> for Workflow<Vec<T>, O> {
    type Output = O;

    fn into_name(self) -> Result<WorkflowName, InvalidName> {
        WorkflowName::new(self.name)
    }
}

impl<I: Serialize + ?Sized, S: AsRef<str> + ?Sized> WorkflowRef<I> for &S {
    type Output = RawJson;

    fn into_name(self) -> Result<WorkflowName, InvalidName> {
        WorkflowName::new(self)
    }
}

impl<I: Serialize + ?Sized> WorkflowRef<I> for String {
    type Output = RawJson;

    fn into_name(self) -> Result<WorkflowName, InvalidName> {
        WorkflowName::new(self)
    }
}
