//! Reading a column of a row, whichever driver the row comes from.

use tidelock_store::Result;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::failed;

/// A row of an answer.
pub(crate) trait ReadColumn {
    /// Reads the column at this index.
    fn column<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T>;
}

impl ReadColumn for Row {
    fn column<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T> {
        self.try_get(at).map_err(failed)
    }
}
