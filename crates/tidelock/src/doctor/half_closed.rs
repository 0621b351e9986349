//! Streams whose closing was begun, and at which nobody is any more: they are shut, and their
//! events neither archived nor gone.

use tidelock_store::{Result, Version};

use super::check::{Check, unfinished};
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::closing::OpenBooks;

pub(super) async fn look(exam: &Check, findings: &mut Findings) -> Result<()> {
    let (mut after, mut looked) = (None, 0);
    loop {
        let page = OpenBooks::page(&*exam.store, after.take()).await?;
        looked += page.looked;
        page.books
            .iter()
            .filter(|books| is_left(books, exam))
            .for_each(|books| findings.add(finding(books)));
        match page.next {
            Some(next) if looked < exam.scan => after = Some(next),
            Some(_) => {
                findings.add(unfinished(Subject::Closings, looked));
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

/// Whether nobody is at them, and has not been for a while.
fn is_left(books: &OpenBooks, exam: &Check) -> bool {
    let is_held = books.held_until.is_some_and(|until| until > exam.now);
    let last_held = books.held_until.or(books.begun_at);
    !is_held && last_held.is_none_or(|held| exam.is_long_ago(held))
}

fn finding(books: &OpenBooks) -> Finding {
    let archived = books.archived.map_or(0, Version::get);
    let shut = if books.shuts { ", and takes no more events" } else { "" };
    Finding {
        kind: FindingKind::HalfClosed,
        severity: Severity::Error,
        subject: Subject::Stream(books.stream.clone()),
        since: books.begun_at,
        what: format!(
            "{} was begun and not finished: of its events up to {}, those up to {archived} are in the archive; it has them all{shut}",
            books.plan, books.through
        ),
        remedy: cure(books),
    }
}

/// Only a program has the state that a stream goes on with; a command can close one for good.
fn cure(books: &OpenBooks) -> Remedy {
    match books.goes_on {
        true => Remedy::advice(format!(
            "call {} again where it was called; it goes on where it stopped",
            books.plan
        )),
        false => {
            Remedy::advice("close it again, into the same archive; it goes on where it stopped")
                .then(RemedyAction::Close { stream: books.stream.clone() })
        }
    }
}
