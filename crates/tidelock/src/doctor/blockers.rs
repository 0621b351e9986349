//! Commits, or the feed, that wait for a database session's transaction.

use tidelock_store::Result;
use tidelock_store_postgres::{BlockedCommits, BlockedFeed, BlockingSession, PostgresStore};

use super::display::{many, span};
use super::examination::Examination;
use super::finding::{Finding, FindingKind, Findings};
use super::remedy::RemedyAction;
use super::subject::Subject;

pub(super) async fn check(
    postgres: &PostgresStore,
    exam: &Examination,
    findings: &mut Findings,
) -> Result<()> {
    let held_up = postgres.blockers().await?;
    if let Some(commits) =
        held_up.commits.filter(|commits| commits.waiting_for >= exam.thresholds.stuck_after)
    {
        findings.add(held_commits(&commits, exam));
    }
    if let Some(feed) = held_up.feed.filter(|feed| feed.standing_for >= exam.thresholds.stuck_after)
    {
        findings.add(held_feed(&feed, exam));
    }
    Ok(())
}

fn held_commits(held: &BlockedCommits, exam: &Examination) -> Finding {
    let (sessions, waited) = (many(held.sessions_waiting, "session"), span(held.waiting_for));
    let what = format!(
        "{sessions} waiting to commit, the first for {waited}, blocked by {}",
        described(&held.by)
    );
    finding(Subject::Commits, what, &held.by).since(exam.ago(held.waiting_for))
}

fn held_feed(held: &BlockedFeed, exam: &Examination) -> Finding {
    let (behind, stood) = (many(held.behind, "position"), span(held.standing_for));
    let what = format!(
        "it has not advanced for {stood}; {behind} cannot be read yet; blocked by {}",
        described(&held.by)
    );
    finding(Subject::Feed, what, &held.by).since(exam.ago(held.standing_for))
}

fn finding(subject: Subject, what: String, by: &BlockingSession) -> Finding {
    let finding = Finding::error(FindingKind::Blockers, subject, what);
    match by.session {
        0 => finding.advice(
            "COMMIT PREPARED or ROLLBACK PREPARED in the database; SELECT * FROM pg_prepared_xacts names it",
        ),
        session => finding
            .advice("end that transaction or its session")
            .action(RemedyAction::EndSession { session }),
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
