//! Units of work over several patterns: money moves between accounts, an event tells it, a scope
//! counts it, a job follows from it.

use tidelock::scopes::ScopeKind;
use tidelock::{ErrorKind, Tx};

use super::Client;
use crate::simulator::state::{ACCOUNTS, Board, CREDIT, Work, WorkEvent};

impl Client {
    pub(super) async fn transfer(&self, id: &str) {
        let (from, to, units) =
            self.draw(|rng| (rng.below(ACCOUNTS), rng.below(ACCOUNTS), 1 + rng.below(4)));
        let units = i64::try_from(units).unwrap_or(1);
        let board = self.tidelock.scope::<Board>(ScopeKind::USER, "transfers");
        let work = self.tidelock.aggregate::<Work>("transfers");
        let world = &self.process.world;
        // Without an operation id a repeated unit of work is a second one, so it has one attempt.
        world.asks("transfer", id);
        let moved = self
            .tidelock
            .transact(async |tx: Tx| -> tidelock::Result<()> {
                let seen: i64 = tx.get(format!("transfer/{id}")).await?.unwrap_or(0);
                if seen > 0 {
                    return Ok(());
                }
                if from != to {
                    tx.add(format!("account/{from}"), -units, -CREDIT..)?;
                    tx.add(format!("account/{to}"), units, ..)?;
                }
                tx.put(format!("transfer/{id}"), &1)?;
                tx.add("transfers", 1, ..)?;
                tx.append(&work, WorkEvent::Came { id: id.to_owned(), units })?;
                tx.mutate(&board, |board| board.count += 1).await?;
                tx.enqueue_item(tx.tidelock().queue("jobs").enqueue(id))?;
                Ok(())
            })
            .await;
        match moved {
            Ok(()) => {
                world.told("transfer", id);
                world.told("job", id);
            }
            Err(error) if error.kind() == ErrorKind::Refused => {}
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) if error.kind() == ErrorKind::Exceeded => {}
            Err(error) if super::is_transient(&error) => {}
            Err(error) => self.strange("a transfer", &error),
        }
    }
}
