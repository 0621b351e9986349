//! Items that fail and are tried again.

use std::time::Duration;

use tidelock_store::Item;

use super::cure::{Action, Cure, Work};
use super::exam::Exam;
use super::finding::{Finding, Kind, Severity};
use super::thing::Thing;
use super::words::{ahead, many};

pub(super) fn look(item: &Item, exam: &Exam) -> Option<Finding> {
    let error = item.error.as_deref().filter(|_| item.failures > 0 && item.holder.is_none())?;
    let again = item.hold.map_or_else(|| "at once".to_owned(), |hold| ahead(hold, exam.now));
    Some(Finding {
        kind: Kind::Retrying,
        severity: Severity::Notice,
        thing: Thing::of(item),
        since: item.due,
        what: format!("failed {}, is due again {again}: {error}", many(item.failures, "time")),
        cure: Cure::advice("nothing, if what it says passes; once it has, it can be tried at once")
            .then(Action::Defer { work: Work::of(item), wait: Duration::ZERO }),
    })
}
