//! Filters of run listings.

use std::collections::BTreeMap;

use tidelock_store::Timestamp;

use crate::runs::{InvalidName, RunInfo, RunState, WorkflowName};

/// Selects runs that match all of its criteria. The default matches all.
///
/// # Examples
///
/// ```
/// # use tidelock::runs::{RunFilter, RunState};
/// let failed = RunFilter::all().state(RunState::Failed).workflow("checkout");
/// let failed_in_shop = failed.attribute("shop", "7");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub(super) states: Vec<RunState>,
    pub(super) workflow: Option<Result<WorkflowName, InvalidName>>,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) since: Option<Timestamp>,
    pub(super) before: Option<Timestamp>,
}

impl RunFilter {
    /// Matches every run.
    pub fn all() -> Self {
        Self::default()
    }

    /// Restricts to this state. Repeated calls allow several states.
    #[must_use]
    pub fn state(mut self, state: RunState) -> Self {
        if !self.states.contains(&state) {
            self.states.push(state);
        }
        self
    }

    /// Restricts to this workflow.
    #[must_use]
    pub fn workflow(mut self, workflow: impl AsRef<str>) -> Self {
        self.workflow = Some(WorkflowName::new(workflow));
        self
    }

    /// Restricts to runs with this attribute. Repeated calls require all of them.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Restricts to runs started at this time or later.
    #[must_use]
    pub fn since(mut self, moment: Timestamp) -> Self {
        self.since = Some(moment);
        self
    }

    /// Restricts to runs started before this time.
    #[must_use]
    pub fn before(mut self, moment: Timestamp) -> Self {
        self.before = Some(moment);
        self
    }

    /// Whether runs in this state can match.
    pub(in crate::runs::client) fn allows(&self, state: RunState) -> bool {
        self.states().contains(&state)
    }

    /// Restricts to this state alone.
    pub(in crate::runs::client) fn only(self, state: RunState) -> Self {
        Self { states: vec![state], ..self }
    }

    pub(super) fn states(&self) -> &[RunState] {
        if self.states.is_empty() { &RunState::ALL } else { &self.states }
    }

    /// Whether this run matches.
    pub(super) fn passes(&self, run: &RunInfo) -> bool {
        self.states().contains(&run.state)
            && self.workflow.as_ref().is_none_or(|name| name.as_ref() == Ok(&run.workflow))
            && self.attributes.iter().all(|(name, value)| run.attributes.get(name) == Some(value))
            && self.since.is_none_or(|since| since <= run.started_at)
            && self.before.is_none_or(|before| run.started_at < before)
    }
}
