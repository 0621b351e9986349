//! Parked runs: their code does not fit their history, or panics. They are retried; they have
//! neither failed nor been lost.

use tidelock_store::Item;

use super::check::Check;
use super::display::{ahead, many};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::runs::{LASTING, run_of};

pub(super) fn check(item: &Item, ctx: &Check) -> Option<Finding> {
    let run = run_of(&item.item)?;
    let hold = item.hold.filter(|hold| *hold > ctx.now && item.failures > 0);
    if !item.blocked && hold.is_none() {
        return None;
    }
    let again = hold.filter(|_| !item.blocked).map_or_else(
        || "is not retried automatically".to_owned(),
        |hold| format!("is retried {}", ahead(hold, ctx.now)),
    );
    let is_lasting = item.blocked || item.failures >= LASTING;
    let error = item.error.as_deref().unwrap_or("no error was recorded");
    Some(Finding {
        kind: FindingKind::Parked,
        severity: if is_lasting { Severity::Error } else { Severity::Warning },
        subject: Subject::Run(run.clone()),
        since: item.due,
        what: format!("parked {}, {again}: {error}", many(item.failures.max(1), "time")),
        remedy: Remedy::advice("deploy code that fits its history, then resume it")
            .then(RemedyAction::Resume { run }),
    })
}
