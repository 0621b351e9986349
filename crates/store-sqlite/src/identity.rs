//! Epochs: detect a file that was restored from a backup, and continue above all numbers it gave
//! out.
//!
//! The counters of a restored file are behind: positions, fences and revisions handed out since the
//! backup would be handed out again. The file records its own identity (device, inode, creation
//! time), and a copy has a different one. Before its first write, a process compares the two. If
//! they differ, an epoch begins whose number is the current time: everything handed out from then
//! on is above.

use rusqlite::params;
use tidelock_store::plan::ReadRows;
use tidelock_store::{Position, Result};

use crate::commit::Transaction;
use crate::error::failed;
use crate::log::{no_meta, number};

/// The newest epoch.
struct Epoch {
    number: u64,
    /// The file identity where it began, and the last position before; none if the file was not
    /// written since epochs were introduced.
    began: Option<(String, Position)>,
}

/// Begins an epoch if the file is not the one where the newest epoch began, or if it is known to
/// have been restored.
pub(crate) fn enter(transaction: &mut Transaction<'_>, here: &str, restored: bool) -> Result<()> {
    let newest = newest(transaction)?;
    let last_before = match &newest.began {
        Some((home, _)) if home == here && !restored => return Ok(()),
        Some((_, last_before)) => *last_before,
        None => {
            insert(transaction, newest.number, here, Position::START)?;
            Position::START
        }
    };
    if newest.began.is_some() || restored {
        begin(transaction, here, newest.number, last_before)?;
    }
    Ok(())
}

fn begin(
    transaction: &mut Transaction<'_>,
    here: &str,
    ended: u64,
    last_before: Position,
) -> Result<()> {
    let (last, floors) = (transaction.last_position()?, transaction.floors()?);
    let moment = u64::try_from(transaction.now.micros()).unwrap_or_default();
    let given_out = last.get().max(floors.revision).max(floors.fence).max(ended);
    let next = moment.max(given_out + 1);
    // An epoch without an event ends where the previous one did.
    let last_before = if last.get() == ended { last_before } else { last };
    let sql = "UPDATE tidelock_meta SET epoch = ?1, position_floor = ?1, revision_floor = ?1, fence_floor = ?1";
    transaction.execute(sql, [next as i64])?;
    transaction.cache.forget();
    tracing::info!(epoch = next, last = %last_before, "the file was restored, copied or moved: an epoch begins");
    insert(transaction, next, here, last_before)
}

fn insert(
    transaction: &Transaction<'_>,
    epoch: u64,
    here: &str,
    last_before: Position,
) -> Result<()> {
    let sql = "INSERT INTO tidelock_epochs (epoch, home, last_before) VALUES (?1, ?2, ?3)";
    transaction.execute(sql, params![epoch as i64, here, last_before.get() as i64])?;
    Ok(())
}

fn newest(transaction: &Transaction<'_>) -> Result<Epoch> {
    let sql = "SELECT m.epoch, e.last_before, e.home
               FROM tidelock_meta m LEFT JOIN tidelock_epochs e ON e.epoch = m.epoch";
    let mut statement = transaction.connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let row = rows.next().map_err(failed)?.ok_or_else(no_meta)?;
    let home: Option<String> = row.get(2).map_err(failed)?;
    let began = home.map(|home| Ok((home, Position::new(number(row, 1)?)?))).transpose()?;
    Ok(Epoch { number: number(row, 0)?, began })
}
