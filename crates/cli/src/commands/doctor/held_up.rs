//! Commits, or the feed, that wait for a database session's transaction.

use tidelock::postgres::{HeldCommits, HeldFeed, Holder, PostgresStore};

use super::exam::Exam;
use super::finding::{Finding, Findings, Kind, Severity};
use crate::failure::Failure;
use crate::output::span;

pub(super) async fn look(
    postgres: &PostgresStore,
    exam: &Exam,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let held_up = postgres.held_up().await?;
    if let Some(commits) = held_up.commits.filter(|commits| commits.waiting_for >= exam.patience) {
        findings.add(held_commits(&commits));
    }
    if let Some(feed) = held_up.feed.filter(|feed| feed.standing_for >= exam.patience) {
        findings.add(held_feed(&feed));
    }
    Ok(())
}

fn held_commits(held: &HeldCommits) -> Finding {
    let (sessions, waited) = (held.sessions_waiting, span(held.waiting_for));
    let what =
        format!("{sessions} sessions wait to commit, the first for {waited}, for {}", described(&held.by));
    finding("commits", what, &held.by)
}

fn held_feed(held: &HeldFeed) -> Finding {
    let (behind, stood) = (held.behind, span(held.standing_for));
    let what = format!(
        "it stands since {stood}, with {behind} positions that nobody may read yet, behind {}",
        described(&held.by)
    );
    finding("the feed", what, &held.by)
}

fn finding(thing: &str, what: String, by: &Holder) -> Finding {
    let mend = match by.session {
        0 => "COMMIT PREPARED or ROLLBACK PREPARED in the database; SELECT * FROM pg_prepared_xacts names it"
            .to_owned(),
        session => format!("end that transaction, or: psql -c 'SELECT pg_terminate_backend({session})'"),
    };
    Finding {
        kind: Kind::HeldUp,
        severity: Severity::Sick,
        thing: thing.to_owned(),
        since: None,
        what,
        mend: Some(mend),
    }
}

fn described(by: &Holder) -> String {
    let application = by.application.as_deref().filter(|name| !name.is_empty()).unwrap_or("no name");
    let role = by.role.as_deref().unwrap_or("unknown");
    let state = by.state.as_deref().unwrap_or("unknown");
    let open = by.open_for.map_or_else(String::new, |open| format!(", open for {}", span(open)));
    format!("session {} ({application:?}, role {role:?}, from {}, {state}{open})", by.session, by.client)
}
