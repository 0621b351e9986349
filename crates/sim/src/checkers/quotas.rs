//! Quotas: at no moment of the store's clock are more units out than the quota has.
//!
//! `O(n log n)` in the draws.

use std::collections::{BTreeMap, HashMap};

use super::{Inquiry, Report};
use crate::history::{Action, Answer, Outcome};

/// A draw that was granted.
struct Draw {
    units: i64,
    from: i64,
    until: i64,
}

/// Checks every quota.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    let mut quotas: BTreeMap<&str, (i64, HashMap<&str, Draw>)> = BTreeMap::new();
    for operation in &inquiry.history.operations {
        if let (
            Action::Take { quota, limit, id, units },
            Outcome::Done(Answer::Taken { from, until }),
        ) = (&operation.action, &operation.outcome)
        {
            let draw = Draw { units: *units, from: *from, until: *until };
            let (known, draws) = quotas.entry(quota).or_insert((*limit, HashMap::new()));
            *known = (*known).max(*limit);
            // The same draw again, under its id.
            let same = draws.entry(id).or_insert(draw);
            same.from = same.from.min(*from);
        }
    }
    for operation in &inquiry.history.operations {
        let Action::Refund { quota, id } = &operation.action else { continue };
        if matches!(operation.outcome, Outcome::Refused(_) | Outcome::Failed(_)) {
            continue;
        }
        if let Some(draw) =
            quotas.get_mut(quota.as_str()).and_then(|(_, draws)| draws.get_mut(id.as_str()))
        {
            // The call begins before the units are back.
            draw.until = draw.until.min(operation.invoked.at.unwrap_or(draw.from));
        }
    }
    for (quota, (limit, draws)) in &quotas {
        if let Some((at, out)) = exceeded(*limit, draws.values()) {
            let story = format!("{out} units of {quota} were out at {at}, of {limit}");
            report.add("quota exceeded", story);
        }
    }
}

/// The first moment at which too many units were out.
fn exceeded<'a>(limit: i64, draws: impl Iterator<Item = &'a Draw>) -> Option<(i64, i64)> {
    let mut changes: BTreeMap<i64, i64> = BTreeMap::new();
    for draw in draws.filter(|draw| draw.from < draw.until) {
        *changes.entry(draw.from).or_default() += draw.units;
        *changes.entry(draw.until).or_default() -= draw.units;
    }
    let mut out = 0;
    changes.into_iter().find_map(|(at, change)| {
        out += change;
        (out > limit).then_some((at, out))
    })
}
