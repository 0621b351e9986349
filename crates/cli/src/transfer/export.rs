//! Writes an export.

use std::io::Write;
use std::sync::Arc;

use tidelock::reactions::Reactions;
use tidelock::store::{FeedQuery, Position, Store, StoreExt, fresh_uuid};

use super::Writer;
use super::line::{FORMAT, Header, Line, Totals};
use super::survey::Survey;
use crate::failure::Result;
use crate::progress::Progress;

/// The result of an export.
pub(crate) struct Exported<W> {
    /// Where it was written.
    pub(crate) to: W,
    pub(crate) totals: Totals,
    /// Whether nothing changed in the meantime.
    pub(crate) settled: bool,
}

/// Writes everything in a store.
pub(crate) async fn export<W: Write + Send>(
    store: &Arc<dyn Store>,
    to: W,
    progress: &Progress,
) -> Result<Exported<W>> {
    let mut writer = Writer::new(to);
    writer.line(&Line::Export(header(store).await?))?;
    let before = Survey::walk(store, |line| match line {
        Line::Trimmed { .. } => Ok(writer.line(line)?),
        _ => Ok(()),
    })
    .await?;
    events(store, &mut writer, progress).await?;
    let after = Survey::walk(store, |line| match line {
        Line::Trimmed { .. } => Ok(()),
        _ => Ok(writer.line(line)?),
    })
    .await?;
    let settled = before == after && after.events == writer.events();
    let (to, totals) = writer.end(settled)?;
    Ok(Exported { to, totals, settled })
}

async fn header(store: &Arc<dyn Store>) -> Result<Header> {
    let remembered = Reactions::new(store.clone()).remembered().await?;
    Ok(Header {
        format: FORMAT,
        id: fresh_uuid(),
        exported_at: store.now().await?,
        tidelock: env!("CARGO_PKG_VERSION").to_owned(),
        remembered: remembered.into_iter().collect(),
    })
}

async fn events<W: Write>(
    store: &Arc<dyn Store>,
    writer: &mut Writer<W>,
    progress: &Progress,
) -> Result<()> {
    let mut events = store.rows(FeedQuery::after(Position::START));
    while let Some(event) = events.next().await? {
        progress.moved(1);
        writer.line(&Line::Event(event))?;
    }
    Ok(())
}
