//! Items that failed and are retried.

use std::time::Duration;

use tidelock_store::Item;

use super::check::Check;
use super::display::{ahead, many};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction, RemedyTask};
use super::subject::Subject;

pub(super) fn check(item: &Item, ctx: &Check) -> Option<Finding> {
    let error = item.error.as_deref().filter(|_| item.failures > 0 && item.holder.is_none())?;
    let again = item.hold.map_or_else(|| "at once".to_owned(), |hold| ahead(hold, ctx.now));
    Some(Finding {
        kind: FindingKind::Retrying,
        severity: Severity::Warning,
        subject: Subject::of(item),
        since: item.due,
        what: format!("failed {}, is retried {again}: {error}", many(item.failures, "time")),
        remedy: Remedy::advice(
            "nothing, if the cause is temporary; once it is gone, retry at once",
        )
        .then(RemedyAction::Defer { work: RemedyTask::of(item), wait: Duration::ZERO }),
    })
}
