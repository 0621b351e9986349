//! Rebuilds of projections whose events were removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::When;
use tidelock::closing::discard;
use tidelock::events::AggregateRef;
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::reactions::{EventsGone, RebuildOutcome, ResetEffects, ResetError};
use tidelock::store::{
    Commit, ItemRef, NewEvent, QueueName, StoreExt, StoredEvent, StreamName, Wake,
};
use tidelock_test_stage::{Running, TestStore, brisk, on_every_store, until};

use crate::account::{Account, pay};
use crate::stage::{until_blocked, until_quiet};

on_every_store!(
    a_reset_is_refused_once_events_were_cleared_away,
    a_computed_target_is_not_reset_once_one_of_its_streams_was_cut,
    a_computed_target_is_not_reset_after_its_dangling_links_were_removed,
    a_reset_past_the_check_is_blocked_and_leaves_the_row_alone,
    a_reaction_that_started_after_the_removed_events_is_reset,
    a_partial_reset_with_no_event_left_deletes_the_row,
    a_rebuild_whose_first_page_has_nothing_for_it_begins_with_an_empty_row,
    events_that_go_in_the_middle_of_a_rebuild_block_the_target,
    a_projection_is_not_rebuilt_once_events_were_cleared_away,
    a_close_waits_for_a_rebuild_that_has_to_handle_the_events_again,
);

/// Counts the events of an account, per stream and for all of them together.
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
    let books = account.archive_to(discard);
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

/// Schedule 114. REACT-26. A refusal changes nothing; the remaining events are handled again only
/// on request.
async fn a_reset_is_refused_once_events_were_cleared_away(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
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
        let gone = gone(reactions.reset(&filter, ResetEffects::Keep).await.unwrap_err());
        assert_eq!(
            (gone.reaction.as_str(), gone.target.as_str(), gone.stream.as_str()),
            ("counts", &*target, &*target)
        );
        assert_eq!(gone.through.get(), after - left, "{how}");
        let there = reactions.target("counts", &target).await.unwrap().unwrap();
        assert!(
            there.at == there.mark && there.at.get() > 0,
            "{how}: nothing was reset: {there:?}"
        );
        assert_eq!(row(&tidelock, "counts", &target).await, after, "{how}");
        if left > 0 {
            // The rebuilding process has its latest routes cached.
            reactions.reset_partial(&filter, ResetEffects::Keep).await.unwrap();
            until_counted(&tidelock, "counts", &target, left).await;
        }
    }
    counted(&tidelock, "whole", 2).await;
    let whole = ReactionFilter::named("counts").target("account-whole");
    assert_eq!(tidelock.reactions().reset(&whole, ResetEffects::Keep).await.unwrap().changed, 1);
    until_counted(&tidelock, "counts", "account-whole", 2).await;
    running.stop().await;
}

/// Schedule 114. REACT-26. Of several streams that feed a target, one was trimmed.
async fn a_computed_target_is_not_reset_once_one_of_its_streams_was_cut(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    counted(&tidelock, "whole", 3).await;
    let account = counted(&tidelock, "cut", 5).await;
    until_counted(&tidelock, "sums", "all", 8).await;
    let filter = ReactionFilter::named("sums");
    tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap();
    until_counted(&tidelock, "sums", "all", 8).await;
    until_quiet(&tidelock, "sums").await;
    cut(&account, "keep_last").await;
    let gone = gone(tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap_err());
    assert_eq!(
        (gone.target.as_str(), gone.stream.as_str(), gone.through.get()),
        ("all", "account-cut", 2)
    );
    assert_eq!(row(&tidelock, "sums", "all").await, 8);
    tidelock.reactions().reset_partial(&filter, ResetEffects::Keep).await.unwrap();
    until_counted(&tidelock, "sums", "all", 6).await;
    running.stop().await;
}

/// Schedule 114. REACT-26. The removal is remembered as long as the target exists, not only until
/// the links are removed.
async fn a_computed_target_is_not_reset_after_its_dangling_links_were_removed(stage: TestStore) {
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
    gone(tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap_err());
    assert_eq!(row(&tidelock, "sums", "all").await, 8);
    running.stop().await;
    let running = counting(&tidelock);
    tidelock.reactions().reset_partial(&filter, ResetEffects::Keep).await.unwrap();
    until_counted(&tidelock, "sums", "all", 3).await;
    running.stop().await;
}

/// Schedule 114. REACT-26. The stream is trimmed between the check and the reset: the target is
/// blocked with the reason, and its row stays unchanged.
async fn a_reset_past_the_check_is_blocked_and_leaves_the_row_alone(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    let account = counted(&tidelock, "cut", 5).await;
    until_counted(&tidelock, "sums", "all", 5).await;
    running.stop().await;
    let filter = ReactionFilter::named("counts");
    tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap();
    account.archive_to(discard).ignore_reaction("counts").keep_last(2).await.unwrap();
    let running = counting(&tidelock);
    let error = until_blocked(&tidelock, "counts", "account-cut").await.error.unwrap();
    assert!(
        error.contains("up to version 3 were deleted") && error.contains("partial reset"),
        "{error}"
    );
    assert_eq!(row(&tidelock, "counts", "account-cut").await, 5);
    tidelock.reactions().reset_partial(&filter, ResetEffects::Keep).await.unwrap();
    until_counted(&tidelock, "counts", "account-cut", 2).await;
    running.stop().await;
}

/// REACT-26. The removed events were never the reaction's.
async fn a_reaction_that_started_after_the_removed_events_is_reset(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = tidelock.aggregate::<Account>("old");
    for _ in 0..5 {
        account.execute(pay(1)).await.unwrap();
    }
    let source = on_any().in_streams("account-").from_now();
    let late = tidelock.app().worker(brisk("late"));
    let running =
        Running::start(late.projection("late", source, |row: &mut u64, _: StoredEvent| *row += 1));
    until("it has begun", async || !tidelock.reactions().routes().await.unwrap().is_empty()).await;
    for _ in 0..2 {
        account.execute(pay(1)).await.unwrap();
    }
    until_counted(&tidelock, "late", "account-old", 2).await;
    until_quiet(&tidelock, "late").await;
    account.archive_to(discard).keep_last(4).await.unwrap();
    let filter = ReactionFilter::named("late");
    tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap();
    until_quiet(&tidelock, "late").await;
    until_counted(&tidelock, "late", "account-old", 2).await;
    account.archive_to(discard).keep_last(1).await.unwrap();
    gone(tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap_err());
    running.stop().await;
}

/// Removes dangling links, a minute early, until so many are left.
async fn remove_links(tidelock: &Tidelock, reaction: &str, target: &str, left: u64) {
    let (queue, key) = (
        QueueName::new("~link-removal").unwrap(),
        tidelock::store::ItemKey::new(reaction).unwrap(),
    );
    let wake = Wake::at(ItemRef::new(&queue, &key), When::NOW);
    tidelock.store().commit(Commit::new().wake(wake)).await.unwrap().committed().unwrap();
    let links = StreamName::new(format!("~links/{reaction}/{target}")).unwrap();
    let removed = async || tidelock.store().head(&links).await.unwrap().count == left;
    until(&format!("{reaction} of {target} has {left} links"), removed).await;
}

/// REACT-26. Whether links still lead to removed events or not.
async fn a_partial_reset_with_no_event_left_deletes_the_row(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    for (id, links) in [("one", true), ("two", false)] {
        let (account, target) = (counted(&tidelock, id, 2).await, format!("account-{id}"));
        until_counted(&tidelock, "sums", "all", 2).await;
        until_quiet(&tidelock, "counts").await;
        until_quiet(&tidelock, "sums").await;
        cut(&account, "close").await;
        if !links {
            remove_links(&tidelock, "sums", "all", 0).await;
        }
        for (reaction, target) in [("counts", target.as_str()), ("sums", "all")] {
            let filter = ReactionFilter::named(reaction).target(target);
            tidelock.reactions().reset_partial(&filter, ResetEffects::Keep).await.unwrap();
            until_quiet(&tidelock, reaction).await;
            let row: Option<u64> = tidelock.reactions().row(reaction, target).await.unwrap();
            assert_eq!(row, None, "{reaction} of {target}");
        }
    }
    counted(&tidelock, "three", 4).await;
    until_counted(&tidelock, "sums", "all", 4).await;
    running.stop().await;
}

/// The old row is not added to, wherever the first matching event is.
async fn a_rebuild_whose_first_page_has_nothing_for_it_begins_with_an_empty_row(stage: TestStore) {
    let (tidelock, stream) = (stage.tidelock().await, StreamName::new("account-mixed").unwrap());
    for kind in ["noted", "noted", "noted", "paid"] {
        let event = NewEvent::of(kind, &serde_json::json!({ "amount": 1 })).unwrap();
        let appended =
            tidelock.store().append(&stream, ExpectedVersion::Any, vec![event]).await.unwrap();
        appended.committed().unwrap();
    }
    let source = on_any().of_types(["paid"]).in_streams("account-").max_events_per_lease(2);
    let app = tidelock.app().worker(brisk("counter"));
    let running =
        Running::start(app.projection("paid", source, |row: &mut u64, _: StoredEvent| *row += 1));
    until_counted(&tidelock, "paid", "account-mixed", 1).await;
    for _ in 0..2 {
        tidelock
            .reactions()
            .reset(&ReactionFilter::named("paid"), ResetEffects::Keep)
            .await
            .unwrap();
        until_quiet(&tidelock, "paid").await;
        assert_eq!(row(&tidelock, "paid", "account-mixed").await, 1);
    }
    running.stop().await;
}

/// REACT-26. During a rebuild, events that it has yet to handle are removed. Events that it has
/// handled again can be.
async fn events_that_go_in_the_middle_of_a_rebuild_block_the_target(stage: TestStore) {
    let (tidelock, stuck) = (stage.tidelock().await, Arc::new(AtomicBool::new(false)));
    let account = tidelock.aggregate::<Account>("cut");
    for _ in 0..9 {
        account.execute(pay(1)).await.unwrap();
    }
    let stops = stuck.clone();
    let count = move |row: &mut u64, event: StoredEvent| {
        assert!(event.version.get() != 5 || !stops.load(Ordering::SeqCst), "stuck at the fifth");
        *row += 1;
    };
    let source = on_any().in_streams("account-").retry(Retry::never()).max_events_per_lease(2);
    let all = source.clone().to(|_: &StoredEvent| "all");
    let app = tidelock.app().worker(brisk("counter"));
    let running = Running::start(
        app.projection("counts", source, count.clone()).projection("sums", all, count),
    );
    let targets = [("counts", "account-cut"), ("sums", "all")];
    for (reaction, target) in targets {
        until_counted(&tidelock, reaction, target, 9).await;
        until_quiet(&tidelock, reaction).await;
    }
    stuck.store(true, Ordering::SeqCst);
    for (reaction, target) in targets {
        tidelock
            .reactions()
            .reset(&ReactionFilter::named(reaction), ResetEffects::Keep)
            .await
            .unwrap();
        let error = until_blocked(&tidelock, reaction, target).await.error.unwrap();
        assert!(error.contains("stuck at the fifth"), "{error}");
    }
    stuck.store(false, Ordering::SeqCst);
    for (left, error) in [(5, None), (3, Some("up to version 6 were deleted"))] {
        account
            .archive_to(discard)
            .ignore_reaction("counts")
            .ignore_reaction("sums")
            .keep_last(left)
            .await
            .unwrap();
        stuck.store(error.is_none(), Ordering::SeqCst);
        for (reaction, target) in targets {
            tidelock.reactions().unblock(&ReactionFilter::named(reaction)).await.unwrap();
            let told = until_blocked(&tidelock, reaction, target).await.error.unwrap();
            assert!(told.contains(error.unwrap_or("stuck at the fifth")), "{reaction}: {told}");
            assert_eq!(row(&tidelock, reaction, target).await, 4, "{reaction}: as it was");
        }
    }
    for (reaction, target) in targets {
        tidelock
            .reactions()
            .reset_partial(&ReactionFilter::named(reaction), ResetEffects::Keep)
            .await
            .unwrap();
        until_counted(&tidelock, reaction, target, 3).await;
    }
    running.stop().await;
}

async fn until_rebuilt(tidelock: &Tidelock, projection: &str) {
    until("the rebuild is over", async || {
        let info = tidelock.reactions().projection(projection).await.unwrap().unwrap();
        assert_eq!(info.rebuild.as_ref().and_then(|it| it.error.clone()), None);
        info.rebuild.is_none() && !info.deleting
    })
    .await;
}

/// REACT-32. On request it is built from what is left: nothing of a stream that was closed for
/// good.
async fn a_projection_is_not_rebuilt_once_events_were_cleared_away(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    let kept = counted(&tidelock, "kept", 10).await;
    let closed = counted(&tidelock, "closed", 10).await;
    counted(&tidelock, "whole", 2).await;
    until_counted(&tidelock, "sums", "all", 22).await;
    cut(&kept, "keep_last").await;
    cut(&closed, "close").await;
    kept.execute(pay(1)).await.unwrap();
    until_counted(&tidelock, "counts", "account-kept", 11).await;
    let reactions = tidelock.reactions();
    for projection in ["counts", "sums"] {
        let refused = reactions.rebuild(projection).await.unwrap_err();
        assert!(refused.to_string().contains("a rebuild would leave them out"), "{refused}");
        let info = reactions.projection(projection).await.unwrap().unwrap();
        assert_eq!((info.rebuild, info.deleting), (None, false), "nothing began");
        let outcome = reactions.rebuild_partial(projection).await.unwrap();
        assert_eq!(outcome, RebuildOutcome::Started);
        until_rebuilt(&tidelock, projection).await;
    }
    assert_eq!(row(&tidelock, "counts", "account-kept").await, 4);
    assert_eq!(row(&tidelock, "counts", "account-whole").await, 2);
    let closed: Option<u64> = reactions.row("counts", "account-closed").await.unwrap();
    assert_eq!(closed, None);
    assert_eq!(row(&tidelock, "sums", "all").await, 6);
    running.stop().await;
}

/// REACT-32. Unless the close ignores the projection: then the rebuild says what it misses.
async fn a_close_waits_for_a_rebuild_that_has_to_handle_the_events_again(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = counting(&tidelock);
    let account = counted(&tidelock, "busy", 10).await;
    until_counted(&tidelock, "sums", "all", 10).await;
    running.stop().await;
    let reactions = tidelock.reactions();
    for projection in ["counts", "sums"] {
        assert_eq!(reactions.rebuild(projection).await.unwrap(), RebuildOutcome::Started);
        let books = account.archive_to(discard).within(std::time::Duration::ZERO);
        let refused = books.keep_last(3).await.unwrap_err().to_string();
        let says = format!("projection {projection:?} is being rebuilt");
        assert!(refused.contains(&says), "{refused}");
        assert!(reactions.cancel_rebuild(projection).await.unwrap());
    }
    assert_eq!(reactions.rebuild("counts").await.unwrap(), RebuildOutcome::Started);
    account.archive_to(discard).ignore_reaction("counts").keep_last(3).await.unwrap();
    let running = counting(&tidelock);
    until("the rebuild has failed", async || {
        let info = reactions.projection("counts").await.unwrap().unwrap();
        info.rebuild.is_some_and(|it| it.error.is_some())
    })
    .await;
    let info = reactions.projection("counts").await.unwrap().unwrap();
    let error = info.rebuild.unwrap().error.unwrap();
    assert!(error.contains("account-busy") && error.contains("leave them out"), "{error}");
    assert_eq!(row(&tidelock, "counts", "account-busy").await, 10);
    running.stop().await;
}
