//! Starts of runs and signals as parts of a unit of work.

use serde::Serialize;

use super::client::commit_target::CommitTarget;
use super::client::signal::SignalRequest;
use super::client::start::StartRequest;
use super::{RunError, RunId, SendSignal, StartRun, WorkflowRef};
use crate::staging::Tx;

impl Tx {
    /// Stages the start of a run: see [`StartRun`]. A run that exists already with the same input
    /// is left as it is.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// const DELIVERY: Workflow<String, String> = Workflow::new("delivery");
    ///
    /// let order = async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.put("orders/7", "two teas")?;
    ///     tx.start(DELIVERY, "order-7", "two teas").version(1).await?; // with the record, or not at all
    ///     Ok(())
    /// };
    /// tidelock.transact(order).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn start<W, I>(&self, workflow: W, run: impl AsRef<str>, input: &I) -> StartRun<W::Output>
    where
        W: WorkflowRef<I>,
        I: Serialize + ?Sized,
    {
        let request = StartRequest::new(workflow.into_name(), run.as_ref(), input);
        StartRun::new(self.destination(), request).metadata(self.metadata().clone())
    }

    /// Stages a signal to a run: see [`SendSignal`]. It is sent once for this unit of work and this
    /// name, even if the handler or step runs again. Several signals of one name to one run need
    /// [ids](SendSignal::id) of their own.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// tidelock.start("delivery", "order-7", "two teas").version(1).await?;
    /// let packed = async |tx: Tx| -> tidelock::Result<()> {
    ///     tx.add("packed", 1, ..)?;
    ///     tx.signal("order-7", "packed", "Ada").await?;
    ///     Ok(())
    /// };
    /// tidelock.transact(packed).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn signal(
        &self,
        run: impl AsRef<str>,
        name: impl AsRef<str>,
        payload: &(impl Serialize + ?Sized),
    ) -> SendSignal {
        let name = name.as_ref();
        let request = RunId::new(run)
            .map_err(RunError::from)
            .and_then(|run| SignalRequest::new(run, name, payload));
        let request = request.map(|request| request.about(self.metadata()));
        SendSignal::new(self.destination(), request).id(format!("{}:{name}", self.effect_key()))
    }

    fn destination(&self) -> CommitTarget {
        let tx = self.clone();
        let stage = Box::new(move |decision| tx.staged(|staged| staged.decisions.push(decision)));
        CommitTarget::Commit(self.tidelock().clone(), stage)
    }
}
