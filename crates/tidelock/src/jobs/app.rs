//! Registration of jobs with an application.

use serde::Serialize;

use super::{Definition, Job, JobCtx};
use crate::AppBuilder;
use crate::handler_error::HandlerError;

impl AppBuilder {
    /// Registers the handler of a job type: an async function, or a closure that returns a future.
    ///
    /// The handler may run more than once for a job, if it fails, or if its process dies or its
    /// lease is lost before the end. What it stages in its context lands exactly once, in the
    /// commit that ends the job.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct SendMail { to: String }
    /// impl Job for SendMail { const QUEUE: &'static str = "mail"; }
    ///
    /// async fn send_mail(mail: SendMail, ctx: JobCtx) -> Result<(), HandlerError> {
    ///     println!("mail to {} under key {}", mail.to, ctx.effect_key());
    ///     ctx.add("mails/sent", 1, ..)?; // lands with the end of the job
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let app = tidelock.app().job(send_mail).build()?;
    /// app.run_until(async { /* until the process is told to stop */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn job<J, O, F, R>(mut self, handler: F) -> Self
    where
        J: Job,
        O: Serialize + Send + 'static,
        F: Fn(J, JobCtx) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        self.jobs.push(Definition::new(handler));
        self
    }
}
