//! Commit paths: the ways of a commit to the server, and the one place that chooses among them.
//!
//! A path says who judges. On the [append](append) path the server compares the version of a
//! stream, on the [records](records) path the revisions of records: one round trip each. On the
//! [general](general) path the rows are locked and read, the contract's own rule judges, and the
//! result is written: two round trips. A commit that a fast path does not accept takes the general
//! path, so the meaning of a commit stays in one place.

mod append;
mod committer;
mod general;
mod queue;
mod records;

use std::collections::HashSet;

use tidelock_store::{
    Commit, CommitId, CommitOutcome, EventId, RecordKey, Result, RetryAdvice, StoreError,
    StoreErrorKind, StoreOperation, StreamName, Topic,
};
use tokio_postgres::Row;

use crate::connect::{Parameters, Session};
use crate::error::{commit_failed, is_race};
use crate::statement::Statement;
use queue::Job;

pub(crate) use committer::Committer;
pub(crate) use general::{Foreign, ForeignCommit, adjust, commit_begun};

/// Fast-path commits take the general path with the rest if there is fewer than one of them in this
/// many.
const FEW: usize = 8;

/// The path that a commit takes to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitPath {
    Append,
    Records,
    General,
}

/// The answer to one commit, and the topics to notify.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) outcome: Result<CommitOutcome>,
    pub(crate) topics: Vec<Topic>,
}

/// The answers of a fast path, in order; none where the general path must find the answer.
type FastVerdicts = Vec<Option<Verdict>>;

impl CommitPath {
    fn of(commit: &Commit) -> Self {
        if append::is_plain(commit) {
            Self::Append
        } else if records::is_plain(commit) {
            Self::Records
        } else {
            Self::General
        }
    }

    /// Makes commits of this path that share no name, in one statement.
    async fn try_fast(self, session: &Session, commits: &[&Commit]) -> Result<FastVerdicts> {
        match self {
            _ if commits.is_empty() => Ok(Vec::new()),
            Self::Append => append::append(session, commits).await,
            Self::Records => records::write(session, commits).await,
            Self::General => Ok(commits.iter().map(|_| None).collect()),
        }
    }
}

/// A batch, by path. The commits of a fast path share a statement, so each name occurs once.
#[derive(Debug, Default)]
struct BatchPlan {
    appends: Vec<Job>,
    records: Vec<Job>,
    general: Vec<Job>,
}

impl BatchPlan {
    fn of(batch: Vec<Job>) -> Self {
        let mut names = Names::default();
        let mut paths = Vec::with_capacity(batch.len());
        for job in &batch {
            let fits = job.path != CommitPath::General && names.take(&job.commit);
            paths.push(if fits { job.path } else { CommitPath::General });
        }
        let mut plan = Self::default();
        for (job, path) in batch.into_iter().zip(paths) {
            let jobs = match path {
                CommitPath::Append => &mut plan.appends,
                CommitPath::Records => &mut plan.records,
                CommitPath::General => &mut plan.general,
            };
            jobs.push(job);
        }
        plan.stay_together();
        plan
    }

    /// When nearly all commits take the general path, a separate trip for the few that need not
    /// would delay everything.
    fn stay_together(&mut self) {
        if (self.appends.len() + self.records.len()) * FEW < self.general.len() {
            self.general.append(&mut self.appends);
            self.general.append(&mut self.records);
        }
    }
}

/// The names that earlier commits of a batch use.
#[derive(Debug, Default)]
struct Names<'a> {
    streams: HashSet<&'a StreamName>,
    events: HashSet<EventId>,
    records: HashSet<&'a RecordKey>,
    commits: HashSet<CommitId>,
}

impl<'a> Names<'a> {
    /// Takes the names of a commit; false if an earlier commit has one of them.
    fn take(&mut self, commit: &'a Commit) -> bool {
        let mut events = commit.appends.iter().flat_map(|append| &append.events);
        commit.appends.iter().all(|append| self.streams.insert(&append.stream))
            && events.all(|event| self.events.insert(event.id))
            && commit.writes.iter().all(|write| self.records.insert(&write.key))
            && commit.id.is_none_or(|id| self.commits.insert(id))
    }
}

/// Runs a statement that commits by itself; none if the server rolled it back because of a
/// concurrent write.
async fn query_committing(
    session: &Session,
    statement: &'static Statement,
    with: Parameters<'_>,
) -> Result<Option<Vec<Row>>> {
    let warnings = session.warnings();
    match session.query(statement, with).await {
        Err(error) if is_race(&error) => Ok(None),
        answered => {
            let rows = answered.map_err(commit_failed)?;
            check_replicated(session, warnings)?;
            Ok(Some(rows))
        }
    }
}

/// A warning during a commit means that the server stopped waiting for a standby.
fn check_replicated(session: &Session, warnings_before: u64) -> Result<()> {
    if session.warnings() == warnings_before {
        return Ok(());
    }
    let context = "the server committed, but stopped waiting for its synchronous standby (its warning is in the log)";
    Err(StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Unknown,
        StoreOperation::Commit,
        context,
    ))
}
