//! Registration of workflows with an application.

use std::error::Error;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::workflow::{Workflow, WorkflowFn};
use crate::reactions::AppBuilder;

impl AppBuilder {
    /// Registers a workflow: a plain async function with a name, which identifies it in the store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::runs::{RunCtx, StepError};
    /// async fn greet(ctx: &mut RunCtx, name: String) -> Result<String, StepError> {
    ///     ctx.step("greet", |_key| async { Ok::<_, HandlerError>(format!("hello, {name}")) }).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let app = Tidelock::open("memory:").await?.app().workflow("greet", greet).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn workflow<I, O, E, F>(self, name: &str, function: F) -> Self
    where
        F: for<'c> WorkflowFn<'c, I, Output = O, Error = E>,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        self.register(Workflow::new(name, function))
    }

    /// Registers a workflow with its options.
    #[must_use]
    pub fn register(mut self, workflow: Workflow) -> Self {
        self.workflows.push(workflow);
        self
    }
}
