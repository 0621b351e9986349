//! Runs that could not be driven: their code does not fit their history, or panics. They are tried
//! again, and neither failed nor lost.

use tidelock_store::Item;

use super::cure::{Action, Cure};
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;
use super::words::{ahead, many};
use crate::runs::{LASTING, run_of};

pub(super) fn look(item: &Item, exam: &Exam) -> Option<Finding> {
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
        kind: Kind::Parked,
        severity: if lasts { Severity::Sick } else { Severity::Notice },
        thing: Thing::Run(run.clone()),
        since: item.due,
        what: format!("parked {}, {again}: {error}", many(item.failures.max(1), "time")),
        cure: Cure::advice("deploy code that can go on with it, then let it go on")
            .then(Action::Resume { run }),
    })
}
