//! The start of a run, as a caller asks for it: idempotent by the run's id.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{RawJson, Timestamp};

use super::commit_target::{CommitTarget, Request};
use super::proposal::{News, Proposal};
use crate::bounds;
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::runs::registered::Registered;
use crate::runs::start_commit::Opening;
use crate::runs::summary::Summarized;
use crate::runs::workflow::RETENTION;
use crate::runs::{RunError, RunHandle, RunId, WorkflowName, WorkflowVersion, keys};

/// A run that is to be started: await it.
///
/// If there is a run under this id, of the same workflow and with the same input, it is that one;
/// with another workflow or input it is [an error](RunError::OtherRun). The run is stored before
/// its function is first called. An input that the function cannot read is
/// [refused](RunError::Input) if this process has registered it; what only other processes have,
/// this one cannot check: such a run is parked.
#[derive(Debug)]
#[must_use = "nothing is started before this is awaited"]
pub struct StartRun {
    to: CommitTarget,
    order: Result<StartRequest, RunError>,
}

impl StartRun {
    pub(crate) fn new(to: CommitTarget, order: Result<StartRequest, RunError>) -> Self {
        Self { to, order }
    }

    /// The same, on this version of the workflow. By default it is the newest that this process has
    /// registered, or that any process has.
    pub fn version(self, version: u32) -> Self {
        self.with(|order| order.version = Some(WorkflowVersion(version)))
    }

    /// The same, found in listings by this attribute.
    pub fn attribute(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.with(|order| _ = order.attributes.insert(name, value))
    }

    /// The same, to end within this long. A run that has not is cancelled and fails as timed out.
    pub fn deadline(self, within: Duration) -> Self {
        self.with(|order| order.deadline = Some(within))
    }

    /// The same, kept for this long after it has ended, whatever its workflow says.
    pub fn retention(self, retention: Duration) -> Self {
        self.with(|order| order.retention = Some(retention))
    }

    /// The same; what the run leads to says this.
    pub fn metadata(self, metadata: Metadata) -> Self {
        self.with(|order| order.metadata = metadata)
    }

    /// Starts it, and says whether this did: a run that was there already is not started again.
    ///
    /// # Errors
    /// As awaiting it.
    pub async fn outcome(self) -> Result<StartOutcome, RunError> {
        let order = self.order?;
        let run = RunHandle::new(self.to.tidelock().clone(), Ok(order.run.clone()));
        let is_new = self.to.take(order).await? == News::New;
        Ok(StartOutcome { run, is_new })
    }

    fn with(mut self, change: impl FnOnce(&mut StartRequest)) -> Self {
        if let Ok(order) = &mut self.order {
            change(order);
        }
        self
    }
}

impl IntoFuture for StartRun {
    type Output = Result<RunHandle, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(self.outcome().await?.run) }.boxed()
    }
}

/// A run that was asked for, and is there.
#[derive(Debug, Clone)]
pub struct StartOutcome {
    /// The run.
    pub run: RunHandle,
    /// Whether it was started by this; if not, it was there.
    pub is_new: bool,
}

/// What is asked for when a run is started.
#[derive(Debug, Clone)]
pub(crate) struct StartRequest {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowName,
    pub(crate) version: Option<WorkflowVersion>,
    pub(crate) input: RawJson,
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) metadata: Metadata,
}

impl StartRequest {
    /// A run of this workflow, under this id, with this input.
    pub(crate) fn new(
        workflow: &str,
        run: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<Self, RunError> {
        let run = RunId::new(run)?;
        let input = RawJson::new(input)
            .map_err(|e| e.about(format_args!("input of run {:?}", run.as_str())))?;
        Ok(Self::of(WorkflowName::new(workflow)?, run, input))
    }

    /// The same, of what was checked before.
    pub(crate) fn of(workflow: WorkflowName, run: RunId, input: RawJson) -> Self {
        let (version, deadline, retention) = (None, None, None);
        let (attributes, metadata) = (BTreeMap::new(), Metadata::new());
        Self { run, workflow, version, input, attributes, deadline, retention, metadata }
    }

    /// Decides on what is there: nothing to do if it is this very run, a commit that starts it if
    /// there is none.
    pub(crate) async fn propose(&self, tidelock: &Tidelock) -> Result<Proposal<News>, RunError> {
        self.check_times()?;
        let store = tidelock.store();
        let slots = store.get(&[keys::summary(&self.run), keys::workflow(&self.workflow)]).await?;
        let announced = Registered::of(&slots[1])?;
        let registered = tidelock.workflows().newest(&self.workflow).or(announced);
        let there = Summarized::of(&self.run, &slots[0])?;
        if there.is_none() && self.version.is_none() && registered.is_none() {
            return Err(RunError::UnknownWorkflow { workflow: self.workflow.clone() });
        }
        let opening = self.opening(registered, store.now().await?);
        match there {
            None => {
                self.check_input(tidelock, opening.version)?;
                Ok(Proposal::commit(opening.parts()?, News::New))
            }
            Some(there) => self.recognize(&opening, &there),
        }
    }

    /// Refuses a time that no store keeps anything for.
    fn check_times(&self) -> Result<(), RunError> {
        for (what, long) in [("retention", self.retention), ("deadline", self.deadline)] {
            let what = format_args!("run {:?}: a {what}", self.run.as_str());
            long.map_or(Ok(()), |long| bounds::keeps(what, long))?;
        }
        Ok(())
    }

    /// Refuses what the function could not read, if this process has it.
    fn check_input(&self, tidelock: &Tidelock, version: WorkflowVersion) -> Result<(), RunError> {
        tidelock.workflows().check(&self.workflow, version, &self.input).map_err(|error| {
            RunError::Input {
                run: self.run.clone(),
                workflow: self.workflow.clone(),
                version,
                error: error.context().to_owned(),
            }
        })
    }

    fn opening(&self, registered: Option<Registered>, now: Timestamp) -> Opening {
        let version =
            self.version.or(registered.map(|r| r.version)).unwrap_or(WorkflowVersion::FIRST);
        let mut opening =
            Opening::new(self.run.clone(), self.workflow.clone(), version, self.input.clone(), now);
        opening.deadline = self.deadline.map(|within| now.plus(within));
        opening.retention = self.retention.or(registered.map_or(Some(RETENTION), |r| r.retention));
        opening.attributes = self.attributes.clone();
        opening.metadata = self.metadata.clone();
        opening
    }

    fn recognize(&self, opening: &Opening, there: &Summarized) -> Result<Proposal<News>, RunError> {
        if opening.is_of(&there.summary) {
            return Ok(Proposal::Answer(News::Known));
        }
        Err(RunError::OtherRun {
            run: self.run.clone(),
            there: there.summary.workflow.clone(),
            there_input: there.summary.input_digest.clone(),
            asked: self.workflow.clone(),
            asked_input: opening.input_digest(),
        })
    }
}

impl Request for StartRequest {
    fn run(&self) -> &RunId {
        &self.run
    }

    fn propose<'a>(
        &'a self,
        tidelock: &'a Tidelock,
    ) -> BoxFuture<'a, Result<Proposal<News>, RunError>> {
        self.propose(tidelock).boxed()
    }
}
