//! Booker: books in accounts while others close their books.

use std::sync::Arc;

use tidelock::ExecuteError;
use tokio::time::sleep;

use crate::account;
use crate::caller::{Backoff, Bug, Caller};
use crate::journal::Entry;
use crate::pipe::Orders;
use crate::rng::Rng;
use crate::worker_spec::WorkerSpec;

/// Number of accounts that are booked in at a time.
const ACCOUNTS: u64 = 4;
/// After so many bookings the accounts change, as some are closed for good.
const BOOKINGS: u64 = 60;

pub(super) async fn work(
    spec: &Arc<WorkerSpec>,
    caller: &Caller,
    orders: &Orders,
) -> Result<(), Bug> {
    let (mut rng, mut backoff) = (Rng::seeded(spec.seed), Backoff::new());
    for count in 0u64.. {
        if orders.is_finishing() {
            break;
        }
        let name = format!("{}-{}", count / BOOKINGS, rng.below(ACCOUNTS));
        let id = format!("{}-{count}", spec.name);
        caller.note(&Entry::Booking { account: name.clone(), id: id.clone() });
        match account::book(&account::account(caller, &spec.space, &name), &id).await {
            Ok(()) => caller.note(&Entry::Booked(id)),
            Err(ExecuteError::Store(error)) => backoff.after(&error.into()).await?,
            Err(ExecuteError::Closed { .. } | ExecuteError::GaveUp { .. }) => {
                caller.note(&Entry::Shut(id));
            }
            Err(other) => return Err(Bug(other.to_string())),
        }
        sleep(rng.millis(1, 10)).await;
    }
    Ok(())
}
