//! Erasing a subject, and what the store has of one.

use serde::Serialize;
use tidelock_store::{
    Commit, ExpectedRevision, RawJson, RecordQuery, RecordWrite, Result, Store, StoreError,
    StoreExt, Timestamp, limits,
};

use crate::events::keys;

/// Guards a commit with personal data against an erased subject.
pub(crate) fn guard(commit: Commit, subject: &str) -> Result<Commit> {
    Ok(commit.guard_record(&keys::erased(subject)?, ExpectedRevision::Absent))
}

/// What a store has of a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SubjectInfo {
    /// The subject.
    pub subject: String,
    /// Events with personal data of it. More than 0 after an erasure that was interrupted.
    pub events: u64,
    /// When its erasure began, if it was erased.
    pub erased_at: Option<Timestamp>,
}

/// Reads what the store has of a subject.
pub(crate) async fn look(store: &(impl Store + ?Sized), subject: &str) -> Result<SubjectInfo> {
    check(subject)?;
    let mark = store.get_one(&keys::erased(subject)?).await?;
    let erased_at = mark.live().map(|mark| mark.value.to()).transpose()?;
    let mut personal = store.rows(RecordQuery::prefix(keys::personal_of(subject)));
    let mut events = 0;
    while personal.next().await?.is_some() {
        events += 1;
    }
    Ok(SubjectInfo { subject: subject.to_owned(), events, erased_at })
}

fn check(subject: &str) -> Result<()> {
    match subject.is_empty() {
        true => Err(StoreError::invalid("the subject is empty")),
        false => Ok(()),
    }
}

/// Erases all personal data about a subject and returns the number of events affected. Idempotent:
/// a repeated call continues an interrupted erasure.
pub(crate) async fn erase(store: &(impl Store + ?Sized), subject: &str) -> Result<usize> {
    check(subject)?;
    mark(store, subject).await?;
    // Nothing can be added after the mark, so one scan finds everything.
    let mut personal = store.rows(RecordQuery::prefix(keys::personal_of(subject)));
    let (mut erased, mut deletions) = (0, Commit::new());
    while let Some(record) = personal.next().await? {
        deletions = deletions.write(RecordWrite::delete(&record.key, ExpectedRevision::Any));
        erased += 1;
        if deletions.parts() == limits::PARTS_PER_COMMIT {
            let _expects_nothing = store.commit(std::mem::take(&mut deletions)).await?;
        }
    }
    if deletions.parts() > 0 {
        let _expects_nothing = store.commit(deletions).await?;
    }
    Ok(erased)
}

async fn mark(store: &(impl Store + ?Sized), subject: &str) -> Result<()> {
    let since = RawJson::new(&store.now().await?)?;
    // On a conflict the subject is marked already.
    let _either_way = store.put(&keys::erased(subject)?, ExpectedRevision::Absent, since).await?;
    Ok(())
}
