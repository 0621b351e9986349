//! Items that fail and are tried again.

use tidelock::Item;

use super::exam::{Exam, name};
use super::finding::{Finding, Kind, Severity};
use crate::output::ahead;

pub(super) fn look(item: &Item, exam: &Exam) -> Option<Finding> {
    let error = item.error.as_deref().filter(|_| item.failures > 0 && item.holder.is_none())?;
    let again = item.hold.map_or_else(|| "at once".to_owned(), |hold| ahead(hold, exam.now));
    Some(Finding {
        kind: Kind::Retrying,
        severity: Severity::Notice,
        thing: name(item),
        since: item.due,
        what: format!("failed {} times, is due again {again}: {error}", item.failures),
        mend: None,
    })
}
