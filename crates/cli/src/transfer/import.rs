//! Reads an export into a store.

use std::sync::Arc;

use tidelock::reactions::{PositionMap, ReactionFilter, ReactionStorage, Reactions, ResetEffects};
use tidelock::store::{Commit, Conflict, Item, Record, Store, StoredEvent, StreamName, Version};

use super::batch::Batch;
use super::gap;
use super::import_progress::ImportProgress;
use super::line::{Line, Totals};
use super::position_lookup::PositionLookup;
use super::reader::{Contents, Reader};
use super::source::Source;
use crate::args::ImportReactions;
use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// A complete export, and the options of the import.
pub(crate) struct Import<'a> {
    source: &'a Source,
    contents: Contents,
    then: ImportReactions,
}

/// The result of an import.
pub(crate) enum Imported {
    /// Everything is imported.
    Done(Totals),
    /// Everything had already been imported.
    Already(Totals),
}

impl<'a> Import<'a> {
    /// Checks the file, and refuses it before anything is written if it cannot be imported with
    /// these options.
    pub(crate) fn check(source: &'a Source, then: ImportReactions) -> Result<Self> {
        let contents = Reader::check(source)?;
        if !contents.end.settled && then != ImportReactions::None {
            return Err(Failure::refused(
                format!(
                    "{:?} was written while its store was in use: it is not a consistent snapshot",
                    source.name()
                ),
                "tidelock export again while nothing writes to that store; or --reactions none, if they can start as new ones",
            ));
        }
        Ok(Self { source, contents, then })
    }

    /// The totals.
    pub(crate) fn totals(&self) -> Totals {
        self.contents.end.totals
    }

    /// Writes it to the store, from where an earlier attempt stopped.
    pub(crate) async fn into(self, store: &Arc<dyn Store>) -> Result<Imported> {
        let totals = self.totals();
        let note = ImportProgress::find(&**store, self.contents.header.id, self.then).await?;
        if note.is_done() {
            return Ok(Imported::Already(totals));
        }
        let progress = Progress::of(self.contents.lines, "lines");
        let lookup = PositionLookup::new(&self.contents.header.remembered);
        let mut importing = Importing {
            store,
            note,
            then: self.then,
            batch: Batch::default(),
            lookup: Some(lookup),
            relocation: PositionMap::default(),
        };
        let mut reader = Reader::open(self.source)?;
        while let Some((number, line)) = reader.next()? {
            importing.line(number, line).await?;
            progress.moved(1);
        }
        importing.finish(self.contents.lines).await?;
        Ok(Imported::Done(totals))
    }
}

struct Importing<'a> {
    store: &'a Arc<dyn Store>,
    note: ImportProgress,
    then: ImportReactions,
    batch: Batch,
    /// Present until the last event has passed.
    lookup: Option<PositionLookup>,
    relocation: PositionMap,
}

impl Importing<'_> {
    async fn line(&mut self, number: u64, line: Line) -> Result<()> {
        match line {
            Line::Trimmed { stream, through } => self.trimmed(number, &stream, through).await,
            Line::Event(event) => self.event(number, event).await,
            Line::Closed { stream } => self.closed(number, &stream).await,
            Line::Record(record) => self.record(number, record).await,
            Line::Item(item) => self.item(number, *item).await,
            Line::Export(_) | Line::End(_) => Ok(()),
        }
    }

    async fn trimmed(&mut self, number: u64, stream: &StreamName, through: Version) -> Result<()> {
        if self.is_there(number) || self.leaves_out_stream(stream) {
            return Ok(());
        }
        gap::fill(&**self.store, stream, through).await
    }

    async fn event(&mut self, number: u64, event: StoredEvent) -> Result<()> {
        if let Some(lookup) = &mut self.lookup {
            lookup.pass(&event);
        }
        if self.is_there(number) || self.leaves_out_stream(&event.stream) {
            return Ok(());
        }
        if !self.batch.takes(&event) {
            self.flush().await?;
        }
        self.batch.event(number, event);
        Ok(())
    }

    async fn closed(&mut self, number: u64, stream: &StreamName) -> Result<()> {
        if self.is_there(number) || self.leaves_out_stream(stream) {
            return Ok(());
        }
        // Its events must be imported before it is closed.
        self.flush().await?;
        self.batch.closed(number, stream);
        Ok(())
    }

    async fn record(&mut self, number: u64, record: Record) -> Result<()> {
        if self.is_there(number) || self.leaves_out(ReactionStorage::owns_record(&record.key)) {
            return Ok(());
        }
        self.look_up_positions().await?;
        if !self.batch.has_room() {
            self.flush().await?;
        }
        let record = self.relocation.record(record)?;
        self.batch.record(number, record);
        Ok(())
    }

    async fn item(&mut self, number: u64, item: Item) -> Result<()> {
        if self.is_there(number) || self.leaves_out(ReactionStorage::owns_queue(&item.item.queue)) {
            return Ok(());
        }
        self.look_up_positions().await?;
        let Some(item) = self.relocation.item(item)? else { return Ok(()) };
        if !self.batch.has_room() {
            self.flush().await?;
        }
        self.batch.item(number, item);
        Ok(())
    }

    /// After the last event, the remembered events are located.
    async fn look_up_positions(&mut self) -> Result<()> {
        if self.lookup.is_none() {
            return Ok(());
        }
        self.flush().await?;
        if let Some(lookup) = self.lookup.take().filter(|_| self.then != ImportReactions::None) {
            self.relocation = lookup.look_up(&**self.store).await?;
        }
        Ok(())
    }

    /// Commits the batch, together with the import's progress.
    async fn flush(&mut self) -> Result<()> {
        match self.batch.take() {
            Some((commit, line)) => self.commit(commit, line).await,
            None => Ok(()),
        }
    }

    async fn commit(&mut self, commit: Commit, line: u64) -> Result<()> {
        let commit = commit.write(self.note.at(line)?);
        let committed = self.store.commit(commit).await?.committed();
        self.note.written(&committed.map_err(|conflict| in_the_way(&conflict))?);
        Ok(())
    }

    /// Applies the option for reactions, and records the end.
    async fn finish(mut self, lines: u64) -> Result<()> {
        self.flush().await?;
        if self.then == ImportReactions::Rebuild {
            Reactions::new(self.store.clone())
                .reset(&ReactionFilter::all(), ResetEffects::Keep)
                .await?;
        }
        let done = Commit::new().write(self.note.done(lines)?);
        self.store.commit(done).await?.committed().map_err(|conflict| in_the_way(&conflict))?;
        Ok(())
    }

    fn is_there(&self, number: u64) -> bool {
        number <= self.note.line()
    }

    fn leaves_out_stream(&self, stream: &StreamName) -> bool {
        self.leaves_out(ReactionStorage::owns_stream(stream))
    }

    fn leaves_out(&self, is_of_reactions: bool) -> bool {
        self.then == ImportReactions::None && is_of_reactions
    }
}

/// The error for an existing stream, record or item.
pub(super) fn in_the_way(conflict: &Conflict) -> Failure {
    Failure::refused(
        format!("the store is not empty: {conflict}"),
        "an import into an empty store, or into one with none of these streams, records and queues, and with no workers on it",
    )
}
