//! Paged listings on the terminal.

use tidelock::List;
use tidelock::store::limits;

use crate::args::Paging;
use crate::failure::Failure;
use crate::output::{Output, TableRow};

/// Prints rows of a list until enough are shown, with a note if there may be more. Returns whether
/// there was any row.
pub(super) async fn show<T, C, R>(
    list: List<T, C>,
    paging: Paging,
    out: &mut Output,
    row: impl Fn(T) -> Option<R>,
    more: &str,
) -> Result<bool, Failure>
where
    T: 'static,
    C: Clone + 'static,
    R: TableRow,
{
    let (mut after, mut left, mut any) = (None, paging.wanted(), false);
    loop {
        let page = list.clone().after(after.take()).limit(left.min(limits::PAGE_SIZE)).await?;
        let rows: Vec<R> = page.items.into_iter().filter_map(&row).collect();
        left -= rows.len().min(left);
        any |= !rows.is_empty();
        out.list(&rows)?;
        match page.next {
            Some(_) if left == 0 => {
                out.note(&format!("there may be more: --all, or {more}"))?;
                return Ok(any);
            }
            Some(next) => after = Some(next),
            None => return Ok(any),
        }
    }
}
