//! Half-closed streams: a closing was started, and no process works on it. The streams are closed
//! to appends, and their events are neither archived nor deleted.

use tidelock_store::{Result, Version};

use super::check::{Check, unfinished};
use super::diagnosis::Findings;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;
use crate::closing::OpenBooks;

pub(super) async fn check(ctx: &Check, findings: &mut Findings) -> Result<()> {
    let (mut after, mut scanned) = (None, 0);
    loop {
        let page = OpenBooks::page(&*ctx.store, after.take()).await?;
        scanned += page.looked;
        page.books
            .iter()
            .filter(|books| is_stalled(books, ctx))
            .for_each(|books| findings.add(finding(books)));
        match page.next {
            Some(next) if scanned < ctx.scan => after = Some(next),
            Some(_) => {
                findings.add(unfinished(Subject::Closings, scanned));
                return Ok(());
            }
            None => return Ok(()),
        }
    }
}

/// Whether no process has worked on the closing for a while.
fn is_stalled(books: &OpenBooks, ctx: &Check) -> bool {
    let is_held = books.held_until.is_some_and(|until| until > ctx.now);
    let last_held = books.held_until.or(books.begun_at);
    !is_held && last_held.is_none_or(|held| ctx.is_long_ago(held))
}

fn finding(books: &OpenBooks) -> Finding {
    let archived = books.archived.map_or(0, Version::get);
    let shut = if books.shuts { ", and accepts no more events" } else { "" };
    Finding {
        kind: FindingKind::HalfClosed,
        severity: Severity::Error,
        subject: Subject::Stream(books.stream.clone()),
        since: books.begun_at,
        what: format!(
            "{} was started and not finished: of its events up to {}, those up to {archived} are in the archive; the stream still has all of them{shut}",
            books.plan, books.through
        ),
        remedy: remedy(books),
    }
}

/// A stream that continues with new state needs the program that has this state. A command can
/// close a stream for good.
fn remedy(books: &OpenBooks) -> Remedy {
    match books.goes_on {
        true => Remedy::advice(format!(
            "call {} again in the program; it continues where it stopped",
            books.plan
        )),
        false => {
            Remedy::advice("close it again, into the same archive; it continues where it stopped")
                .then(RemedyAction::Close { stream: books.stream.clone() })
        }
    }
}
