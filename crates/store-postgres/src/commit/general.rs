//! The general path: judges and writes a batch of commits in one transaction.
//!
//! It takes two round trips. The first locks every row that the batch names, always in the same
//! order (streams, records, items, each by name), and reads it. Then each commit is judged in turn
//! by the contract's own rule ([`plan::decide`]), against the rows as the earlier commits of the
//! batch will leave them. The second trip writes the result and commits. A refused commit does not
//! affect the others of the batch.
//!
//! A row that does not exist yet cannot be locked. A commit that creates one inserts it. If another
//! transaction was first, the server refuses the whole batch, and it is repeated with that row in
//! view.

mod columns;
mod foreign;
mod pipeline;
mod rows;
mod writes;

use tidelock_store::plan::{self, Decided};
use tidelock_store::{
    Adjusted, Adjustment, Commit, CommitOutcome, Committed, Item, ItemFilter, ItemRef, Position,
    Result, StoreError, StoreErrorKind, Timestamp, Topic,
};

use super::{Verdict, check_replicated};
use crate::connect::{BEGIN, Session};
use crate::error::{commit_failed, failed, is_race};
use crate::leases;
pub(crate) use foreign::{Foreign, ForeignCommit};
use pipeline::Pipeline;
use rows::{Absent, Loaded, Wanted};
use writes::Writes;

/// How often a batch is retried because of concurrent writes to the same rows.
const TRIES: u32 = 20;

/// Commits the batch, and answers for each of its commits. An error concerns the whole batch.
pub(super) async fn commit(session: &Session, batch: &[&Commit]) -> Result<Vec<Verdict>> {
    let (mut tries, mut absent) = (0, Absent::Leave);
    loop {
        tries += 1;
        match try_commit(session, absent, batch).await {
            Err(Failure::Absent) => absent = Absent::Hold,
            Err(Failure::Race(_)) if tries < TRIES => pause(tries).await,
            Err(Failure::Race(error)) => return Err(commit_failed(error)),
            Err(failure @ Failure::Store(_)) => return Err(failure.into_error()),
            Ok(verdicts) => return Ok(verdicts),
        }
    }
}

/// Adjusts the items that still pass the filter once they are locked.
pub(crate) async fn adjust(
    session: &Session,
    items: &[ItemRef],
    filter: &ItemFilter,
    adjustment: &Adjustment,
) -> Result<(Adjusted, Vec<Topic>)> {
    let wanted = Wanted::items(items);
    let loaded = load(session, Begin::Now, &wanted).await.map_err(Failure::into_error)?;
    let matching: Vec<&Item> = loaded.items().filter(|item| filter.matches(item)).collect();
    let changed = leases::adjusted(&matching, adjustment, loaded.now);
    let adjusted = Adjusted { matched: matching.len() as u64, changed: changed.len() as u64 };
    let topics = changed.iter().map(|item| Topic::Queue(item.item.queue.clone())).collect();
    let mut writes = Writes::new(&loaded);
    changed.into_iter().for_each(|item| writes.put_item(item, true));
    write(session, &writes).await.map_err(Failure::into_error)?;
    Ok((adjusted, topics))
}

/// Why an attempt failed.
enum Failure {
    /// A concurrent transaction wrote the same rows; a retry may succeed.
    Race(tokio_postgres::Error),
    /// The commit relies on the absence of rows that others could create in the meantime.
    Absent,
    Store(StoreError),
}

impl Failure {
    fn into_error(self) -> StoreError {
        match self {
            Self::Race(error) => commit_failed(error),
            Self::Absent => StoreError::corrupt("a row that was held against others is not there"),
            Self::Store(error) => error,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Makes one commit in a transaction that was begun before, and ends it. Other statements of the
/// transaction are committed with it. They are rolled back if the commit is refused, or if it was
/// made before, because then they were committed with it the first time.
pub(crate) async fn commit_begun(session: &Session, begun: &Commit) -> Result<Verdict> {
    let wanted = Wanted::by(&[begun], Absent::Hold);
    let mut loaded = load(session, Begin::Before, &wanted).await.map_err(Failure::into_error)?;
    let decided = plan::decide(begun, loaded.now, &mut loaded);
    if was_made_before(begun, &decided, &loaded) {
        roll_back(session).await;
        return only(commit(session, &[begun]).await?);
    }
    let mut writes = Writes::new(&loaded);
    match judge(decided, &mut loaded, &mut writes) {
        Ok(mut verdict) => {
            verdict.date(&write(session, &writes).await.map_err(Failure::into_error)?)?;
            Ok(verdict)
        }
        Err(error) => {
            roll_back(session).await;
            Err(error)
        }
    }
}

/// Whether a commit would be accepted because it, or a part of it, was committed before.
fn was_made_before(commit: &Commit, decided: &Result<Decided>, loaded: &Loaded) -> bool {
    match decided {
        Ok(Decided::Replay(_)) => true,
        Ok(Decided::Apply(plan)) => {
            plan.committed.appends.iter().any(|appended| appended.replayed)
                || commit.settlements.iter().any(|settlement| loaded.was_settled_so(settlement))
        }
        Ok(Decided::Conflict(_)) | Err(_) => false,
    }
}

fn only(verdicts: Vec<Verdict>) -> Result<Verdict> {
    verdicts
        .into_iter()
        .next()
        .ok_or_else(|| StoreError::corrupt("a batch of one commit had no answer"))
}

/// When the transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    Now,
    Before,
}

async fn try_commit(
    session: &Session,
    absent: Absent,
    batch: &[&Commit],
) -> std::result::Result<Vec<Verdict>, Failure> {
    let mut loaded = load(session, Begin::Now, &Wanted::by(batch, absent)).await?;
    if absent == Absent::Leave && loaded.could_be_created(batch) {
        roll_back(session).await;
        return Err(Failure::Absent);
    }
    let mut writes = Writes::new(&loaded);
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(batch.len());
    for commit in batch {
        let decided = plan::decide(commit, loaded.now, &mut loaded);
        match judge(decided, &mut loaded, &mut writes) {
            Ok(verdict) => verdicts.push(verdict),
            Err(error) => {
                roll_back(session).await;
                return Err(error.into());
            }
        }
    }
    let placed = write(session, &writes).await?;
    for verdict in &mut verdicts {
        verdict.date(&placed)?;
    }
    Ok(verdicts)
}

/// Records the effect of a commit. Its own mistake is its answer; any other error rolls back the
/// batch.
fn judge(decided: Result<Decided>, loaded: &mut Loaded, writes: &mut Writes) -> Result<Verdict> {
    let (outcome, topics) = match decided {
        Ok(Decided::Apply(plan)) => {
            let topics = plan.topics().collect();
            let committed = plan.committed.clone();
            loaded.apply(&plan, writes);
            writes.confirm();
            (Ok(CommitOutcome::Committed(committed)), topics)
        }
        Ok(Decided::Replay(committed)) => {
            writes.confirm();
            (Ok(CommitOutcome::Committed(committed)), Vec::new())
        }
        Ok(Decided::Conflict(conflict)) => (Ok(CommitOutcome::Conflict(conflict)), Vec::new()),
        Err(error) if error.kind() == StoreErrorKind::IdempotencyMismatch => {
            (Err(error), Vec::new())
        }
        Err(error) => return Err(error),
    };
    Ok(Verdict { outcome, topics })
}

/// The positions of new events, in the order in which they were counted, and the moment.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) positions: Vec<Position>,
    pub(crate) at: Timestamp,
}

impl Verdict {
    /// Replaces provisional positions and the provisional moment by the real ones.
    fn date(&mut self, placed: &Placed) -> Result<()> {
        match &mut self.outcome {
            Ok(CommitOutcome::Committed(committed)) => date(committed, placed),
            _ => Ok(()),
        }
    }
}

/// New positions are not known before everything is written. Until then they are counted, starting
/// at 1 above this.
const PROVISIONAL: u64 = 1 << 62;

pub(crate) fn provisional(nth: u64) -> Position {
    Position::START.plus(PROVISIONAL + nth)
}

/// The number of a provisional position, counted from 1; none for a real one.
pub(crate) fn ordinal(position: Position) -> Option<u64> {
    position.get().checked_sub(PROVISIONAL)
}

fn date(committed: &mut Committed, placed: &Placed) -> Result<()> {
    if replace_provisional(committed, |nth| real(placed, nth))? {
        committed.at = placed.at;
    }
    Ok(())
}

fn real(placed: &Placed, nth: u64) -> Result<Position> {
    let position =
        usize::try_from(nth).ok().and_then(|nth| placed.positions.get(nth.checked_sub(1)?));
    position.copied().ok_or_else(|| StoreError::corrupt("a commit has more events than positions"))
}

/// Replaces every provisional position; returns whether there was any.
pub(crate) fn replace_provisional(
    committed: &mut Committed,
    with: impl Fn(u64) -> Result<Position>,
) -> Result<bool> {
    let mut any = false;
    for (first, last) in
        committed.appends.iter_mut().filter_map(|appended| appended.positions.as_mut())
    {
        for position in [first, last] {
            if let Some(nth) = ordinal(*position) {
                (*position, any) = (with(nth)?, true);
            }
        }
    }
    Ok(any)
}

/// A remembered commit, with real positions; dated as it was the first time.
pub(crate) fn recall(mut committed: Committed, placed: &Placed) -> Result<Committed> {
    replace_provisional(&mut committed, |nth| real(placed, nth))?;
    committed.at = placed.at;
    Ok(committed)
}

/// Begins a transaction, locks and reads the rows: one round trip.
async fn load(
    session: &Session,
    begin: Begin,
    wanted: &Wanted,
) -> std::result::Result<Loaded, Failure> {
    session.prepare_all(&rows::STATEMENTS).await.map_err(failed)?;
    let mut pipeline = Pipeline::default();
    let asked = wanted.ask(&mut pipeline);
    let before = (begin == Begin::Now).then_some(BEGIN);
    let loaded = match pipeline.send(session, before, None).await {
        Ok(answers) => Loaded::read(&asked, &answers).map_err(Failure::from),
        // Nothing was written yet, so even a lost connection leaves no doubt.
        Err(error) if is_race(&error) => Err(Failure::Race(error)),
        Err(error) => Err(failed(error).into()),
    };
    if loaded.is_err() {
        roll_back(session).await;
    }
    loaded
}

/// Writes everything and commits: one round trip.
async fn write(session: &Session, writes: &Writes) -> std::result::Result<Placed, Failure> {
    if writes.is_empty() {
        roll_back(session).await;
        return Ok(Placed { positions: Vec::new(), at: writes.now });
    }
    if let Err(error) = session.prepare_all(&writes::STATEMENTS).await {
        roll_back(session).await;
        return Err(failed(error).into());
    }
    let warnings = session.warnings();
    let mut pipeline = Pipeline::default();
    let events = writes.send(&mut pipeline);
    let answers =
        pipeline.send(session, None, Some("COMMIT")).await.map_err(|error| {
            match is_race(&error) {
                true => Failure::Race(error),
                false => commit_failed(error).into(),
            }
        })?;
    check_replicated(session, warnings)?;
    Ok(writes.placed(answers.rows(events))?)
}

async fn roll_back(session: &Session) {
    // On a lost connection the server rolls back by itself.
    let _ = session.execute("ROLLBACK").await;
}

/// Backs off, longer each time, with jitter.
async fn pause(tries: u32) {
    let most = 200_u64 << tries.min(6);
    let jitter = uuid::Uuid::now_v7().as_u128() as u64 % most;
    tokio::time::sleep(std::time::Duration::from_micros(jitter)).await;
}
