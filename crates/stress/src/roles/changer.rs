//! Changer: changes a few hot scopes, each change under its own operation id.
//!
//! It journals a change before it requests it: if it dies, the supervisor requests it again.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::join;
use crate::board::{self, Change, HOT, Wish};
use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::pipe::Orders;
use crate::rng::Rng;
use crate::worker_spec::WorkerSpec;

/// After so many changes by one caller the boards change, as each change writes the whole document.
const CHANGES: u64 = 1_000;

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (mut callers, mut rng) = (JoinSet::new(), Rng::seeded(spec.seed));
    for nth in 0..spec.load.callers {
        let (spec, caller, orders) = (spec.clone(), caller.clone(), orders.clone());
        let rng = Rng::seeded(rng.next());
        callers.spawn(Changer { spec, caller, rng, nth }.change_until_told(orders));
    }
    join(callers).await
}

struct Changer {
    spec: Arc<WorkerSpec>,
    caller: Caller,
    rng: Rng,
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
            let done = wish.fulfil(&self.caller, &self.spec.space).await?;
            if done && self.rng.one_in(8) {
                // As if the answer had been lost. The second answer must equal the first.
                wish.fulfil(&self.caller, &self.spec.space).await?;
            }
            sleep(self.rng.millis(1, 20)).await;
        }
        Ok(())
    }

    async fn wish(&mut self, count: u64) -> Result<Wish, Bug> {
        let board = HOT * (count / CHANGES) + self.rng.below(HOT);
        let change = match self.rng.below(8) {
            0..3 => Change::Increment,
            3..5 => Change::Push,
            5..7 => Change::Swap(self.revision(board).await?),
            _ => Change::Decline,
        };
        Ok(Wish { id: format!("{}-{}-{count}", self.spec.name, self.nth), board, change })
    }

    /// The current revision of a board; most often it has moved on by the time of the write.
    async fn revision(&self, board: u64) -> Result<Option<tidelock::store::Revision>, Bug> {
        Ok(board::load(&self.caller, &self.spec.space, board).await?.1)
    }
}
