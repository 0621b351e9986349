//! A worker that closes the books of accounts, in every way there is. When it is told to finish it
//! goes on until none is left half closed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::CloseError;
use tokio::time::sleep;

use super::LOOK_AGAIN;
use crate::account::{self, Way};
use crate::caller::{Backoff, Bug, Caller};
use crate::dice::Rng;
use crate::part::WorkerSpec;
use crate::pipe::Orders;

/// The books stay with a dead closer for a few seconds; what is left after so long is for the audit
/// to name.
const GIVE_UP_AFTER: Duration = Duration::from_secs(40);

pub(super) async fn work(
    part: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let mut dice = Rng::seeded(part.seed);
    while !orders.is_finishing() {
        let names = account::all(caller, &part.space).await?;
        if let Some(name) =
            names.get(usize::try_from(dice.below(names.len().max(1) as u64)).unwrap_or(0))
        {
            try_to_close(part, caller, name, way(name, &mut dice)).await?;
        }
        sleep(dice.millis(1, 20)).await;
    }
    let end = Instant::now() + GIVE_UP_AFTER;
    for name in account::all(caller, &part.space).await? {
        let way = if account::is_closed_for_good(&name) { Way::Close } else { Way::KeepLast };
        while !try_to_close(part, caller, &name, way).await? && Instant::now() < end {
            sleep(LOOK_AGAIN).await;
        }
    }
    Ok(())
}

fn way(name: &str, dice: &mut Rng) -> Way {
    match dice.below(3) {
        0 if account::is_closed_for_good(name) => Way::Close,
        0 | 1 => Way::Restart,
        _ => Way::KeepLast,
    }
}

/// Closes books, or finishes what was begun in another way; whether nothing is left to be done.
async fn try_to_close(
    part: &WorkerSpec,
    caller: &Caller,
    name: &str,
    way: Way,
) -> Result<bool, Bug> {
    match account::close(caller, &part.space, name, way).await {
        Ok(()) | Err(CloseError::NothingToClear { .. }) => Ok(true),
        Err(CloseError::Busy { .. }) => Ok(false),
        Err(CloseError::OtherPlan { .. }) => {
            for other in Way::ALL.into_iter().filter(|other| *other != way) {
                match account::close(caller, &part.space, name, other).await {
                    Err(CloseError::OtherPlan { .. }) => {}
                    _ => break,
                }
            }
            Ok(false)
        }
        Err(CloseError::Store(error)) => {
            Backoff::new().after(&error.into()).await?;
            Ok(false)
        }
        Err(other) => Err(Bug(other.to_string())),
    }
}
