//! Several writes of one unit of work to one record, as the single write that a commit can have.

use tidelock_store::{Bounds, Change, ExpectedRevision, RecordWrite, Result, StoreError};

/// Stages writes, all or none. A value or deletion takes the place of an earlier one, under the
/// earlier expectation; additions to a counter and draws on a rate add up.
///
/// # Errors
/// `Invalid` if one write cannot do both.
pub(super) fn stage(staged: &mut Vec<RecordWrite>, more: Vec<RecordWrite>) -> Result<()> {
    // One write is staged or not; several need a copy to return to.
    let before = (more.len() > 1).then(|| staged.clone());
    let merged = more.into_iter().try_for_each(|write| add(staged, write));
    if let (Err(_), Some(before)) = (&merged, before) {
        *staged = before;
    }
    merged
}

fn add(writes: &mut Vec<RecordWrite>, write: RecordWrite) -> Result<()> {
    let Some(there) = writes.iter_mut().find(|there| there.key == write.key) else {
        writes.push(write);
        return Ok(());
    };
    if write.expected != ExpectedRevision::Any {
        return Err(invalid(&write, "a second write to a record expects nothing of it"));
    }
    match (&mut there.change, write.change) {
        (Change::Add { delta, within, .. }, Change::Add { delta: more, within: limits, .. }) => {
            let Some(sum) = add_up((*delta, *within), (more, limits)) else {
                let why = "additions of both signs to a bounded counter cannot be added up";
                return Err(StoreError::invalid(format!("record {:?}: {why}", there.key)));
            };
            (*delta, *within) = sum;
        }
        (Change::Rate(earlier), Change::Rate(later)) => {
            earlier.cost += later.cost;
            earlier.burst = earlier.burst.min(later.burst);
        }
        (Change::Edit { .. }, change) | (_, change @ Change::Edit { .. }) => {
            let write = RecordWrite { change, ..there.clone() };
            return Err(invalid(&write, "a write of a transaction beside an edit in the store"));
        }
        (Change::Rate(_), change) | (_, change @ Change::Rate(_)) => {
            let write = RecordWrite { change, ..there.clone() };
            return Err(invalid(&write, "it is drawn on and replaced in one transaction"));
        }
        (Change::Add { .. }, change) | (_, change @ Change::Add { .. }) => {
            let write = RecordWrite { change, ..there.clone() };
            return Err(invalid(&write, "it is added to and replaced in one transaction"));
        }
        (earlier, later) => *earlier = later,
    }
    Ok(())
}

/// Two additions as one, within the bounds of both; `None` if they have bounds and opposite signs.
fn add_up(one: (i64, Bounds), other: (i64, Bounds)) -> Option<(i64, Bounds)> {
    let ((first, earlier), (second, later)) = (one, other);
    let unbounded = |bounds: Bounds| bounds.min.is_none() && bounds.max.is_none();
    let same_sign = (first >= 0) == (second >= 0);
    let comparable = same_sign || (unbounded(earlier) && unbounded(later));
    if !comparable {
        return None;
    }
    // The sum is compared once, at its end: the first bound moves by what follows.
    let moved = |bound: Option<i64>| bound.map(|bound| bound.saturating_add(second));
    let max = moved(earlier.max).into_iter().chain(later.max).min();
    let min = moved(earlier.min).into_iter().chain(later.min).max();
    Some((first.saturating_add(second), Bounds { min, max }))
}

fn invalid(write: &RecordWrite, why: &str) -> StoreError {
    StoreError::invalid(format!("record {:?} is written twice: {why}", write.key))
}
