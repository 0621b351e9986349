//! Rebuilding what was made of events that are gone.

use tidelock::prelude::*;
use tidelock::reactions::{Effects, EventsGone, ResetError};
use tidelock::{AggregateRef, StoredEvent, Wake, When, discard};
use tidelock_test_stage::{Running, Stage, brisk, on_every_store, until};

use crate::account::{Account, pay};
use crate::stage::{until_blocked, until_quiet};

on_every_store!(
    a_reset_is_refused_once_events_were_cleared_away,
    a_computed_target_is_not_reset_once_one_of_its_streams_was_cut,
    a_computed_target_is_not_reset_once_its_links_to_what_is_gone_were_removed,
    a_reset_past_the_check_is_blocked_and_leaves_the_row_alone,
    a_reaction_that_began_after_what_is_gone_is_reset,
);

/// Counts the events of an account, by stream and for all of them together.
fn counting(tidelock: &Tidelock) -> Running {
    let count = |row: &mut u64, _: StoredEvent| *row += 1;
    let source = on_any().in_streams("account-");
    let all = source.clone().to(|_: &StoredEvent| "all");
    let app = tidelock.app().worker(brisk("counter"));
    Running::start(app.projection("counts", source, count).projection("sums", all, count))
}

async fn row(tidelock: &Tidelock, projection: &str, target: &str) -> u64 {
    tidelock.reactions().row(projection, target).await.unwrap().unwrap_or_default()
}

async fn until_counted(tidelock: &Tidelock, projection: &str, target: &str, count: u64) {
    until(&format!("{projection} has {count} for {target}"), async || {
        row(tidelock, projection, target).await == count
    })
    .await;
}

/// An account with so many payments, all of them counted.
async fn counted(tidelock: &Tidelock, id: &str, payments: u64) -> AggregateRef<Account> {
    let account = tidelock.aggregate::<Account>(id);
    for _ in 0..payments {
        account.execute(pay(1)).await.unwrap();
    }
    until_counted(tidelock, "counts", &format!("account-{id}"), payments).await;
    account
}

async fn cut(account: &AggregateRef<Account>, how: &str) {
    let books = account.books(discard);
    match how {
        "keep_last" => books.keep_last(3).await.unwrap(),
        "restart" => books.restart().await.unwrap(),
        _ => books.close().await.unwrap(),
    };
}

fn gone(refused: ResetError) -> EventsGone {
    assert!(refused.to_string().contains("a rebuild would leave them out"), "{refused}");
    match refused {
        ResetError::EventsGone { first, more: 0 } => first,
        other => panic!("{other}"),
    }
}

/// Schedule 114. REACT-26. Nothing is changed by a refusal; what is left is handled again only if that is asked for.
async fn a_reset_is_refused_once_events_were_cleared_away(stage: Stage) {
    let tidelock = stage.tidelock().await;
    let mut running = counting(&tidelock);
    for (how, left) in [("keep_last", 4), ("restart", 1), ("close", 0)] {
        let (account, target) = (counted(&tidelock, how, 10).await, format!("account-{how}"));
        cut(&account, how).await;
        let after = if how == "close" { 10 } else { 11 };
        if how != "close" {
            account.execute(pay(1)).await.unwrap();
        }
        until_counted(&tidelock, "counts", &target, after).await;
        let filter = ReactionFilter::named("counts").target(&target);
        let reactions = stage.tidelock().await.reactions();
        let gone = gone(reactions.reset(&filter, Effects::Keep).await.unwrap_err());
        assert_eq!(
            (gone.reaction.as_str(), gone.target.as_str(), gone.stream.as_str()),
            ("counts", &*target, &*target)
        );
        assert_eq!(gone.through.get(), after - left, "{how}");
        let there = reactions.target("counts", &target).await.unwrap().unwrap();
        assert!(there.at == there.mark && there.at.get() > 0, "{how}: nothing was reset: {there:?}");
        assert_eq!(row(&tidelock, "counts", &target).await, after, "{how}");
        if left > 0 {
            // A process may still have in memory what it has just routed.
            running.stop().await;
            running = counting(&tidelock);
            reactions.reset_partial(&filter, Effects::Keep).await.unwrap();
            until_counted(&tidelock, "counts", &target, left).await;
        }
    }
    counted(&tidelock, "whole", 2).await;
    let whole = ReactionFilter::named("counts").target("account-whole");
    assert_eq!(tidelock.reactions().reset(&whole, Effects::Keep).await.unwrap().changed, 1);
    until_counted(&tidelock, "counts", "account-whole", 2).await;
    running.stop().await;
}

/// Schedule 114. REACT-26. Of several streams that feed a target, one was cut.
async fn a_computed_target_is_not_reset_once_one_of_its_streams_was_cut(stage: Stage) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    counted(&tidelock, "whole", 3).await;
    let account = counted(&tidelock, "cut", 5).await;
    until_counted(&tidelock, "sums", "all", 8).await;
    let filter = ReactionFilter::named("sums");
    tidelock.reactions().reset(&filter, Effects::Keep).await.unwrap();
    until_counted(&tidelock, "sums", "all", 8).await;
    until_quiet(&tidelock, "sums").await;
    cut(&account, "keep_last").await;
    let gone = gone(tidelock.reactions().reset(&filter, Effects::Keep).await.unwrap_err());
    assert_eq!((gone.target.as_str(), gone.stream.as_str(), gone.through.get()), ("all", "account-cut", 2));
    assert_eq!(row(&tidelock, "sums", "all").await, 8);
    running.stop().await;
    let running = counting(&tidelock);
    tidelock.reactions().reset_partial(&filter, Effects::Keep).await.unwrap();
    until_counted(&tidelock, "sums", "all", 6).await;
    running.stop().await;
}

/// Schedule 114. REACT-26. What is gone is known for as long as the target is, and not only until the links to it are removed.
async fn a_computed_target_is_not_reset_once_its_links_to_what_is_gone_were_removed(stage: Stage) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    let account = counted(&tidelock, "cut", 5).await;
    counted(&tidelock, "whole", 3).await;
    until_counted(&tidelock, "sums", "all", 8).await;
    until_quiet(&tidelock, "sums").await;
    cut(&account, "close").await;
    let removal = Wake::at(ItemRef::parse("~link-removal", "sums").unwrap(), When::NOW);
    tidelock.store().commit(Commit::new().wake(removal)).await.unwrap().committed().unwrap();
    let links = StreamName::new("~links/sums/all").unwrap();
    let left = async || tidelock.store().read_whole_stream(&links).await.unwrap().len();
    until("the links were removed", async || left().await == 3).await;
    let filter = ReactionFilter::named("sums");
    gone(tidelock.reactions().reset(&filter, Effects::Keep).await.unwrap_err());
    assert_eq!(row(&tidelock, "sums", "all").await, 8);
    running.stop().await;
    let running = counting(&tidelock);
    tidelock.reactions().reset_partial(&filter, Effects::Keep).await.unwrap();
    until_counted(&tidelock, "sums", "all", 3).await;
    running.stop().await;
}

/// Schedule 114. REACT-26. The stream is cut between the look at it and the reset: the target is blocked with the reason, for the
/// doctor and all who look, and its row stays as it was.
async fn a_reset_past_the_check_is_blocked_and_leaves_the_row_alone(stage: Stage) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    let account = counted(&tidelock, "cut", 5).await;
    until_counted(&tidelock, "sums", "all", 5).await;
    running.stop().await;
    let filter = ReactionFilter::named("counts");
    tidelock.reactions().reset(&filter, Effects::Keep).await.unwrap();
    account.books(discard).ignoring("counts").keep_last(2).await.unwrap();
    let running = counting(&tidelock);
    let error = until_blocked(&tidelock, "counts", "account-cut").await.error.unwrap();
    assert!(
        error.contains("up to version 3 were cleared away") && error.contains("partial reset"),
        "{error}"
    );
    assert_eq!(row(&tidelock, "counts", "account-cut").await, 5);
    tidelock.reactions().reset_partial(&filter, Effects::Keep).await.unwrap();
    until_counted(&tidelock, "counts", "account-cut", 2).await;
    running.stop().await;
}

/// REACT-26. What was cleared away was never its own.
async fn a_reaction_that_began_after_what_is_gone_is_reset(stage: Stage) {
    let tidelock = stage.tidelock().await;
    let account = tidelock.aggregate::<Account>("old");
    for _ in 0..5 {
        account.execute(pay(1)).await.unwrap();
    }
    let source = on_any().in_streams("account-").from_now();
    let late = tidelock.app().worker(brisk("late"));
    let running = Running::start(late.projection("late", source, |row: &mut u64, _: StoredEvent| *row += 1));
    until("it has begun", async || !tidelock.reactions().routes().await.unwrap().is_empty()).await;
    for _ in 0..2 {
        account.execute(pay(1)).await.unwrap();
    }
    until_counted(&tidelock, "late", "account-old", 2).await;
    until_quiet(&tidelock, "late").await;
    account.books(discard).keep_last(4).await.unwrap();
    let filter = ReactionFilter::named("late");
    tidelock.reactions().reset(&filter, Effects::Keep).await.unwrap();
    until_quiet(&tidelock, "late").await;
    until_counted(&tidelock, "late", "account-old", 2).await;
    account.books(discard).keep_last(1).await.unwrap();
    gone(tidelock.reactions().reset(&filter, Effects::Keep).await.unwrap_err());
    running.stop().await;
}
