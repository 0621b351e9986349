//! Lists, page by page, until enough rows are shown.

use tidelock::store::limits;

use crate::args::Paging;
use crate::failure::Result;
use crate::output::{Output, TableRow};

/// Prints the rows of each page. Says so if there is none, or if there may be more after a cursor.
pub(crate) async fn list<R: TableRow, C>(
    paging: Paging,
    out: &mut Output,
    mut read: impl AsyncFnMut(Option<C>, usize) -> Result<(Vec<R>, Option<C>)>,
    none: &str,
    more: impl FnOnce(C) -> String,
) -> Result<()> {
    let (mut after, mut left, mut any) = (None, paging.wanted(), false);
    loop {
        let (rows, next) = read(after, left.min(limits::PAGE_SIZE)).await?;
        left -= rows.len().min(left);
        any |= !rows.is_empty();
        out.list(&rows)?;
        match next {
            Some(next) if left == 0 => return Ok(out.note(&more(next))?),
            None if !any => return Ok(out.note(none)?),
            None => return Ok(()),
            next => after = next,
        }
    }
}
