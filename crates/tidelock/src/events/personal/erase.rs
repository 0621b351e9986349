//! Erasing a subject.

use tidelock_store::{
    Commit, ExpectedRevision, RawJson, RecordQuery, RecordWrite, Result, Store, StoreError,
    StoreExt, limits,
};

use crate::events::keys;

/// Provided that this subject was not erased: part of every commit with personal data about it.
pub(crate) fn guard(commit: Commit, subject: &str) -> Result<Commit> {
    Ok(commit.guard_record(&keys::erased(subject)?, ExpectedRevision::Absent))
}

/// Erases all personal data about a subject, and says of how many events. Can be called again, and
/// goes on where it was cut short.
pub(crate) async fn erase(store: &(impl Store + ?Sized), subject: &str) -> Result<usize> {
    if subject.is_empty() {
        return Err(StoreError::invalid("the subject to be erased is empty"));
    }
    mark(store, subject).await?;
    // Nothing can be added from here on, so what is not found is not there.
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
    // A conflict says that it is marked already.
    let _either_way = store.put(&keys::erased(subject)?, ExpectedRevision::Absent, since).await?;
    Ok(())
}
