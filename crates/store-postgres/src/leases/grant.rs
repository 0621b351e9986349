//! Grants leases on candidates, and returns which it got.

use tidelock_store::{ItemKey, Lease, LeaseRequest, Result, StoreError, Timestamp};
use tokio_postgres::Row;

use super::{item, micros};
use crate::connect::Session;
use crate::error::{commit_failed, failed};
use crate::statement::{Statement, statement};

/// Locks no more than it takes: locks are acquired in the order of the candidates, until there are
/// enough. A row that changed since it was read is judged again, as it is now.
///
/// The readiness check is written so that the index of ready items cannot answer it. A planner that
/// finds that index small would look up each key in it, and scan all of it for each.
pub(super) static GRANT: Statement = statement!(file "grant": TEXT, TEXT_ARRAY, INT8, TEXT, INT8);

/// Takes as many as are wanted; none if other sessions took all of them.
pub(super) async fn grant(
    session: &Session,
    request: &LeaseRequest,
    order: &[ItemKey],
) -> Result<Option<(Timestamp, Vec<Lease>)>> {
    let keys: Vec<&str> = order.iter().map(ItemKey::as_str).collect();
    let duration = micros(request.duration);
    let rows = session
        .query(
            &GRANT,
            &[
                &request.queue.as_str(),
                &keys,
                &(request.limit as i64),
                &request.worker.as_str(),
                &duration,
            ],
        )
        .await
        .map_err(commit_failed)?;
    let Some(first) = rows.first() else { return Ok(None) };
    let now = Timestamp::from_micros(first.try_get(1).map_err(failed)?)?;
    let mut granted = rows.iter().map(granted).collect::<Result<Vec<_>>>()?;
    granted.sort_by_key(|(nth, _)| *nth);
    Ok(Some((now, granted.into_iter().map(|(_, lease)| lease).collect())))
}

fn granted(row: &Row) -> Result<(i64, Lease)> {
    let item = item(row, 2)?;
    let (Some(fence), Some(holder)) = (item.fence, item.holder) else {
        return Err(StoreError::corrupt(format!("{} was leased and has no holder", item.item)));
    };
    let lease = Lease {
        item: item.item,
        fence,
        at: item.at,
        mark: item.mark,
        deadline: holder.deadline,
        attempts: item.attempts,
        failures: item.failures,
        expiries: item.expiries,
        lane: item.lane,
        priority: item.priority,
    };
    Ok((row.try_get(0).map_err(failed)?, lease))
}
