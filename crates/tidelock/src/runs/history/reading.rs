//! Reading what happened in a run, page after page.

use tidelock_store::{Event, EventId, Result, Store, StreamQuery};

use super::{Entry, Outcome};
use crate::runs::keys;
use crate::runs::summary::Summarised;

/// How many events are looked at for the end of a run; it is the last one, but for what somebody else may have put there.
const TAIL: usize = 10;

/// Every entry of the run's generation, in order.
pub(crate) async fn each(
    store: &dyn Store,
    run: &Summarised,
    mut see: impl FnMut(&Event, Entry),
) -> Result<()> {
    let whole = StreamQuery::forward(&keys::stream(&run.run));
    let mut query = run.summary.begins.map_or(whole.clone(), |begins| whole.from(begins));
    loop {
        let page = store.read_stream(query.clone()).await?;
        for event in &page.events {
            see(event, Entry::decode(event)?);
        }
        match page.next {
            Some(next) => query = query.from(next),
            None => return Ok(()),
        }
    }
}

/// Whether this is among the entries of the run's generation; nothing never is.
pub(crate) async fn has(store: &dyn Store, run: &Summarised, id: Option<EventId>) -> Result<bool> {
    let Some(id) = id else { return Ok(false) };
    Ok(find(store, run, id).await?.is_some())
}

/// The entry of the run's generation that is the event of this id.
pub(crate) async fn find(store: &dyn Store, run: &Summarised, id: EventId) -> Result<Option<Entry>> {
    let mut found = None;
    each(store, run, |event, entry| {
        if event.id == id {
            found = Some(entry);
        }
    })
    .await?;
    Ok(found)
}

/// The newest entry of the run's generation that something can be made of.
pub(crate) async fn newest<T>(
    store: &dyn Store,
    run: &Summarised,
    make: impl Fn(Entry) -> Option<T>,
) -> Result<Option<T>> {
    let mut query = StreamQuery::backward(&keys::stream(&run.run));
    loop {
        let page = store.read_stream(query.clone()).await?;
        for event in page.events.iter().filter(|event| run.summary.begins.is_none_or(|b| b <= event.version))
        {
            if let Some(made) = make(Entry::decode(event)?) {
                return Ok(Some(made));
            }
        }
        match page.next.filter(|next| run.summary.begins.is_none_or(|begins| begins <= *next)) {
            Some(next) => query = query.from(next),
            None => return Ok(None),
        }
    }
}

/// How the run ended; nothing if it goes on.
pub(crate) async fn outcome(store: &dyn Store, run: &Summarised) -> Result<Option<Outcome>> {
    let query = StreamQuery::backward(&keys::stream(&run.run)).limit(TAIL);
    let page = store.read_stream(query).await?;
    for event in &page.events {
        match Entry::decode(event)? {
            Entry::Retried(_) => return Ok(None),
            entry => {
                if let Some(outcome) = entry.outcome() {
                    return Ok(Some(outcome));
                }
            }
        }
    }
    Ok(None)
}
