//! Erasing a subject.

use tidelock_store::{
    Commit, ExpectedRevision, Json, RecordQuery, Result, Store, StoreError, StoreExt, Write, limits,
};

use crate::events::keys;

/// Provided that this subject was not erased: part of every commit with personal data about it.
pub(crate) fn guard(commit: Commit, subject: &str) -> Result<Commit> {
    Ok(commit.guard_record(&keys::erased(subject)?, ExpectedRevision::Absent))
}

/// Erases all personal data about a subject, and says of how many events. Can be called again, and goes on where it was cut short.
pub(crate) async fn erase(store: &(impl Store + ?Sized), subject: &str) -> Result<usize> {
    if subject.is_empty() {
        return Err(StoreError::invalid("the subject to be erased is empty"));
    }
    mark(store, subject).await?;
    // Nothing can be added from here on, so what a scan does not find is not there.
    let mut erased = 0;
    loop {
        let query = RecordQuery::prefix(keys::personal_of(subject)).limit(limits::PARTS_PER_COMMIT);
        let page = store.scan(query).await?;
        if page.records.is_empty() {
            return Ok(erased);
        }
        let deletions = page.records.iter().map(|record| Write::delete(&record.key, ExpectedRevision::Any));
        let commit = deletions.fold(Commit::new(), Commit::write);
        erased += page.records.len();
        let _expects_nothing = store.commit(commit).await?;
    }
}

async fn mark(store: &(impl Store + ?Sized), subject: &str) -> Result<()> {
    let since = Json::new(&store.now().await?)?;
    // A conflict says that it is marked already.
    let _either_way = store.put(&keys::erased(subject)?, ExpectedRevision::Absent, since).await?;
    Ok(())
}
