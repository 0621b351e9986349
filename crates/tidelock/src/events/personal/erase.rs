//! Erasing a subject.

use tidelock_store::{
    Commit, ExpectedRevision, RawJson, RecordQuery, RecordWrite, Result, Store, StoreError,
    StoreExt, limits,
};

use crate::events::keys;

/// Guards a commit with personal data against an erased subject.
pub(crate) fn guard(commit: Commit, subject: &str) -> Result<Commit> {
    Ok(commit.guard_record(&keys::erased(subject)?, ExpectedRevision::Absent))
}

/// Erases all personal data about a subject and returns the number of events affected. Idempotent:
/// a repeated call continues an interrupted erasure.
pub(crate) async fn erase(store: &(impl Store + ?Sized), subject: &str) -> Result<usize> {
    if subject.is_empty() {
        return Err(StoreError::invalid("the subject to be erased is empty"));
    }
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
