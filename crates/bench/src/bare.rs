//! The bare limit: what the database does by itself, with nothing of ours in between.
//!
//! On SQLite, a bare loop knows everything beforehand (ids of streams, versions, positions, who
//! holds what), checks nothing, and puts into one transaction what all callers together could at
//! best have queued. Whoever gets near it has spent almost nothing on the contract. On PostgreSQL,
//! every bare client has a connection to itself and sends one prepared statement after the other,
//! each of which is a transaction: what programs do that talk to the database themselves.
//!
//! The memory store has nothing under it, and so no bare limit.

mod loops;
mod postgres;
mod sqlite;

use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::measure::Baseline;
use crate::site::{Below, Fixture};
use loops::{Bare, Loops};

pub(crate) use postgres::has_pgbench;

/// None for a store without a limit below it.
type Rivals = Result<Vec<Baseline>, Failure>;

/// Makes the bare loop's file of a store that was closed.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    sqlite::copy(from, to)
}

/// One commit of each of the clients in every group.
pub(crate) async fn commits(site: &Fixture, clients: usize, events: usize) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::commits(path, clients, events)]),
        Below::Schema(ground) => postgres::commits(ground, clients, events).await,
    }
}

/// One stream in every group.
pub(crate) async fn loads(site: &Fixture, clients: usize, events: usize) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        // Readers do not wait for each other, so the bare limit of many is that of all the cores
        // there are.
        Below::File(path) => {
            looped((0..clients.min(crate::WORKERS)).map(|_| sqlite::loads(path, events)))
        }
        Below::Schema(ground) => postgres::loads(ground, clients, events).await,
    }
}

/// One page in every group.
pub(crate) async fn feed(site: &Fixture, page: usize) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::feed(path, page)]),
        Below::Schema(ground) => postgres::feed(ground, page).await,
    }
}

/// One transaction that leases and one that settles in every group.
pub(crate) async fn leases(site: &Fixture, items: usize, duration: Duration) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::leases(path, items, duration)]),
        Below::Schema(ground) => postgres::leases(ground, items, duration).await,
    }
}

/// One new record of each of the clients in every group.
pub(crate) async fn sets(site: &Fixture, clients: usize) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::sets(path, clients)]),
        Below::Schema(ground) => postgres::sets(ground, clients).await,
    }
}

/// One vain try of each of the clients in every group.
pub(crate) async fn refused_sets(site: &Fixture, clients: usize) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::refused_sets(path, clients)]),
        Below::Schema(ground) => postgres::refused_sets(ground, clients).await,
    }
}

/// One addition of each of the clients in every group.
pub(crate) async fn adds(site: &Fixture, clients: usize) -> Rivals {
    match &site.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::adds(path, clients)]),
        Below::Schema(ground) => postgres::adds(ground, clients).await,
    }
}

fn looped(loops: impl IntoIterator<Item = Result<Box<dyn Bare>, Failure>>) -> Rivals {
    let loops = Loops(loops.into_iter().collect::<Result<_, _>>()?);
    Ok(vec![Baseline { name: "loop", side: Box::new(loops) }])
}
