//! Operators' views and actions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidelock::When;
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::reactions::ResetEffects;
use tidelock::store::{NamePattern, StoreExt, StoredEvent, limits};
use tidelock_test_stage::{
    Observed, Running, TestStore, append, brisk, in_memory, note, on_every_store, until,
};
use tokio::sync::Semaphore;

use crate::stage::{target, until_quiet};

on_every_store!(
    the_listing_shows_lag_holder_failures_and_errors,
    filters_choose_by_reaction_target_source_and_blocked,
    a_deferred_target_waits_and_a_prioritized_one_goes_first,
    a_blocked_family_is_unblocked_by_a_pattern,
    a_reaction_has_lag_only_while_it_is_routed,
);

/// REACT-20. Events that are appended after the reaction's last run make no lag, which would grow
/// without bound.
async fn a_reaction_has_lag_only_while_it_is_routed(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let lag = async || {
        let store = tidelock.store();
        let (now, end) = (store.now().await.unwrap(), store.feed_end().await.unwrap());
        let routes = tidelock.reactions().routes().await.unwrap();
        routes.first().and_then(|route| route.lag(end, now))
    };
    note(&tidelock, "order-1", "x").await;
    let app = tidelock.app().worker(brisk("one"));
    let running =
        Running::start(app.reaction("mail", on_any(), |_: StoredEvent, _| async { Ok(()) }));
    until("the router has caught up", async || lag().await == Some(0)).await;
    running.stop().await;
    note(&tidelock, "order-1", "y").await;
    assert_eq!(lag().await, None);
}

/// REACT-20.
async fn the_listing_shows_lag_holder_failures_and_errors(stage: TestStore) {
    let (tidelock, gate) = (stage.tidelock().await, Arc::new(Semaphore::new(0)));
    for (stream, text) in [("busy", "x"), ("busy", "y"), ("bad", "x")] {
        note(&tidelock, stream, text).await;
    }
    let closed = gate.clone();
    let app = tidelock.app().worker(brisk("worker-7"));
    let app = app.reaction("mixed", on_any(), move |event: StoredEvent, _| {
        let gate = closed.clone();
        async move {
            if event.stream.as_str() == "bad" {
                return Err(HandlerError::fatal("out of ink"));
            }
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let running = Running::start(app);
    let busy = async || {
        target(&tidelock, "mixed", "busy").await.is_some_and(|t| t.holder.is_some() && t.lag() == 2)
    };
    until("it is held", busy).await;
    until("the other is blocked", async || {
        target(&tidelock, "mixed", "bad").await.is_some_and(|t| t.blocked)
    })
    .await;
    let listed = tidelock.reactions().list(&ReactionFilter::all()).all().await.unwrap();
    assert_eq!(listed.iter().map(|t| t.target.as_str()).collect::<Vec<_>>(), ["bad", "busy"]);
    assert_eq!(listed[0].error.as_deref(), Some("out of ink"));
    assert_eq!(listed[1].holder.as_ref().unwrap().worker.as_str(), "worker-7");
    let routes = tidelock.reactions().routes().await.unwrap();
    assert_eq!((routes.len(), routes[0].reaction.as_str(), routes[0].blocked), (1, "mixed", false));
    assert!(routes[0].holder.is_some());
    gate.add_permits(2);
    running.stop().await;
}

fn names(listed: &[tidelock::reactions::TargetInfo]) -> Vec<String> {
    listed.iter().map(|t| format!("{}/{}", t.reaction, t.target)).collect()
}

/// REACT-20.
async fn filters_choose_by_reaction_target_source_and_blocked(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for stream in ["cart-1", "order-1", "order-2"] {
        append(&tidelock, stream, "happened", &json!({})).await;
    }
    let bad = |event: StoredEvent, _: ReactionCtx| async move {
        if event.stream.as_str() == "order-2" { Err(HandlerError::fatal("no")) } else { Ok(()) }
    };
    let app = tidelock.app().worker(brisk("one")).reaction("mail", on_any(), bad);
    let ship = on_any()
        .in_streams("order-")
        .to(|event: &StoredEvent| format!("parcel-of-{}", event.stream));
    let app = app.reaction("ship", ship, |_: StoredEvent, _| async { Ok(()) });
    let running = Running::start(app);
    let list = async |filter: ReactionFilter| {
        names(&tidelock.reactions().list(&filter).all().await.unwrap())
    };
    until("all are there", async || list(ReactionFilter::all()).await.len() == 5).await;
    let blocked = async || list(ReactionFilter::all().blocked(true)).await == ["mail/order-2"];
    until("one is blocked", blocked).await;
    until_quiet(&tidelock, "ship").await;
    running.stop().await;
    let all = ReactionFilter::all;
    assert_eq!(
        list(ReactionFilter::named("ship")).await,
        ["ship/parcel-of-order-1", "ship/parcel-of-order-2"]
    );
    assert_eq!(
        list(all().targets(NamePattern::like("order-*"))).await,
        ["mail/order-1", "mail/order-2"]
    );
    assert_eq!(list(all().sources("cart-")).await, ["mail/cart-1"]);
    assert_eq!(list(all().sources("order-")).await.len(), 4);
    assert_eq!(list(all().reactions(NamePattern::like("s*")).sources("order-")).await.len(), 2);
    assert_eq!(
        list(all().blocked(false).targets(NamePattern::like("order-*"))).await,
        ["mail/order-1"]
    );
    let reset =
        tidelock.reactions().reset(&all().sources("cart-"), ResetEffects::Keep).await.unwrap();
    assert_eq!((reset.matched, reset.changed), (1, 1));
}

/// REACT-10, REACT-20.
async fn a_deferred_target_waits_and_a_prioritized_one_goes_first(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let app = |lanes: &'static str| {
        let noted = seen.clone();
        tidelock.app().worker(brisk("one")).max_concurrency(1).lanes([lanes]).reaction(
            "work",
            on_any(),
            move |e: StoredEvent, _| {
                let noted = noted.clone();
                async move {
                    noted.note(e.stream.as_str());
                    Ok(())
                }
            },
        )
    };
    for stream in ["a", "b", "c", "later"] {
        note(&tidelock, stream, "x").await;
    }
    // Routed by a process that serves another lane.
    let running = Running::start(app("unused"));
    let all = async || {
        tidelock.reactions().list(&ReactionFilter::named("work")).all().await.unwrap().len() == 4
    };
    until("all are routed", all).await;
    running.stop().await;
    let named = |target: &str| ReactionFilter::named("work").target(target);
    tidelock
        .reactions()
        .defer(&named("later"), When::In(Duration::from_secs(3_600)))
        .await
        .unwrap();
    tidelock.reactions().prioritize(&named("c"), 50).await.unwrap();
    let running = Running::start(app("default"));
    seen.until(3).await;
    running.stop().await;
    assert_eq!(seen.lines()[0], "c", "{:?}", seen.lines());
    assert_eq!(seen.count(), 3, "the deferred one waits");
    let later = target(&tidelock, "work", "later").await.unwrap();
    assert!(later.hold.is_some() && later.lag() == 1);
    let moved = tidelock.reactions().move_to(&named("later"), "slow").await.unwrap();
    let later = target(&tidelock, "work", "later").await.unwrap();
    assert_eq!((moved.changed, later.lane.as_str()), (1, "slow"));
}

/// REACT-20.
async fn a_blocked_family_is_unblocked_by_a_pattern(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 0..5 {
        note(&tidelock, &format!("webhooks-{nth}"), "x").await;
        note(&tidelock, &format!("mail-{nth}"), "x").await;
    }
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one")).reaction(
        "send",
        on_any(),
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(event.stream.as_str());
                if noted.count() <= 10 { Err(HandlerError::fatal("down")) } else { Ok(()) }
            }
        },
    );
    let running = Running::start(app);
    let blocked = ReactionFilter::all().blocked(true);
    until("all are blocked", async || {
        tidelock.reactions().list(&blocked).all().await.unwrap().len() == 10
    })
    .await;
    let family = ReactionFilter::all().targets(NamePattern::like("webhooks-*"));
    let adjusted = tidelock.reactions().unblock(&family).await.unwrap();
    assert_eq!((adjusted.matched, adjusted.changed), (5, 5));
    seen.until(15).await;
    running.stop().await;
    assert!(seen.lines()[10..].iter().all(|stream| stream.starts_with("webhooks-")));
    assert_eq!(tidelock.reactions().list(&blocked).all().await.unwrap().len(), 5);
}

/// REACT-20. Every store pages alike, so memory is enough.
#[test]
fn more_reactions_than_a_page_has_records_are_all_seen() {
    in_memory(async |stage: TestStore| {
        let (tidelock, seen) = (stage.tidelock().await, Observed::default());
        note(&tidelock, "vip-1", "x").await;
        let app = (0..limits::PAGE_SIZE).fold(tidelock.app().worker(brisk("one")), |app, nth| {
            let elsewhere = on_any().in_streams("nowhere-");
            app.reaction(format!("idle-{nth:04}"), elsewhere, |_: StoredEvent, _| async { Ok(()) })
        });
        let noted = seen.clone();
        let app =
            app.reaction("zealous", on_any().in_streams("vip-"), move |event: StoredEvent, _| {
                noted.note(event.stream.as_str());
                async { Ok(()) }
            });
        let running = Running::start(app);
        seen.until(1).await;
        running.stop().await;
        let routes = tidelock.reactions().routes().await.unwrap();
        assert_eq!(routes.len(), limits::PAGE_SIZE + 1);
        let fed =
            tidelock.reactions().list(&ReactionFilter::all().sources("vip-")).all().await.unwrap();
        assert_eq!(names(&fed), ["zealous/vip-1"]);
    });
}
