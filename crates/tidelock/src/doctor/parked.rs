//! Runs that could not be driven: their code does not fit their history, or panics. They are tried
//! again, and neither failed nor lost.

use tidelock_store::Item;

use super::check::Check;
use super::display::{ahead, many};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::runs::{LASTING, run_of};

pub(super) fn look(item: &Item, exam: &Check) -> Option<Finding> {
    let run = run_of(&item.item)?;
    let hold = item.hold.filter(|hold| *hold > exam.now && item.failures > 0);
    if !item.blocked && hold.is_none() {
        return None;
    }
    let again = hold.filter(|_| !item.blocked).map_or_else(
        || "is not tried again by itself".to_owned(),
        |hold| format!("is tried again {}", ahead(hold, exam.now)),
    );
    let lasts = item.blocked || item.failures >= LASTING;
    let error = item.error.as_deref().unwrap_or("no error was kept");
    Some(Finding {
        kind: FindingKind::Parked,
        severity: if lasts { Severity::Error } else { Severity::Warning },
        subject: Subject::Run(run.clone()),
        since: item.due,
        what: format!("parked {}, {again}: {error}", many(item.failures.max(1), "time")),
        remedy: Remedy::advice("deploy code that can go on with it, then let it go on")
            .then(RemedyAction::Resume { run }),
    })
}
