//! A commit in a transaction of the caller, on the caller's connection.
//!
//! It is the general path with three differences. It works inside a savepoint: a conflict or an
//! error undoes what it did and leaves the caller's own statements standing. It ends without a
//! COMMIT, so every lock, and the ticket of the feed, is held until the caller ends the
//! transaction. And it may be dropped half-way, with the caller free to commit: so from its first
//! write to its last, a cursor is open that the server cannot complete at a COMMIT.
//!
//! Under REPEATABLE READ and SERIALIZABLE the snapshot is as old as the transaction. Rows that are
//! locked or created there are refused by the server if they have changed since (40001). What is
//! read without a lock, the moment and the floors, comes from a connection of the store instead,
//! after the locks are held; nothing that was removed or numbered since the snapshot is missed.

use tidelock_store::plan::{self, Decided};
use tidelock_store::{
    Commit, CommitOutcome, Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation,
    Timestamp, Topic,
};

use super::pipeline::{Answers, Pipeline};
use super::rows::{Absent, Limits, Loaded, MOMENT, VERSION_FLOORS, Wanted};
use super::writes::Writes;
use super::{judge, pause, was_made_before};
use crate::Shared;
use crate::error::{foreign_failed, is_race_code};
use crate::executor::{ExecutorError, SqlExecutor, SqlRow};
use crate::read_column::ReadColumn;
use crate::statement::{Statement, statement};

/// How often an attempt is repeated that lost a race, where a repeat can see the winner.
const TRIES: u32 = 5;

/// The cursor stops a COMMIT: the server completes a held cursor then, which fails with this text.
/// (The condition is always true; without it, the cast would be tried when the cursor is declared.)
const BEGIN: &str = "SAVEPOINT tidelock; DECLARE tidelock_unfinished NO SCROLL CURSOR WITH HOLD FOR \
    SELECT (CASE WHEN random() >= 0 THEN 'a call to Tidelock was cut off, roll back' END)::integer";
const FINISH: &str = "CLOSE tidelock_unfinished; RELEASE SAVEPOINT tidelock";
const UNDO: &str = "ROLLBACK TO SAVEPOINT tidelock; RELEASE SAVEPOINT tidelock";

static CHECK: Statement = statement!(
    "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only'),
            current_setting('synchronous_commit'), tidelock.home()"
);
static HOME: Statement = statement!("SELECT tidelock.home()");
/// The date of the newest event, or later.
static LAST_MOMENT: Statement = statement!("SELECT moment FROM tidelock.last()");

/// A transaction of the caller, and the store that commits in it.
pub(crate) struct Foreign<'a> {
    pub(crate) executor: &'a mut dyn SqlExecutor,
    pub(crate) shared: &'a Shared,
}

/// What a commit came to, in a transaction that is still open.
#[derive(Debug)]
pub(crate) struct ForeignCommit {
    pub(crate) outcome: CommitOutcome,
    pub(crate) made_before: bool,
    pub(crate) topics: Vec<Topic>,
    /// Whether it has written anything that has to stay.
    is_standing: bool,
}

/// What the snapshot of a transaction shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    /// Each statement sees what was committed before it.
    PerStatement,
    /// All statements see what was committed before the first of the transaction.
    PerTransaction,
}

enum Failure {
    Executor(ExecutorError),
    Store(StoreError),
}

impl From<ExecutorError> for Failure {
    fn from(error: ExecutorError) -> Self {
        Self::Executor(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Foreign<'_> {
    /// Makes the commit, as far as it can be made before the caller's own COMMIT.
    pub(crate) async fn commit(&mut self, commit: &Commit) -> Result<ForeignCommit> {
        let (mut tries, mut snapshot) = (0, None);
        loop {
            tries += 1;
            self.executor.execute(BEGIN).await.map_err(not_begun)?;
            let failure = match self.attempt(commit, &mut snapshot).await {
                Ok(made) => {
                    let end = if made.is_standing { FINISH } else { UNDO };
                    self.executor.execute(end).await.map_err(foreign_failed)?;
                    return Ok(made);
                }
                Err(failure) => failure,
            };
            // On a lost connection the server undoes everything by itself.
            let undone = self.executor.execute(UNDO).await.is_ok();
            match failure {
                Failure::Executor(error) if is_race_code(error.code()) => {
                    if !undone || snapshot != Some(Snapshot::PerStatement) || tries == TRIES {
                        return Err(lost_race(error));
                    }
                    pause(tries).await;
                }
                Failure::Executor(error) => return Err(foreign_failed(error)),
                Failure::Store(error) => return Err(error),
            }
        }
    }

    async fn attempt(
        &mut self,
        commit: &Commit,
        snapshot: &mut Option<Snapshot>,
    ) -> std::result::Result<ForeignCommit, Failure> {
        let snapshot = match *snapshot {
            Some(known) => known,
            None => *snapshot.insert(self.check().await?),
        };
        let wanted = Wanted::by(&[commit], Absent::Hold);
        let (mut loaded, not_before) = self.load(&wanted, snapshot).await?;
        let decided = plan::decide(commit, loaded.now, &mut loaded);
        let made_before = was_made_before(commit, &decided, &loaded);
        let is_standing = matches!(decided, Ok(Decided::Apply(_)));
        let mut writes = Writes::new(&loaded);
        let mut verdict = judge(decided, &mut loaded, &mut writes)?;
        if is_standing {
            // The clock's row would stay locked until the caller commits, and that commit waits for
            // the disk and the standbys anyway.
            writes.without_confirmation();
            not_before.into_iter().for_each(|moment| writes.not_before(moment));
            let mut pipeline = Pipeline::default();
            let events = writes.send(&mut pipeline);
            let answers = self.send(pipeline).await?;
            verdict.date(&writes.placed(answers.rows(events))?)?;
        }
        Ok(ForeignCommit {
            outcome: verdict.outcome?,
            made_before,
            topics: verdict.topics,
            is_standing,
        })
    }

    /// Locks and reads the rows. Also returns the moment before which no event may be dated, if the
    /// transaction itself cannot see it.
    async fn load(
        &mut self,
        wanted: &Wanted,
        snapshot: Snapshot,
    ) -> std::result::Result<(Loaded, Option<Timestamp>), Failure> {
        let mut pipeline = Pipeline::default();
        let asked = wanted.ask(&mut pipeline);
        let answers = self.send(pipeline).await?;
        if snapshot == Snapshot::PerStatement {
            return Ok((Loaded::read(&asked, &answers)?, None));
        }
        let (reader, categories) = (self.shared.readers.reader(), wanted.categories());
        let moment = reader.read(&MOMENT, &[]).await?;
        let floors = reader.read(&VERSION_FLOORS, &[categories]).await?;
        let last = reader.read(&LAST_MOMENT, &[]).await?;
        let last = last.first().map(|row| row.column(0)).transpose()?;
        let last = last.map(Timestamp::from_micros).transpose()?;
        Ok((Loaded::within(Limits::read(&moment, &floors)?, &asked, &answers)?, last))
    }

    /// Checks that the transaction is in the store's database, and may commit to it.
    async fn check(&mut self) -> std::result::Result<Snapshot, Failure> {
        let mut pipeline = Pipeline::default();
        let asked = pipeline.add(&CHECK, &[]);
        let answers = match self.send(pipeline).await {
            Err(error) if is_missing(&error) => return Err(elsewhere(self.schema()).into()),
            answered => answered?,
        };
        let row = answers.rows(Some(asked)).first();
        let row = row.ok_or_else(|| StoreError::corrupt("the server told nothing about itself"))?;
        if row.column::<&str>(1)? == "on" {
            return Err(StoreError::invalid("the transaction is read only").into());
        }
        if row.column::<&str>(2)? == "off" && !self.shared.allow_lossy {
            return Err(StoreError::invalid(
                "synchronous_commit is off in the transaction, so a crash could undo what is acknowledged: leave it on, \
                 or open the store with lossy=allow",
            )
            .into());
        }
        let isolation: &str = row.column(0)?;
        let snapshot = match isolation {
            "repeatable read" | "serializable" => Snapshot::PerTransaction,
            _ => Snapshot::PerStatement,
        };
        check_home(self.shared, row.column(3)?).await?;
        Ok(snapshot)
    }

    async fn send(
        &mut self,
        pipeline: Pipeline,
    ) -> std::result::Result<Answers<SqlRow>, ExecutorError> {
        let shared = self.shared;
        pipeline.send_to(self.executor, &shared.connector.schema).await
    }

    fn schema(&self) -> &str {
        &self.shared.connector.schema
    }
}

/// The identity may have changed since the store's newest connection, when the server was restarted
/// or replaced. Then the store connects again before anything is refused.
async fn check_home(shared: &Shared, home: &str) -> Result<()> {
    let connector = &shared.connector;
    if connector.identity.home().as_deref() == Some(home) {
        return Ok(());
    }
    let rows = shared.readers.reader().read(&HOME, &[]).await?;
    let ours: Option<&str> = rows.first().map(|row| row.column(0)).transpose()?;
    if ours == Some(home) { Ok(()) } else { Err(elsewhere(&connector.schema)) }
}

/// The schema, or a table or function of it, is not there.
fn is_missing(error: &ExecutorError) -> bool {
    matches!(error.code(), Some("3F000" | "42P01" | "42883"))
}

fn elsewhere(schema: &str) -> StoreError {
    StoreError::invalid(format!(
        "the transaction is on another server or in another database than the store (schema {schema:?}), so they cannot \
         commit together"
    ))
}

fn not_begun(error: ExecutorError) -> StoreError {
    let why = match error.code() {
        Some("25P01") => "no transaction is open on the connection: begin one, and pass it",
        Some("25P02") => "the transaction has failed before: roll it back, and begin again",
        Some("42P03") => {
            "an earlier call was cut off in this transaction: roll it back, and begin again"
        }
        _ => return foreign_failed(error),
    };
    StoreError::invalid(why).caused_by(error)
}

fn lost_race(error: ExecutorError) -> StoreError {
    let context = format!(
        "a concurrent transaction wrote the same rows: roll back and run the transaction again ({error})"
    );
    StoreError::new(
        StoreErrorKind::Unavailable,
        RetryAdvice::Later,
        StoreOperation::Commit,
        context,
    )
    .caused_by(error)
}
