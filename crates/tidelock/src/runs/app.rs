//! Registration of workflows with an application.

use std::error::Error;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RunCtx;
use super::definition::Definition;
use super::workflow::IntoWorkflow;
use crate::AppBuilder;

impl AppBuilder {
    /// Registers the function of a workflow: an async function, or a closure that returns a future.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelock::prelude::*;
    ///
    /// const GREET: Workflow<String, String> = Workflow::new("greet");
    ///
    /// async fn greet(ctx: RunCtx, name: String) -> Result<String, StepError> {
    ///     ctx.step("greet", |_key| async { Ok::<_, HandlerError>(format!("hello, {name}")) }).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let app = Tidelock::open("memory:").await?.app().workflow(GREET, greet).build()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A closure clones what it captured for each call:
    ///
    /// ```
    /// # use tidelock::prelude::*;
    /// # const GREET: Workflow<String, String> = Workflow::new("greet");
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let greeting = String::from("hello");
    /// let greet = move |ctx: RunCtx, name: String| {
    ///     let greeting = greeting.clone();
    ///     async move {
    ///         let greet = |_key| async { Ok::<_, HandlerError>(format!("{greeting}, {name}")) };
    ///         ctx.step("greet", greet).await
    ///     }
    /// };
    /// let app = Tidelock::open("memory:").await?.app().workflow(GREET, greet).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn workflow<W, I, O, E, F, R>(mut self, workflow: W, function: F) -> Self
    where
        W: IntoWorkflow<I, O>,
        F: Fn(RunCtx, I) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
    {
        self.workflows.push(Definition::new(&workflow.into_workflow(), function));
        self
    }
}
