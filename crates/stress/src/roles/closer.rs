//! Closer: closes the books of accounts, in every way. When it is told to finish it continues until
//! no closing is unfinished.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::closing::CloseError;
use tokio::time::sleep;

use super::LOOK_AGAIN;
use crate::account::{self, Way};
use crate::caller::{Backoff, Bug, Caller};
use crate::pipe::Orders;
use crate::rng::Rng;
use crate::worker_spec::WorkerSpec;

/// The lease of a dead closer lasts a few seconds; the audit reports what is left after this time.
const GIVE_UP_AFTER: Duration = Duration::from_secs(40);

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let mut rng = Rng::seeded(spec.seed);
    while !orders.is_finishing() {
        let names = account::all(caller, &spec.space).await?;
        if let Some(name) =
            names.get(usize::try_from(rng.below(names.len().max(1) as u64)).unwrap_or(0))
        {
            try_to_close(spec, caller, name, way(name, &mut rng)).await?;
        }
        sleep(rng.millis(1, 20)).await;
    }
    let end = Instant::now() + GIVE_UP_AFTER;
    for name in account::all(caller, &spec.space).await? {
        let way = if account::is_closed_for_good(&name) { Way::Close } else { Way::KeepLast };
        while !try_to_close(spec, caller, &name, way).await? && Instant::now() < end {
            sleep(LOOK_AGAIN).await;
        }
    }
    Ok(())
}

fn way(name: &str, rng: &mut Rng) -> Way {
    match rng.below(3) {
        0 if account::is_closed_for_good(name) => Way::Close,
        0 | 1 => Way::Restart,
        _ => Way::KeepLast,
    }
}

/// Closes books, or finishes what was begun in another way; returns whether nothing is left.
async fn try_to_close(
    spec: &WorkerSpec,
    caller: &Caller,
    name: &str,
    way: Way,
) -> Result<bool, Bug> {
    match account::close(caller, &spec.space, name, way).await {
        Ok(()) | Err(CloseError::NothingToClear { .. }) => Ok(true),
        Err(CloseError::Busy { .. }) => Ok(false),
        Err(CloseError::OtherPlan { .. }) => {
            for other in Way::ALL.into_iter().filter(|other| *other != way) {
                match account::close(caller, &spec.space, name, other).await {
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
