//! Which runs are meant.

use std::collections::BTreeMap;

use tidelock_store::{Timestamp, limits};

use super::RunCursor;
use crate::runs::{InvalidName, RunInfo, RunState, WorkflowName};

/// How many runs a page has, unless something else is asked for.
const PAGE: usize = 100;

/// Which runs are meant: those that pass every part of it. By default all.
///
/// ```
/// # use tidelock::runs::{RunFilter, RunState};
/// let stuck = RunFilter::all().state(RunState::Failed).workflow("checkout").attribute("shop", "7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    pub(super) states: Vec<RunState>,
    pub(super) workflow: Option<Result<WorkflowName, InvalidName>>,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) since: Option<Timestamp>,
    pub(super) before: Option<Timestamp>,
    pub(super) after: Option<RunCursor>,
    pub(super) limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self::all()
    }
}

impl RunFilter {
    /// Every run.
    pub fn all() -> Self {
        Self {
            states: Vec::new(),
            workflow: None,
            attributes: BTreeMap::new(),
            since: None,
            before: None,
            after: None,
            limit: PAGE,
        }
    }

    /// The same, in this state; said more than once, in one of these states.
    #[must_use]
    pub fn state(mut self, state: RunState) -> Self {
        if !self.states.contains(&state) {
            self.states.push(state);
        }
        self
    }

    /// The same, of this workflow.
    #[must_use]
    pub fn workflow(mut self, workflow: &str) -> Self {
        self.workflow = Some(WorkflowName::new(workflow));
        self
    }

    /// The same, with this attribute; said more than once, with all of them.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// The same, started at this moment or later.
    #[must_use]
    pub fn since(mut self, moment: Timestamp) -> Self {
        self.since = Some(moment);
        self
    }

    /// The same, started before this moment.
    #[must_use]
    pub fn before(mut self, moment: Timestamp) -> Self {
        self.before = Some(moment);
        self
    }

    /// The same, from where a page ended.
    #[must_use]
    pub fn after(mut self, place: RunCursor) -> Self {
        self.after = Some(place);
        self
    }

    /// The same, so many at once, from 1 up to 1,000; a page of none is refused.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.min(limits::PAGE_SIZE);
        self
    }

    pub(super) fn states(&self) -> &[RunState] {
        if self.states.is_empty() { &RunState::ALL } else { &self.states }
    }

    /// Whether this run is meant, wherever it is in the listing.
    pub(super) fn passes(&self, run: &RunInfo) -> bool {
        self.states().contains(&run.state)
            && self.workflow.as_ref().is_none_or(|name| name.as_ref() == Ok(&run.workflow))
            && self.attributes.iter().all(|(name, value)| run.attributes.get(name) == Some(value))
            && self.since.is_none_or(|since| since <= run.started_at)
            && self.before.is_none_or(|before| run.started_at < before)
    }
}
