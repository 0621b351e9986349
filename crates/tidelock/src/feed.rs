//! Where the feed ends, without reading it.
//!
//! Before the last event there is one to read, and after it there is none: so it is found by halving, in some sixty small reads,
//! however long the feed is.

use tidelock_store::{ErrorKind, FeedQuery, Position, Result, Store};

/// The position of the last event of all streams that can be read. It was given out by the store, so nothing will ever appear
/// at or before it (LOG-7).
///
/// # Errors
/// What the store says.
pub async fn end_of(store: &dyn Store) -> Result<Position> {
    let (mut last, mut beyond) = (Position::START, i64::MAX as u64);
    while beyond - last.get() > 1 {
        let middle = last.get() + (beyond - last.get()) / 2;
        match next_after(store, Position::new(middle)?).await? {
            Some(next) => last = next,
            None => beyond = middle,
        }
    }
    Ok(next_after(store, last).await?.unwrap_or(last))
}

async fn next_after(store: &dyn Store, position: Position) -> Result<Option<Position>> {
    match store.read_feed(FeedQuery::after(position).limit(1)).await {
        Ok(page) => Ok(page.events.first().map(|event| event.position)),
        Err(error) if error.kind() == ErrorKind::Rewound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tidelock_store::MemoryStore;

    use super::*;
    use crate::prelude::*;

    #[tokio::test]
    async fn the_end_is_the_last_event() {
        let store = MemoryStore::new();
        assert_eq!(end_of(&store).await.unwrap(), Position::START);
        let stream = StreamName::new("a").unwrap();
        for _ in 0..37 {
            let event = NewEvent::of("noted", &1).unwrap();
            let committed =
                store.append(&stream, ExpectedVersion::Any, vec![event]).await.unwrap().committed();
            let last = committed.unwrap().appends[0].positions.unwrap().1;
            assert_eq!(end_of(&store).await.unwrap(), last);
        }
    }
}
