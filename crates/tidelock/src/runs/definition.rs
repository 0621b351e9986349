//! A registered workflow: its name, its settings, and its function independent of types.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidelock_store::{RawJson, limits};

use super::activation::Activation;
use super::registered::Registered;
use super::workflow::Settings;
use super::{InvalidName, RunCtx, StepName, WorkflowName, WorkflowOptions};
use crate::worker::GlobalLimit;

/// An error of a workflow's function.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// A workflow with its function, as registered with an application.
#[derive(Clone)]
pub(crate) struct Definition {
    name: Result<WorkflowName, InvalidName>,
    pub(crate) settings: Settings,
    pub(crate) code: Arc<dyn Code>,
}

impl Definition {
    pub(crate) fn new<I, O, E, F, R>(options: &WorkflowOptions<I, O>, function: F) -> Self
    where
        F: Fn(RunCtx, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<BodyError> + Send + 'static,
    {
        Self {
            name: WorkflowName::new(&options.name),
            settings: options.settings,
            code: Arc::new(Typed {
                function,
                input: PhantomData,
                future: PhantomData::<fn() -> R>,
            }),
        }
    }

    pub(crate) fn checked_name(&self) -> Result<WorkflowName, InvalidName> {
        self.name.clone()
    }

    /// The validated name.
    pub(crate) fn known_name(&self) -> &WorkflowName {
        self.name.as_ref().expect("an application is only built of workflows with valid names")
    }

    /// The limit over all processes, if there is one.
    pub(crate) fn global_limit(&self) -> tidelock_store::Result<Option<GlobalLimit>> {
        let name = format!("workflow/{}", self.known_name().as_str());
        self.settings.global_limit.map(|limit| GlobalLimit::new(&name, limit)).transpose()
    }

    /// Its registry entry.
    pub(crate) fn registered(&self) -> Registered {
        Registered { version: self.settings.version, retention: self.settings.retention }
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .field("settings", &self.settings)
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

struct Typed<I, F, R> {
    function: F,
    input: PhantomData<fn(I)>,
    future: PhantomData<fn() -> R>,
}

impl<I, O, E, F, R> Code for Typed<I, F, R>
where
    F: Fn(RunCtx, I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<O, E>> + Send + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<BodyError> + Send + 'static,
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
            let ctx = RunCtx::new(&activation);
            let input = match input.to() {
                Ok(input) => input,
                Err(error) => ctx.unfit(&input_name(), &error).await,
            };
            let error = match (self.function)(ctx, input).await.map_err(Into::into) {
                Ok(output) => return result_of(&output),
                Err(error) => error,
            };
            match RunCtx::new(&activation).compensate().await {
                Ok(()) => Err(error),
                Err(failed) => Err(format!("{error}; and then: {failed}").into()),
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
