//! Records: new ones, an existing one, and a counter.

use std::hint::black_box;
use std::path::Path;

use rusqlite::{Connection, params};

use super::{Transactions, open};
use crate::baseline::loops::BareLoop;
use crate::failure::Failure;
use crate::rows;

const SET: &str =
    "INSERT INTO tidelock_records (key, revision, value, expires_at) VALUES (?1, 1, ?2, NULL)
     ON CONFLICT (key) DO NOTHING";

/// A new record for each caller in every transaction.
pub(in crate::baseline) fn sets(path: &Path, callers: usize) -> Result<Box<dyn BareLoop>, Failure> {
    Ok(Box::new(Sets { connection: open(path)?, callers, next: 0, value: rows::payload() }))
}

/// A refused write of each caller in every transaction, which reads the existing record.
pub(in crate::baseline) fn refused_sets(
    path: &Path,
    callers: usize,
) -> Result<Box<dyn BareLoop>, Failure> {
    Ok(Box::new(RefusedSets { connection: open(path)?, callers, value: rows::payload() }))
}

/// An addition of each caller in every transaction, which returns the sum.
pub(in crate::baseline) fn adds(path: &Path, callers: usize) -> Result<Box<dyn BareLoop>, Failure> {
    Ok(Box::new(Adds { connection: open(path)?, callers }))
}

struct Sets {
    connection: Connection,
    callers: usize,
    next: u64,
    value: String,
}

impl BareLoop for Sets {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let mut transactions = Transactions::on(&self.connection)?;
        let mut set = self.connection.prepare(SET)?;
        let mut ops = 0;
        while time_for_more() {
            transactions.one(|| {
                for caller in 0..self.callers {
                    set.execute(params![rows::record_key(caller, self.next), self.value])?;
                }
                Ok(())
            })?;
            self.next += 1;
            ops += self.callers as u64;
        }
        Ok(ops)
    }
}

struct RefusedSets {
    connection: Connection,
    callers: usize,
    value: String,
}

impl BareLoop for RefusedSets {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let mut transactions = Transactions::on(&self.connection)?;
        let mut set = self.connection.prepare(SET)?;
        let mut get = self
            .connection
            .prepare("SELECT revision, value, expires_at FROM tidelock_records WHERE key = ?1")?;
        let mut ops = 0;
        while time_for_more() {
            transactions.one(|| {
                for _ in 0..self.callers {
                    set.execute(params![rows::HOT_KEY, self.value])?;
                    black_box(get.query_row([rows::HOT_KEY], |row| {
                        Ok((
                            row.get::<_, i64>(0)?,
                            row.get::<_, String>(1)?,
                            row.get::<_, Option<i64>>(2)?,
                        ))
                    })?);
                }
                Ok(())
            })?;
            ops += self.callers as u64;
        }
        Ok(ops)
    }
}

struct Adds {
    connection: Connection,
    callers: usize,
}

impl BareLoop for Adds {
    fn run(&mut self, time_for_more: &mut dyn FnMut() -> bool) -> Result<u64, Failure> {
        let mut transactions = Transactions::on(&self.connection)?;
        let mut add = self.connection.prepare(
            "UPDATE tidelock_records SET revision = revision + 1, value = CAST(value AS INTEGER) + ?2
             WHERE key = ?1 AND CAST(value AS INTEGER) + ?2 <= ?3 RETURNING revision, value",
        )?;
        let mut ops = 0;
        while time_for_more() {
            transactions.one(|| {
                for _ in 0..self.callers {
                    let sum = params![rows::HOT_KEY, 1, rows::BOUND];
                    black_box(add.query_row(sum, |row| {
                        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
                    })?);
                }
                Ok(())
            })?;
            ops += self.callers as u64;
        }
        Ok(ops)
    }
}
