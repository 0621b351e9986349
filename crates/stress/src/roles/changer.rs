//! A worker that changes a few scopes that others change too, each change under an id of its own.
//!
//! That it is about to ask for a change it writes down before: if it dies, the supervisor asks for
//! it again.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::join;
use crate::board::{self, Change, HOT, Wish};
use crate::caller::{Bug, Caller};
use crate::dice::Rng;
use crate::journal::Entry;
use crate::part::WorkerSpec;
use crate::pipe::Orders;

/// After so many changes by one caller others come, as each change writes the whole document.
const CHANGES: u64 = 1_000;

pub(super) async fn work(
    part: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (mut callers, mut dice) = (JoinSet::new(), Rng::seeded(part.seed));
    for nth in 0..part.load.callers {
        let (part, caller, orders) = (part.clone(), caller.clone(), orders.clone());
        let dice = Rng::seeded(dice.next());
        callers.spawn(Changer { part, caller, dice, nth }.change_until_told(orders));
    }
    join(callers).await
}

struct Changer {
    part: Arc<WorkerSpec>,
    caller: Caller,
    dice: Rng,
    nth: usize,
}

impl Changer {
    async fn change_until_told(mut self, orders: Orders) -> Result<(), Bug> {
        for count in 0u64.. {
            if orders.is_finishing() {
                break;
            }
            let wish = self.wish(count).await?;
            self.caller.note(&Entry::Wished(wish.clone()));
            let done = wish.fulfil(&self.caller, &self.part.space).await?;
            if done && self.dice.one_in(8) {
                // As if the answer had been lost. What is said of it must be what was said before.
                wish.fulfil(&self.caller, &self.part.space).await?;
            }
            sleep(self.dice.millis(1, 20)).await;
        }
        Ok(())
    }

    async fn wish(&mut self, count: u64) -> Result<Wish, Bug> {
        let board = HOT * (count / CHANGES) + self.dice.below(HOT);
        let change = match self.dice.below(8) {
            0..3 => Change::Increment,
            3..5 => Change::Push,
            5..7 => Change::Swap(self.revision(board).await?),
            _ => Change::Decline,
        };
        Ok(Wish { id: format!("{}-{}-{count}", self.part.name, self.nth), board, change })
    }

    /// Where a board is now; most often it is elsewhere when that is written.
    async fn revision(&self, board: u64) -> Result<Option<tidelock::Revision>, Bug> {
        Ok(board::load(&self.caller, &self.part.space, board).await?.1)
    }
}
