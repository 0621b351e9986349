//! A process that appends to its own streams and to shared ones, changes records, and wakes items.

use tidelock_store::{
    Bounds, Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion, HeadQuery,
    NewEvent, RawJson, RecordKey, RecordWrite, Slot, Store, StoreExt, StreamName, StreamState,
    Version, ViolationKind, Wake,
};
use tidelock_store_sqlite::SqliteStore;

use super::journal::send;
use super::phase::Phase;
use super::{SHARED, STOCK, item_of, shared_stream};
use crate::dice::Dice;
use crate::worker::Part;
use crate::{block_on, open};

/// One writer succeeds each time, so none needs nearly as many.
const TRIES: usize = 500;

/// Arguments: file, name, how many commits at least, seed.
pub(crate) fn writer(part: &Part) {
    let (name, commits) = (part.argument(1), part.number(2));
    let mut writer = Writer {
        name: name.to_owned(),
        own: StreamName::new(format!("own-{name}")).unwrap(),
        store: open(part.argument(0)),
        dice: Dice::seeded(part.number(3)),
    };
    block_on(async {
        let mut written = 0;
        while written < commits || Phase::read(&writer.store).await < Phase::EnoughWritten {
            writer.write().await;
            written += 1;
        }
        writer.store.close().await.unwrap();
    });
}

struct Writer {
    name: String,
    own: StreamName,
    store: SqliteStore,
    dice: Dice,
}

impl Writer {
    /// Commits once, in as many attempts as it takes.
    async fn write(&mut self) {
        let shared = shared_stream(self.dice.below(SHARED));
        let note = RecordKey::new(format!("note-{}", self.dice.below(3))).unwrap();
        let mut takes_stock = true;
        for _ in 0..TRIES {
            let commit = self.decide(&shared, &note, takes_stock).await;
            match send(&self.name, &self.store, &commit).await {
                CommitOutcome::Committed(_) if self.dice.one_in(8) => {
                    // As if the answer had been lost. The second report must equal the first.
                    let _ = send(&self.name, &self.store, &commit).await;
                    return;
                }
                CommitOutcome::Committed(_) => return,
                CommitOutcome::Conflict(conflict) => {
                    takes_stock &= !conflict.has(ViolationKind::Exceeded);
                }
            }
        }
        panic!("{} decides by what is there and is refused {TRIES} times", self.name);
    }

    /// A commit that fits the current state, and no other.
    async fn decide(&mut self, shared: &StreamName, note: &RecordKey, takes_stock: bool) -> Commit {
        let heads = HeadQuery::Named(vec![self.own.clone(), shared.clone()]);
        let heads = self.store.heads(heads).await.unwrap().heads;
        let noted = self.store.get_one(note).await.unwrap();
        let mark =
            heads[1].state.version().map_or(Version::new(2).unwrap(), |version| version.plus(2));
        let commit = Commit::new()
            .with_id(CommitId::fresh())
            .append(&self.own, exactly(heads[0].state), [self.event()])
            .append(shared, exactly(heads[1].state), [self.event(), self.event()])
            .write(RecordWrite::put(note, unchanged(&noted), RawJson::new(&self.name).unwrap()))
            .wake(Wake::to_mark(item_of(shared), mark.into()));
        match takes_stock {
            true => commit.write(RecordWrite::add(&stock(), 1, Bounds::at_most(STOCK))),
            false => commit,
        }
    }

    fn event(&self) -> NewEvent {
        NewEvent::of("written", &self.name).unwrap()
    }
}

/// The counter that all writers take from.
pub(super) fn stock() -> RecordKey {
    RecordKey::new("stock").unwrap()
}

fn exactly(state: StreamState) -> ExpectedVersion {
    state.version().map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact)
}

fn unchanged(slot: &Slot) -> ExpectedRevision {
    slot.live()
        .map_or(ExpectedRevision::Absent, |record| ExpectedRevision::Revision(record.revision))
}
