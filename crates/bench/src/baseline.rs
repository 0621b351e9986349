//! Baselines: what the database does by itself, without Tidelock.
//!
//! On SQLite, a loop knows everything in advance (ids of streams, versions, positions, holders),
//! checks nothing, and puts into one transaction what all callers together could at best have
//! queued. A ratio near 1 means that the contract costs almost nothing. On PostgreSQL, every client
//! has its own connection and sends one prepared statement after the other, each of which is a
//! transaction: what programs do that use the database directly.
//!
//! The memory store has nothing under it, and so no baseline.

mod loops;
mod postgres;
mod sqlite;

use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::fixture::{Below, Fixture};
use crate::measure::Baseline;
use loops::{BareLoop, Loops};

pub(crate) use postgres::has_pgbench;

/// None for a store without a baseline.
type Baselines = Result<Vec<Baseline>, Failure>;

/// Copies the file of a closed store for the baseline.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    sqlite::copy(from, to)
}

/// One commit of each of the clients in every group.
pub(crate) async fn commits(fixture: &Fixture, clients: usize, events: usize) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::commits(path, clients, events)]),
        Below::Schema(schemas) => postgres::commits(schemas, clients, events).await,
    }
}

/// One stream in every group.
pub(crate) async fn loads(fixture: &Fixture, clients: usize, events: usize) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        // Readers do not wait for each other, so the baseline of many uses all cores.
        Below::File(path) => {
            looped((0..clients.min(crate::WORKERS)).map(|_| sqlite::loads(path, events)))
        }
        Below::Schema(schemas) => postgres::loads(schemas, clients, events).await,
    }
}

/// One page in every group.
pub(crate) async fn feed(fixture: &Fixture, page: usize) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::feed(path, page)]),
        Below::Schema(schemas) => postgres::feed(schemas, page).await,
    }
}

/// One transaction that leases and one that settles in every group.
pub(crate) async fn leases(fixture: &Fixture, items: usize, duration: Duration) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::leases(path, items, duration)]),
        Below::Schema(schemas) => postgres::leases(schemas, items, duration).await,
    }
}

/// One new record of each of the clients in every group.
pub(crate) async fn sets(fixture: &Fixture, clients: usize) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::sets(path, clients)]),
        Below::Schema(schemas) => postgres::sets(schemas, clients).await,
    }
}

/// One refused write of each of the clients in every group.
pub(crate) async fn refused_sets(fixture: &Fixture, clients: usize) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::refused_sets(path, clients)]),
        Below::Schema(schemas) => postgres::refused_sets(schemas, clients).await,
    }
}

/// One addition of each of the clients in every group.
pub(crate) async fn adds(fixture: &Fixture, clients: usize) -> Baselines {
    match &fixture.below {
        Below::Nothing => Ok(Vec::new()),
        Below::File(path) => looped([sqlite::adds(path, clients)]),
        Below::Schema(schemas) => postgres::adds(schemas, clients).await,
    }
}

fn looped(loops: impl IntoIterator<Item = Result<Box<dyn BareLoop>, Failure>>) -> Baselines {
    let loops = Loops(loops.into_iter().collect::<Result<_, _>>()?);
    Ok(vec![Baseline { name: "loop", side: Box::new(loops) }])
}
