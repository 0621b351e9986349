//! Histories: the record of every client operation, from its invocation to its outcome.
//!
//! A history is plain data, so that a simulated process and a real one write the same. Real
//! processes write it as JSON lines, one [`Entry`] each: the invocation before the call, the return
//! after it. An operation whose process died has no return, and its outcome is unknown.
//!
//! Names are plain strings and numbers are plain numbers here: a checker must not share a decision
//! with the code that it checks.

mod action;
mod audit;
mod convert;
pub mod list_value;
mod note;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

pub use action::{
    Action, Answer, Change, Commit, EventRef, Expected, Expiry, Found, Grant, Outcome, Part,
    PartAnswer, Refusal, Slot, StreamRead,
};
pub use audit::{Audit, FinalStream, Pending};
pub use convert::{
    commit, committed, event, grant, landed, micros, refusals, right, slot, stream_read,
};
pub use note::{Note, Phase, Remark, StepPromise};

/// A moment of a process.
///
/// Moments are compared by their number: it grows in real time across all processes of the history
/// (a counter in a simulation, the machine's monotonic clock for real processes).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// The number of the moment.
    pub seq: u64,
    /// The store's clock at that moment, in microseconds, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
}

/// The author of an operation: one client of one process. A client does one thing at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Client {
    /// The process, with a different name after each restart.
    pub process: String,
    /// The client in it.
    pub number: u64,
}

/// One operation of one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The author.
    pub client: Client,
    /// A moment before the call.
    pub invoked: Moment,
    /// A moment after the answer; none if there was no answer.
    pub returned: Option<Moment>,
    /// What was asked.
    pub action: Action,
    /// What was answered.
    pub outcome: Outcome,
}

impl Operation {
    /// What was answered, if it was done.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Done(answer) => Some(answer),
            _ => None,
        }
    }

    /// A name for explanations.
    pub fn name(&self) -> String {
        let end = self.returned.map_or("".to_owned(), |end| end.seq.to_string());
        let Client { process, number } = &self.client;
        format!("{}..{end} {process}/{number} {}", self.invoked.seq, self.action.name())
    }
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A client is about to call.
    Invoked {
        /// The operation's number: unique in its process.
        op: u64,
        /// The author.
        client: Client,
        /// A moment before the call.
        moment: Moment,
        /// What is asked.
        action: Action,
    },
    /// The call has ended.
    Returned {
        /// The operation's number.
        op: u64,
        /// The author's process.
        process: String,
        /// A moment after the answer.
        moment: Moment,
        /// What was answered.
        outcome: Outcome,
    },
    /// Something that is not a call.
    Remark(Remark),
}

/// Everything that the clients of one store did and were told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The operations, by invocation.
    pub operations: Vec<Operation>,
    /// What is not a call, by moment.
    pub remarks: Vec<Remark>,
}

impl History {
    /// Joins invocations and returns, in any order of processes.
    pub fn from_entries(entries: impl IntoIterator<Item = Entry>) -> Self {
        let (mut history, mut open) = (Self::default(), HashMap::new());
        for entry in entries {
            match entry {
                Entry::Invoked { op, client, moment, action } => {
                    open.insert((client.process.clone(), op), history.operations.len());
                    history.operations.push(Operation {
                        client,
                        invoked: moment,
                        returned: None,
                        action,
                        outcome: Outcome::Unknown("the process ended".to_owned()),
                    });
                }
                Entry::Returned { op, process, moment, outcome } => {
                    if let Some(at) = open.remove(&(process, op)) {
                        history.operations[at].returned = Some(moment);
                        history.operations[at].outcome = outcome;
                    }
                }
                Entry::Remark(remark) => history.remarks.push(remark),
            }
        }
        history.sort();
        history
    }

    /// Sorts by moment, as every checker expects.
    pub fn sort(&mut self) {
        self.operations.sort_by_key(|operation| operation.invoked.seq);
        self.remarks.sort_by_key(|remark| remark.moment.seq);
    }

    /// Reads JSON lines. A torn last line, of a killed process, is ignored.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        let (mut entries, mut torn) = (Vec::new(), None);
        for line in from.lines() {
            if let Some(e) = torn.take() {
                return Err(e);
            }
            let line = line?;
            match serde_json::from_str::<Entry>(&line) {
                Ok(entry) => entries.push(entry),
                Err(e) => torn = (!line.is_empty()).then(|| io::Error::other(e)),
            }
        }
        Ok(Self::from_entries(entries))
    }

    /// Writes JSON lines that [`read`](Self::read) reads.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let mut line = |entry: &Entry| {
            serde_json::to_writer(&mut to, entry)?;
            to.write_all(b"\n")
        };
        for (op, operation) in (0..).zip(&self.operations) {
            let Operation { client, invoked, returned, action, outcome } = operation.clone();
            let process = client.process.clone();
            line(&Entry::Invoked { op, client, moment: invoked, action })?;
            if let Some(moment) = returned {
                line(&Entry::Returned { op, process, moment, outcome })?;
            }
        }
        self.remarks.iter().try_for_each(|remark| line(&Entry::Remark(remark.clone())))
    }
}
