//! Commits, or the feed, that wait for a database session's transaction.

use tidelock_store::Result;
use tidelock_store_postgres::{BlockedCommits, BlockedFeed, BlockingSession, PostgresStore};

use super::check::Check;
use super::diagnosis::Findings;
use super::display::{many, span};
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::{Remedy, RemedyAction};
use super::subject::Subject;

pub(super) async fn check(
    postgres: &PostgresStore,
    ctx: &Check,
    findings: &mut Findings,
) -> Result<()> {
    let held_up = postgres.blockers().await?;
    if let Some(commits) = held_up.commits.filter(|commits| commits.waiting_for >= ctx.patience) {
        findings.add(held_commits(&commits, ctx));
    }
    if let Some(feed) = held_up.feed.filter(|feed| feed.standing_for >= ctx.patience) {
        findings.add(held_feed(&feed, ctx));
    }
    Ok(())
}

fn held_commits(held: &BlockedCommits, ctx: &Check) -> Finding {
    let (sessions, waited) = (many(held.sessions_waiting, "session"), span(held.waiting_for));
    let what = format!(
        "{sessions} waiting to commit, the first for {waited}, blocked by {}",
        described(&held.by)
    );
    Finding { since: ctx.ago(held.waiting_for), ..finding(Subject::Commits, what, &held.by) }
}

fn held_feed(held: &BlockedFeed, ctx: &Check) -> Finding {
    let (behind, stood) = (many(held.behind, "position"), span(held.standing_for));
    let what = format!(
        "it has not advanced for {stood}; {behind} cannot be read yet; blocked by {}",
        described(&held.by)
    );
    Finding { since: ctx.ago(held.standing_for), ..finding(Subject::Feed, what, &held.by) }
}

fn finding(subject: Subject, what: String, by: &BlockingSession) -> Finding {
    let remedy = match by.session {
        0 => Remedy::advice(
            "COMMIT PREPARED or ROLLBACK PREPARED in the database; SELECT * FROM pg_prepared_xacts names it",
        ),
        session => Remedy::advice("end that transaction or its session")
            .then(RemedyAction::EndSession { session }),
    };
    Finding {
        kind: FindingKind::Blockers,
        severity: Severity::Error,
        subject,
        since: None,
        what,
        remedy,
    }
}

fn described(by: &BlockingSession) -> String {
    let application =
        by.application.as_deref().filter(|name| !name.is_empty()).unwrap_or("no name");
    let role = by.role.as_deref().unwrap_or("unknown");
    let state = by.state.as_deref().unwrap_or("unknown");
    let open = by.open_for.map_or_else(String::new, |open| format!(", open for {}", span(open)));
    format!(
        "session {} ({application:?}, role {role:?}, from {}, {state}{open})",
        by.session, by.client
    )
}
