//! The commit that starts a run: for callers, parents, reactions and schedules.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidelock_store::{Commit, ExpectedVersion, RawJson, Result, Timestamp, Wake, When};
use uuid::Uuid;

use super::history::{Entry, Started};
use super::summary::{Parent, RunState, Summary};
use super::{RunId, WorkflowName, WorkflowVersion, keys};
use crate::metadata::Metadata;

/// Everything that a run starts with.
#[derive(Debug, Clone)]
pub(crate) struct RunStart {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowName,
    pub(crate) version: WorkflowVersion,
    pub(crate) input: RawJson,
    /// The start time, by the store's clock.
    pub(crate) at: Timestamp,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) parent: Option<Parent>,
    pub(crate) attributes: BTreeMap<String, String>,
    /// How long it is kept after its end; `None` keeps it indefinitely.
    pub(crate) retention: Option<Duration>,
    /// Metadata of the events that the run causes.
    pub(crate) metadata: Metadata,
}

impl RunStart {
    /// A run of this workflow without a parent or a deadline.
    pub(crate) fn new(
        run: RunId,
        workflow: WorkflowName,
        version: WorkflowVersion,
        input: RawJson,
        at: Timestamp,
    ) -> Self {
        let (deadline, parent, retention) = (None, None, None);
        let (attributes, metadata) = (BTreeMap::new(), Metadata::new());
        Self {
            run,
            workflow,
            version,
            input,
            at,
            deadline,
            parent,
            attributes,
            retention,
            metadata,
        }
    }

    /// The commit that starts it: its first entry, after signals that came before; its summary,
    /// which must not exist; and its item, due at once. If the run exists, the conflict contains
    /// its summary.
    pub(crate) fn parts(&self) -> Result<Commit> {
        let entry =
            Entry::Started(self.started()).encode()?.with_metadata(self.metadata.to_json()?);
        let summary = self.summary();
        let commit = Commit::new()
            .append(&keys::stream(&self.run), ExpectedVersion::Any, [entry])
            .wake(Wake::at(summary.item(&self.run), When::NOW));
        Ok(summary.first_writes(&self.run)?.into_iter().fold(commit, Commit::write))
    }

    /// Whether the existing run is the one that this would start.
    pub(crate) fn is_of(&self, there: &Summary) -> bool {
        there.workflow == self.workflow && there.input_digest == self.input_digest()
    }

    /// The digest that identifies the input.
    pub(crate) fn input_digest(&self) -> String {
        let value = self.input.to::<Value>().unwrap_or_default();
        let mut canonical = String::new();
        write_sorted(&value, &mut canonical);
        Uuid::new_v5(&Uuid::NAMESPACE_OID, canonical.as_bytes()).to_string()
    }

    fn started(&self) -> Started {
        Started {
            workflow: self.workflow.clone(),
            version: self.version,
            input: self.input.clone(),
            parent: self.parent.clone(),
            deadline: self.deadline,
        }
    }

    fn summary(&self) -> Summary {
        Summary {
            workflow: self.workflow.clone(),
            version: self.version,
            state: RunState::Open,
            started_at: self.at,
            ended_at: None,
            deadline: self.deadline,
            parent: self.parent.clone(),
            attributes: self.attributes.clone(),
            retention: self.retention,
            input_digest: self.input_digest(),
            generation: 1,
            begins: None,
        }
    }
}

/// Writes canonical JSON with sorted keys, independent of the key order in the input and in this
/// build's JSON library.
fn write_sorted(value: &Value, to: &mut String) {
    match value {
        Value::Object(fields) => {
            to.push('{');
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            for (name, value) in sorted {
                to.push_str(&Value::from(name.as_str()).to_string());
                write_sorted(value, to);
            }
            to.push('}');
        }
        Value::Array(values) => {
            to.push('[');
            values.iter().for_each(|value| write_sorted(value, to));
            to.push(']');
        }
        // A separator, so that two numbers are not read as one.
        plain => {
            to.push_str(&plain.to_string());
            to.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn run_start(input: &str) -> RunStart {
        RunStart::new(
            RunId::new("order-7").unwrap(),
            WorkflowName::new("checkout").unwrap(),
            WorkflowVersion::FIRST,
            RawJson::parse(input).unwrap(),
            Timestamp::from_micros(7).unwrap(),
        )
    }

    #[test]
    fn the_same_input_is_known_by_what_it_says() {
        let there = run_start(r#"{"a":1,"b":2}"#).summary();
        assert!(run_start(r#"{ "b": 2, "a": 1 }"#).is_of(&there));
        assert!(!run_start(r#"{"a":1,"b":3}"#).is_of(&there));
        let digests: BTreeSet<_> =
            ["[1,2]", "[12]", "[[1],2]", "[[1,2]]", "{}", "[]", r#"{"a":{}}"#, r#""{}""#, "null"]
                .map(|input| run_start(input).input_digest())
                .into();
        assert_eq!(digests.len(), 9, "each is another");
    }

    #[test]
    fn a_start_is_one_commit() {
        let commit = run_start("{}").parts().unwrap();
        commit.check().unwrap();
        assert_eq!((commit.appends.len(), commit.writes.len(), commit.wakes.len()), (1, 2, 1));
    }
}
