//! Starting a run, idempotent by its id.

use std::collections::BTreeMap;
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use tidelock_store::{RawJson, Timestamp};

use super::commit_target::{CommitTarget, Request};
use super::proposal::{Proposal, RequestOutcome};
use crate::bounds;
use crate::handle::Tidelock;
use crate::metadata::Metadata;
use crate::runs::registered::Registered;
use crate::runs::start_commit::RunStart;
use crate::runs::summary::Summarized;
use crate::runs::workflow::RETENTION;
use crate::runs::{InvalidName, RunError, RunHandle, RunId, WorkflowName, WorkflowVersion, keys};

/// A run to start: await it.
///
/// If a run exists under this id, with the same workflow and input, the result is that run. Another
/// workflow or input is [an error](RunError::OtherRun). The run is stored before its function is
/// first called. An input that the function cannot decode is [refused](RunError::Input) if this
/// process has registered the workflow. Otherwise it cannot be checked, and such a run is parked.
#[must_use = "nothing is started before this is awaited"]
pub struct StartRun<O = RawJson> {
    to: CommitTarget,
    request: Result<StartRequest, RunError>,
    result: PhantomData<fn() -> O>,
}

impl<O> fmt::Debug for StartRun<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartRun").field("request", &self.request).finish_non_exhaustive()
    }
}

impl<O> StartRun<O> {
    pub(crate) fn new(to: CommitTarget, request: Result<StartRequest, RunError>) -> Self {
        Self { to, request, result: PhantomData }
    }

    /// Sets the version of the workflow. The default is the newest that this process has
    /// registered, or else that any process has.
    pub fn version(self, version: u32) -> Self {
        self.with(|request| request.version = Some(WorkflowVersion(version)))
    }

    /// Adds an attribute, by which listings find the run.
    pub fn attribute(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        self.with(|request| _ = request.attributes.insert(name, value))
    }

    /// Sets the deadline. A run that has not ended by then is cancelled and fails as timed out.
    pub fn deadline(self, within: Duration) -> Self {
        self.with(|request| request.deadline = Some(within))
    }

    /// Sets how long the run is kept after its end, instead of the workflow's retention.
    pub fn retention(self, retention: Duration) -> Self {
        self.with(|request| request.retention = Some(retention))
    }

    /// Sets the metadata of the events that the run causes.
    pub fn metadata(self, metadata: Metadata) -> Self {
        self.with(move |request| {
            request.metadata = metadata;
            request.metadata = request.metadata.traced().into_owned();
        })
    }

    /// Starts the run and returns whether it is new.
    ///
    /// # Errors
    /// As awaiting it.
    pub async fn outcome(self) -> Result<StartOutcome<O>, RunError> {
        let request = self.request?;
        let run = RunHandle::new(self.to.tidelock().clone(), Ok(request.run.clone()));
        let is_new = self.to.take(request).await? == RequestOutcome::New;
        Ok(StartOutcome { run, is_new })
    }

    fn with(mut self, change: impl FnOnce(&mut StartRequest)) -> Self {
        if let Ok(request) = &mut self.request {
            change(request);
        }
        self
    }
}

impl<O: 'static> IntoFuture for StartRun<O> {
    type Output = Result<RunHandle<O>, RunError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { Ok(self.outcome().await?.run) }.boxed()
    }
}

/// A started run.
pub struct StartOutcome<O = RawJson> {
    /// The run.
    pub run: RunHandle<O>,
    /// Whether this call started it; otherwise it existed already.
    pub is_new: bool,
}

impl<O> fmt::Debug for StartOutcome<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartOutcome")
            .field("run", &self.run)
            .field("is_new", &self.is_new)
            .finish()
    }
}

impl<O> Clone for StartOutcome<O> {
    fn clone(&self) -> Self {
        Self { run: self.run.clone(), is_new: self.is_new }
    }
}

/// The request to start a run.
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
        workflow: Result<WorkflowName, InvalidName>,
        run: &str,
        input: &(impl Serialize + ?Sized),
    ) -> Result<Self, RunError> {
        let run = RunId::new(run)?;
        let input = RawJson::new(input)
            .map_err(|e| e.about(format_args!("input of run {:?}", run.as_str())))?;
        Ok(Self::of(workflow?, run, input))
    }

    /// Creates the request from validated parts.
    pub(crate) fn of(workflow: WorkflowName, run: RunId, input: RawJson) -> Self {
        let (version, deadline, retention) = (None, None, None);
        let (attributes, metadata) = (BTreeMap::new(), Metadata::new().traced().into_owned());
        Self { run, workflow, version, input, attributes, deadline, retention, metadata }
    }

    /// Decides on the current state: an answer if this very run exists, a commit that starts it if
    /// there is none.
    pub(crate) async fn propose(
        &self,
        tidelock: &Tidelock,
    ) -> Result<Proposal<RequestOutcome>, RunError> {
        self.check_times()?;
        let store = tidelock.store();
        let slots = store.get(&[keys::summary(&self.run), keys::workflow(&self.workflow)]).await?;
        let announced = Registered::of(&slots[1])?;
        let registered = tidelock.workflows().newest(&self.workflow).or(announced);
        let there = Summarized::of(&self.run, &slots[0])?;
        if there.is_none() && self.version.is_none() && registered.is_none() {
            return Err(RunError::UnknownWorkflow { workflow: self.workflow.clone() });
        }
        let run_start = self.run_start(registered, store.now().await?);
        match there {
            None => {
                self.check_input(tidelock, run_start.version)?;
                Ok(Proposal::commit(run_start.parts()?, RequestOutcome::New))
            }
            Some(there) => self.recognize(&run_start, &there),
        }
    }

    /// Rejects durations that exceed the store's limits.
    fn check_times(&self) -> Result<(), RunError> {
        for (what, long) in [("retention", self.retention), ("deadline", self.deadline)] {
            let what = format_args!("run {:?}: a {what}", self.run.as_str());
            long.map_or(Ok(()), |long| bounds::keeps(what, long))?;
        }
        Ok(())
    }

    /// Rejects an input that the function cannot decode, if this process has it.
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

    fn run_start(&self, registered: Option<Registered>, now: Timestamp) -> RunStart {
        let version =
            self.version.or(registered.map(|r| r.version)).unwrap_or(WorkflowVersion::FIRST);
        let mut run_start = RunStart::new(
            self.run.clone(),
            self.workflow.clone(),
            version,
            self.input.clone(),
            now,
        );
        run_start.deadline = self.deadline.map(|within| now.plus(within));
        run_start.retention =
            self.retention.or(registered.map_or(Some(RETENTION), |r| r.retention));
        run_start.attributes = self.attributes.clone();
        run_start.metadata = self.metadata.clone();
        run_start
    }

    fn recognize(
        &self,
        run_start: &RunStart,
        there: &Summarized,
    ) -> Result<Proposal<RequestOutcome>, RunError> {
        if run_start.is_of(&there.summary) {
            return Ok(Proposal::Answer(RequestOutcome::Known));
        }
        Err(RunError::OtherRun {
            run: self.run.clone(),
            there: there.summary.workflow.clone(),
            there_input: there.summary.input_digest.clone(),
            asked: self.workflow.clone(),
            asked_input: run_start.input_digest(),
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
    ) -> BoxFuture<'a, Result<Proposal<RequestOutcome>, RunError>> {
        self.propose(tidelock).boxed()
    }
}
