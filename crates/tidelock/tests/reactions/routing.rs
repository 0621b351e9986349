//! Routing: computed targets, failing routes, and changes of the router.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::reactions::{Rerouted, StartFrom};
use tidelock::store::{
    Commit, ExpectedRevision, NewEvent, RawJson, RecordKey, RecordWrite, StoreExt, StoredEvent,
    StreamName,
};
use tidelock_test_stage::{
    DyingStore, Observed, Running, TestStore, append, brisk, in_memory, note, on_every_store, text,
    until,
};

use crate::stage::until_quiet;

on_every_store!(
    a_target_fed_by_several_streams_gets_all_of_their_events_in_the_order_of_the_feed,
    a_route_that_fails_holds_back_one_event_and_nothing_else,
    a_route_that_panics_is_a_route_that_fails,
    an_event_without_a_target_is_not_delivered,
    a_new_router_continues_where_the_old_one_was,
    many_targets_and_reactions_in_one_page_are_all_routed,
    an_event_that_more_reactions_want_than_a_commit_has_room_for_is_routed_to_all,
    an_imported_log_is_followed_from_the_beginning_or_from_now_by_choice,
    a_reaction_can_be_rerouted,
);

fn field(event: &StoredEvent, name: &str) -> Option<String> {
    Some(event.payload.to::<serde_json::Value>().ok()?.get(name)?.as_str()?.to_owned())
}

async fn of_order(tidelock: &Tidelock, stream: &str, order: &str, text: &str) {
    append(tidelock, stream, "happened", &json!({ "order": order, "text": text })).await;
}

/// Schedule 85. REACT-17.
async fn a_target_fed_by_several_streams_gets_all_of_their_events_in_the_order_of_the_feed(
    stage: TestStore,
) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 0..6 {
        let stream = ["payment-1", "parcel-9"][nth % 2];
        of_order(&tidelock, stream, "order-7", &nth.to_string()).await;
        of_order(&tidelock, stream, "order-8", "other").await;
    }
    let noted = seen.clone();
    let source = on_any().to(|event: &StoredEvent| field(event, "order"));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "track",
        source,
        move |event: StoredEvent, ctx: ReactionCtx| {
            let noted = noted.clone();
            async move {
                noted.note(format!("{} {}", ctx.target(), text(&event)));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(12).await;
    for nth in 6..9 {
        of_order(&tidelock, "invoice-3", "order-7", &nth.to_string()).await;
    }
    seen.until(15).await;
    until_quiet(&tidelock, "track").await;
    running.stop().await;
    let mine: Vec<String> =
        seen.lines().into_iter().filter(|line| line.starts_with("order-7")).collect();
    assert_eq!(mine, (0..9).map(|nth| format!("order-7 {nth}")).collect::<Vec<_>>());
    assert_eq!(seen.count(), 15, "and nothing twice");
    let listed = tidelock.reactions().list(&ReactionFilter::named("track")).all().await.unwrap();
    assert_eq!(
        listed.iter().map(|t| t.target.as_str()).collect::<Vec<_>>(),
        ["order-7", "order-8"]
    );
}

/// Schedule 86. REACT-18.
async fn a_route_that_fails_holds_back_one_event_and_nothing_else(stage: TestStore) {
    let (tidelock, seen, other) =
        (stage.tidelock().await, Observed::default(), Observed::default());
    let broken = Arc::new(AtomicBool::new(true));
    for (order, text) in [("order-1", "a"), ("cursed", "b"), ("order-1", "c"), ("order-2", "d")] {
        of_order(&tidelock, "feed", order, text).await;
    }
    let (noted, also, is_broken) = (seen.clone(), other.clone(), broken.clone());
    let route = move |event: &StoredEvent| match field(event, "order").as_deref() {
        Some("cursed") if is_broken.load(Ordering::SeqCst) => {
            Err(HandlerError::again("the destination is unknown"))
        }
        order => Ok(order.map(str::to_owned)),
    };
    let source = on_any()
        .retry(Retry::attempts(2).backoff(Backoff::fixed(Duration::from_millis(1))))
        .to(route);
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction("track", source, move |event: StoredEvent, _| {
        let noted = noted.clone();
        async move {
            noted.note(text(&event));
            Ok(())
        }
    });
    let app = app.reaction("other", on_any(), move |event: StoredEvent, _| {
        let also = also.clone();
        async move {
            also.note(text(&event));
            Ok(())
        }
    });
    let running = Running::start(app);
    seen.until(3).await;
    other.until(4).await;
    let filter = ReactionFilter::named("track").blocked(true);
    let shown = async || tidelock.reactions().list(&filter).all().await.unwrap().len() == 1;
    until("the route is shown as blocked", shown).await;
    let blocked = tidelock.reactions().list(&filter).all().await.unwrap().pop().unwrap();
    assert!(blocked.unrouted && blocked.lag() == 1);
    assert_eq!(blocked.error.as_deref(), Some("the destination is unknown"));

    broken.store(false, Ordering::SeqCst);
    tidelock.reactions().unblock(&ReactionFilter::named("track")).await.unwrap();
    seen.until(4).await;
    until_quiet(&tidelock, "track").await;
    running.stop().await;
    let mut lines = seen.lines();
    lines.sort();
    assert_eq!(lines, ["a", "b", "c", "d"], "once each");
}

async fn a_route_that_panics_is_a_route_that_fails(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "feed", "bad").await;
    note(&tidelock, "feed", "good").await;
    let noted = seen.clone();
    let source = on_any().retry(Retry::never()).to(|event: &StoredEvent| {
        assert_ne!(text(event), "bad", "a snake");
        text(event)
    });
    let app = tidelock.app().worker(brisk("one")).reaction(
        "jumpy",
        source,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(text(&event));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(1).await;
    let filter = ReactionFilter::named("jumpy").blocked(true);
    until("it is shown", async || {
        tidelock.reactions().list(&filter).all().await.unwrap().len() == 1
    })
    .await;
    running.stop().await;
    let error =
        tidelock.reactions().list(&filter).all().await.unwrap().pop().unwrap().error.unwrap();
    assert!(error.contains("routing function panicked") && error.contains("a snake"), "{error}");
}

async fn an_event_without_a_target_is_not_delivered(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for name in ["", "ada", "", "bob"] {
        note(&tidelock, "feed", name).await;
    }
    let noted = seen.clone();
    let source =
        on_any().to(|event: &StoredEvent| Some(text(event)).filter(|name| !name.is_empty()));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "people",
        source,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(text(&event));
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    seen.until(2).await;
    until_quiet(&tidelock, "people").await;
    running.stop().await;
    assert_eq!(
        tidelock.reactions().list(&ReactionFilter::named("people")).all().await.unwrap().len(),
        2
    );
}

/// REACT-19. The router changes repeatedly, and nothing is linked twice or skipped.
async fn a_new_router_continues_where_the_old_one_was(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let app = |name: &str| {
        let seen = seen.clone();
        let source =
            on_any().to(|event: &StoredEvent| text(event).chars().take(1).collect::<String>());
        tidelock.app().worker(brisk(name)).reaction(
            "spread",
            source,
            move |event: StoredEvent, _| {
                let seen = seen.clone();
                async move {
                    seen.note(text(&event));
                    Ok(())
                }
            },
        )
    };
    let mut running = Running::start(app("first"));
    for nth in 0..60 {
        note(&tidelock, "feed", &format!("{}-{nth:02}", ["a", "b", "c"][nth % 3])).await;
        if nth % 12 == 5 {
            let next = Running::start(app(&format!("after {nth}")));
            running.stop().await;
            running = next;
        }
    }
    seen.until(60).await;
    until_quiet(&tidelock, "spread").await;
    running.stop().await;
    let mut lines = seen.lines();
    for prefix in ["a", "b", "c"] {
        let mine: Vec<&String> = lines.iter().filter(|line| line.starts_with(prefix)).collect();
        assert!(mine.windows(2).all(|w| w[0] < w[1]), "in order: {mine:?}");
    }
    lines.sort();
    lines.dedup();
    assert_eq!((lines.len(), seen.count()), (60, 60), "each once");
}

/// REACT-19. The router dies at any call, whether that call takes effect or not.
#[test]
fn routing_continues_after_a_crash_at_any_call() {
    for last_words in [false, true] {
        for calls in 0..40 {
            in_memory(async |stage| routed_after_a_death(&stage, calls, last_words).await);
        }
    }
}

async fn routed_after_a_death(stage: &TestStore, calls: i64, last_words: bool) {
    const EVENTS: usize = 30;
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let app = |tidelock: &Tidelock, name: &str| {
        let seen = seen.clone();
        let source = on_any()
            .in_streams("feed")
            .max_events_per_lease(4)
            .to(|event: &StoredEvent| text(event)[..1].to_owned());
        tidelock.app().worker(brisk(name)).reaction(
            "spread",
            source,
            move |event: StoredEvent, _| {
                let seen = seen.clone();
                async move {
                    seen.note(text(&event));
                    Ok(())
                }
            },
        )
    };
    for nth in 0..EVENTS / 2 {
        note(&tidelock, "feed", &format!("{}-{nth:02}", ["a", "b", "c"][nth % 3])).await;
    }
    let store = DyingStore::over(tidelock.store().clone(), calls, last_words);
    let mortal = tokio::spawn(app(&Tidelock::over(store.clone()), "mortal").build().unwrap().run());
    until("it is dead", async || store.is_dead()).await;
    mortal.abort();
    let heir = Running::start(app(&tidelock, "heir"));
    for nth in EVENTS / 2..EVENTS {
        note(&tidelock, "feed", &format!("{}-{nth:02}", ["a", "b", "c"][nth % 3])).await;
    }
    let all_seen = async || seen.lines().iter().collect::<BTreeSet<_>>().len() == EVENTS;
    until("all are handled", all_seen).await;
    until_quiet(&tidelock, "spread").await;
    heir.stop().await;
    let linked = async |target: &str| {
        let links = tidelock::reactions::ReactionName::new("spread").unwrap();
        let stream = StreamName::new(format!("~links/{links}/{target}")).unwrap();
        tidelock.store().read_whole_stream(&stream).await.unwrap()
    };
    for target in ["a", "b", "c"] {
        let links: Vec<String> =
            linked(target).await.iter().map(|link| link.payload.to_string()).collect();
        let distinct: BTreeSet<&String> = links.iter().collect();
        assert_eq!(
            (links.len(), distinct.len()),
            (EVENTS / 3, EVENTS / 3),
            "{calls}, {last_words}: {links:?}"
        );
    }
}

async fn many_targets_and_reactions_in_one_page_are_all_routed(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let stream = StreamName::new("feed").unwrap();
    let events =
        (0..700).map(|nth| NewEvent::of("noted", &json!({ "text": format!("t{nth}") })).unwrap());
    let store = tidelock.store();
    store
        .append(&stream, ExpectedVersion::Any, events.collect())
        .await
        .unwrap()
        .committed()
        .unwrap();
    let mut app = tidelock.app().worker(brisk("one"));
    for nth in 0..3 {
        let noted = seen.clone();
        let source = on_any().in_streams("feed").to(|event: &StoredEvent| text(event));
        app = app.reaction(
            format!("copy-{nth}"),
            source,
            move |event: StoredEvent, ctx: ReactionCtx| {
                let noted = noted.clone();
                async move {
                    assert_eq!(ctx.target().as_str(), text(&event));
                    noted.note(format!("{} {}", ctx.reaction(), text(&event)));
                    Ok(())
                }
            },
        );
    }
    let running = Running::start(app);
    seen.until(2_100).await;
    running.stop().await;
    let mut lines = seen.lines();
    lines.sort();
    lines.dedup();
    assert_eq!((lines.len(), seen.count()), (2_100, 2_100));
}

/// Schedule 97. An imported log has events and no routes: a reaction starts where its options say.
async fn an_imported_log_is_followed_from_the_beginning_or_from_now_by_choice(stage: TestStore) {
    let (tidelock, all, fresh) = (stage.tidelock().await, Observed::default(), Observed::default());
    for nth in 0..20 {
        note(&tidelock, &format!("diary-{}", nth % 4), &format!("imported {nth}")).await;
    }
    let (old, new) = (all.clone(), fresh.clone());
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction("rebuild", on_any(), move |event: StoredEvent, _| {
        let old = old.clone();
        async move {
            old.note(text(&event));
            Ok(())
        }
    });
    let app = app.reaction("go-on", on_any().from_now(), move |event: StoredEvent, _| {
        let new = new.clone();
        async move {
            new.note(text(&event));
            Ok(())
        }
    });
    let running = Running::start(app);
    all.until(20).await;
    until("both are registered", async || tidelock.reactions().routes().await.unwrap().len() == 2)
        .await;
    note(&tidelock, "diary-1", "new").await;
    fresh.until(1).await;
    all.until(21).await;
    running.stop().await;
    assert_eq!(fresh.lines(), ["new"]);
}

/// REACT-1.
async fn an_event_that_more_reactions_want_than_a_commit_has_room_for_is_routed_to_all(
    stage: TestStore,
) {
    const REACTIONS: usize = 300;
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "news", "hear, hear").await;
    let app = (0..REACTIONS).fold(tidelock.app().worker(brisk("one")), |app, nth| {
        let (noted, source) =
            (seen.clone(), on_any().in_streams("news").to(|_: &StoredEvent| "subscribers"));
        app.reaction(format!("ear-{nth}"), source, move |_: StoredEvent, _| {
            noted.note(nth.to_string());
            async { Ok(()) }
        })
    });
    let running = Running::start(app);
    seen.until(REACTIONS).await;
    running.stop().await;
    assert_eq!(seen.lines().into_iter().collect::<BTreeSet<_>>().len(), REACTIONS);
}

/// Schedule 97. REACT-23. A route that is ahead of the log stops visibly, and continues by an
/// operator's choice, which counts once.
async fn a_reaction_can_be_rerouted(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "feed", "before").await;
    let app = || {
        let noted = seen.clone();
        let source = on_any().in_streams("feed").to(|_: &StoredEvent| "all");
        tidelock.app().worker(brisk("one")).reaction(
            "follow",
            source,
            move |event: StoredEvent, _| {
                let noted = noted.clone();
                async move {
                    noted.note(text(&event));
                    Ok(())
                }
            },
        )
    };
    let running = Running::start(app());
    seen.until(1).await;
    running.stop().await;
    // As after a restore that kept the records and lost the end of the log.
    let record = RecordKey::new("~route/follow").unwrap();
    let ahead = RawJson::new(
        &json!({ "position": 1_000_000_000_u64, "start": 0, "computed": true, "streams": "feed" }),
    );
    let ahead = RecordWrite::put(&record, ExpectedRevision::Any, ahead.unwrap());
    tidelock.store().commit(Commit::new().write(ahead)).await.unwrap().committed().unwrap();
    note(&tidelock, "feed", "after").await;

    let running = Running::start(app());
    let stuck = async || tidelock.reactions().routes().await.unwrap()[0].blocked;
    until("the route is shown as stopped", stuck).await;
    let error = tidelock.reactions().routes().await.unwrap()[0].error.clone().unwrap();
    assert!(error.contains("never given out") && error.contains("reroute"), "{error}");
    let reroute = async || {
        tidelock.reactions().reroute_once("follow", StartFrom::Beginning, "a").await.unwrap()
    };
    assert_eq!(reroute().await, Rerouted::Done);
    seen.until(3).await;
    assert_eq!(reroute().await, Rerouted::Done, "it is");
    note(&tidelock, "feed", "later").await;
    seen.until(4).await;
    until_quiet(&tidelock, "follow").await;
    running.stop().await;
    assert_eq!(seen.lines(), ["before", "before", "after", "later"]);
}
