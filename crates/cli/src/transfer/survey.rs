//! Reads everything in a store but its events, and computes a digest.
//!
//! An export surveys twice: before the events and after them. If both digests are equal, and the
//! number of events matches, the export is a complete and consistent snapshot: a feed that is held
//! back by an open transaction shows less than the streams have.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tidelock::store::{
    Head, HeadQuery, Item, ItemFilter, ItemQuery, RecordQuery, Store, StoreExt, StreamState,
    Version,
};

use super::keys;
use super::line::Line;
use crate::failure::Result;

/// The result of a survey.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SurveyResult {
    digest: Vec<u8>,
    /// The number of events in all streams.
    pub(super) events: u64,
}

/// A walk.
#[derive(Default)]
pub(super) struct Survey {
    sum: Sha256,
}

impl Survey {
    /// Surveys a store, and passes on every line.
    pub(super) async fn walk(
        store: &Arc<dyn Store>,
        mut show: impl FnMut(&Line) -> Result<()>,
    ) -> Result<SurveyResult> {
        let mut survey = Self::default();
        let mut see = |line: Line| {
            survey.note(&line)?;
            show(&line)
        };
        let events = heads(store, &mut see).await?;
        records(store, &mut see).await?;
        items(store, &mut see).await?;
        Ok(SurveyResult { digest: survey.sum.finalize().to_vec(), events })
    }

    fn note(&mut self, line: &Line) -> Result<()> {
        // Records with an expiry may expire between two surveys.
        if matches!(line, Line::Record(record) if record.expires_at.is_some()) {
            return Ok(());
        }
        let text = serde_json::to_vec(line).map_err(std::io::Error::other)?;
        self.sum.update(&text);
        Ok(())
    }
}

type See<'a> = dyn FnMut(Line) -> Result<()> + 'a;

/// Returns the number of events in all streams.
async fn heads(store: &Arc<dyn Store>, see: &mut See<'_>) -> Result<u64> {
    let (mut heads, mut events) = (store.rows(HeadQuery::prefix("")), 0);
    while let Some(head) = heads.next().await? {
        events += head.count;
        of_head(&head).into_iter().try_for_each(&mut *see)?;
    }
    Ok(events)
}

/// The lines of a stream besides its events.
fn of_head(head: &Head) -> Vec<Line> {
    let gone = head.state.version().map_or(0, |version| version.get() - head.count);
    let trimmed = Version::new(gone)
        .ok()
        .map(|through| Line::Trimmed { stream: head.stream.clone(), through });
    let is_closed = matches!(head.state, StreamState::Closed(_));
    trimmed
        .into_iter()
        .chain(is_closed.then(|| Line::Closed { stream: head.stream.clone() }))
        .collect()
}

async fn records(store: &Arc<dyn Store>, see: &mut See<'_>) -> Result<()> {
    let mut records = store.rows(RecordQuery::prefix(""));
    while let Some(record) = records.next().await? {
        if !keys::is_note(&record.key) {
            see(Line::Record(record))?;
        }
    }
    Ok(())
}

async fn items(store: &Arc<dyn Store>, see: &mut See<'_>) -> Result<()> {
    let mut items = store.rows(ItemQuery::new(ItemFilter::default()));
    while let Some(item) = items.next().await? {
        see(Line::Item(Box::new(let_go(item))))?;
    }
    Ok(())
}

/// An item without its holder, which stays with this store.
fn let_go(item: Item) -> Item {
    let due = item.holder.as_ref().map(|holder| holder.since).or(item.due);
    Item { holder: None, due, fence: None, settled: None, ..item }
}
