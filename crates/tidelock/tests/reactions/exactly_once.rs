//! Exactly-once: a handler's writes land with its ack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tidelock::prelude::*;
use tidelock::reactions::ResetEffects;
use tidelock::store::{
    Bounds, Commit, ExpectedRevision, NewEvent, RawJson, RecordKey, RecordWrite, StoreExt,
    StoredEvent, StreamName, StreamQuery, limits,
};
use tidelock_test_stage::{
    Observed, Running, TestStore, append, brisk, note, on_every_store, text, until,
};

use crate::stage::{target, until_quiet};

on_every_store!(
    staged_writes_land_atomically_with_the_ack,
    appended_events_inherit_the_correlation_and_name_their_cause,
    a_reaction_and_a_caller_never_sell_the_last_unit_twice,
    the_last_unit_goes_to_the_first_commit,
    a_decision_is_taken_again_without_the_handler,
    a_conflict_of_the_handlers_own_runs_it_again,
    a_handler_sees_the_writes_of_the_previous_event,
    a_batch_gets_the_events_of_one_target_and_lands_once,
    a_projection_keeps_one_row_for_each_target,
    the_effect_key_is_the_same_on_every_try,
    a_rebuild_repeats_no_effects_unless_asked,
    an_impossible_commit_blocks_instead_of_looping,
);

fn key(name: &str) -> RecordKey {
    RecordKey::new(name).unwrap()
}

async fn value(tidelock: &Tidelock, name: &str) -> Option<serde_json::Value> {
    let slot = tidelock.store().get_one(&key(name)).await.unwrap();
    slot.into_live().map(|record| record.value.to().unwrap())
}

/// REACT-11.
async fn staged_writes_land_atomically_with_the_ack(stage: TestStore) {
    let (tidelock, tries) = (stage.tidelock().await, Arc::new(AtomicU32::new(0)));
    for nth in 0..5 {
        note(&tidelock, &format!("diary-{nth}"), "x").await;
    }
    let counted = tries.clone();
    let source = on_any()
        .in_streams("diary-")
        .retry(Retry::attempts(51).backoff(Backoff::fixed(Duration::from_millis(1))));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "count",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let counted = counted.clone();
            async move {
                ctx.add("count", 1, ..)?;
                let copied = NewEvent::of("copied", &json!({}))?;
                ctx.append_to("copy", ExpectedVersion::Any, [copied])?;
                match counted.fetch_add(1, Ordering::SeqCst) % 3 {
                    2 => Ok(()),
                    _ => Err(HandlerError::again("after it was staged")),
                }
            }
        },
    );
    let running = Running::start(app);
    until("all are counted", async || value(&tidelock, "count").await == Some(json!(5))).await;
    until_quiet(&tidelock, "count").await;
    running.stop().await;
    assert_eq!(value(&tidelock, "count").await, Some(json!(5)));
    let copies =
        tidelock.store().read_whole_stream(&StreamName::new("copy").unwrap()).await.unwrap();
    assert_eq!(copies.len(), 5);
    assert!(
        tries.load(Ordering::SeqCst) >= 15,
        "most tries failed after they had staged something"
    );
}

/// REACT-11.
async fn appended_events_inherit_the_correlation_and_name_their_cause(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let order = StreamName::new("order-1").unwrap();
    let metadata = Metadata::new().correlated("request-7").by("ada").to_json().unwrap();
    let placed = NewEvent::of("placed", &json!({})).unwrap().with_metadata(metadata);
    let cause = placed.id;
    tidelock
        .store()
        .append(&order, ExpectedVersion::Any, vec![placed])
        .await
        .unwrap()
        .committed()
        .unwrap();
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction(
        "ship",
        on_any().of_types(["placed"]),
        |_: StoredEvent, ctx: ReactionCtx| async move {
            let packed = NewEvent::of("packed", &json!({}))?;
            Ok(ctx.append_to("parcel-1", ExpectedVersion::NoStream, [packed])?)
        },
    );
    let running = Running::start(app);
    let parcel = StreamName::new("parcel-1").unwrap();
    let packed = async || !tidelock.store().read_whole_stream(&parcel).await.unwrap().is_empty();
    until("it is packed", packed).await;
    running.stop().await;
    let metadata = Metadata::of(&tidelock.store().read_whole_stream(&parcel).await.unwrap()[0]);
    assert_eq!(
        (metadata.correlation.as_deref(), metadata.causation),
        (Some("request-7"), Some(cause))
    );
    assert_eq!(metadata.actor, None, "the reaction did it, not ada");
    assert_eq!(metadata.reaction.as_deref(), Some("ship"));
}

#[derive(Debug, Clone, Default)]
struct Stock {
    left: i64,
}

#[derive(Debug, Event)]
enum StockEvent {
    Received { units: i64 },
    Taken { units: i64 },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Taken { units } => self.left -= units,
        }
    }
}

impl Stock {
    fn take(&self) -> Result<StockEvent, String> {
        if self.left > 0 { Ok(StockEvent::Taken { units: 1 }) } else { Err("sold out".into()) }
    }
}

/// Schedule 83. REACT-13.
async fn a_reaction_and_a_caller_never_sell_the_last_unit_twice(stage: TestStore) {
    let (tidelock, other, answers) =
        (stage.tidelock().await, stage.tidelock().await, Observed::default());
    let stock = other.aggregate::<Stock>("tea");
    stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 10 })).await.unwrap();
    let noted = answers.clone();
    let source = on_any().in_streams("order-");
    let app = tidelock.app().worker(brisk("one")).reaction(
        "take",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let noted = noted.clone();
            async move {
                match ctx.execute(&ctx.tidelock().aggregate("tea"), Stock::take).await {
                    Ok(()) => {
                        ctx.add("taken by reactions", 1, ..)?;
                    }
                    Err(ExecuteError::Refused(_)) => noted.note("refused"),
                    Err(error) => return Err(error.into()),
                }
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    let mut bought = 0;
    for nth in 0..10 {
        note(&other, &format!("order-{nth}"), "x").await;
        bought += i64::from(stock.execute(Stock::take).await.is_ok());
    }
    let routed = async || {
        let listed = tidelock.reactions().list(&ReactionFilter::named("take")).all().await.unwrap();
        listed.len() == 10 && listed.iter().all(|target| target.lag() == 0)
    };
    until("every order is handled", routed).await;
    running.stop().await;
    let taken = value(&tidelock, "taken by reactions").await.and_then(|v| v.as_i64()).unwrap_or(0);
    assert_eq!(stock.load().await.unwrap().left, 0);
    assert_eq!(taken + bought, 10, "{taken} by reactions, {bought} by the caller");
}

/// Schedule 83. REACT-13. There is one unit; the caller takes it after the reaction has decided,
/// and before that commits.
async fn the_last_unit_goes_to_the_first_commit(stage: TestStore) {
    let (tidelock, other, answers) =
        (stage.tidelock().await, stage.tidelock().await, Observed::default());
    let stock = other.aggregate::<Stock>("tea");
    stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: 1 })).await.unwrap();
    let state = (answers.clone(), stock.clone());
    let source = on_any()
        .in_streams("order-")
        .retry(Retry::attempts(4).backoff(Backoff::fixed(Duration::from_millis(1))));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "take",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let (noted, stock) = state.clone();
            async move {
                match ctx.execute(&ctx.tidelock().aggregate("tea"), Stock::take).await {
                    Ok(()) => noted.note("decided"),
                    Err(ExecuteError::Refused(_)) => noted.note("refused"),
                    Err(error) => return Err(error.into()),
                }
                if noted.count() == 1 {
                    stock.execute(Stock::take).await.expect("there is one");
                }
                Ok(())
            }
        },
    );
    note(&other, "order-1", "x").await;
    let running = Running::start(app);
    until("the order is handled", async || {
        target(&tidelock, "take", "order-1").await.is_some_and(|t| t.lag() == 0)
    })
    .await;
    running.stop().await;
    assert_eq!(answers.lines(), ["decided", "refused"]);
    let history = stock.history().await.unwrap();
    let mut left = 0;
    for event in &history {
        left += match &event.event {
            StockEvent::Received { units } => *units,
            StockEvent::Taken { units } => -units,
        };
        assert!(left >= 0, "below zero: {history:?}");
    }
    assert_eq!((left, history.len()), (0, 2));
}

/// REACT-13: the caller interferes every time but the last.
async fn a_decision_is_taken_again_without_the_handler(stage: TestStore) {
    let (tidelock, seen, decisions) =
        (stage.tidelock().await, Observed::default(), Arc::new(AtomicU32::new(0)));
    let counter = StreamName::new("counter").unwrap();
    note(&tidelock, "diary", "x").await;
    let (noted, counted, stream) = (seen.clone(), decisions.clone(), counter.clone());
    let source = on_any().in_streams("diary");
    let app = tidelock.app().worker(brisk("one")).reaction(
        "decide",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let (noted, counted, stream) = (noted.clone(), counted.clone(), stream.clone());
            async move {
                noted.note("handled");
                let store = ctx.store().clone();
                let decide = move || {
                    let (store, stream, nth) =
                        (store.clone(), stream.clone(), counted.fetch_add(1, Ordering::SeqCst));
                    async move {
                        let version =
                            store.read_stream(StreamQuery::forward(&stream)).await?.state.version();
                        if nth < 3 {
                            let quicker = vec![NewEvent::of("quicker", &json!({}))?];
                            let _ = store.append(&stream, ExpectedVersion::Any, quicker).await?;
                        }
                        let expected =
                            version.map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
                        let decided = NewEvent::of("decided", &json!({ "after": version }))?;
                        Ok(Commit::new().append(&stream, expected, [decided]))
                    }
                };
                ctx.propose(decide).await
            }
        },
    );
    let running = Running::start(app);
    seen.until(1).await;
    until_quiet(&tidelock, "decide").await;
    let routed = async || target(&tidelock, "decide", "diary").await.is_some_and(|t| t.lag() == 0);
    until("it is done", routed).await;
    running.stop().await;
    let events = tidelock.store().read_whole_stream(&counter).await.unwrap();
    let decided: Vec<_> = events.iter().filter(|e| e.event_type.as_str() == "decided").collect();
    assert_eq!((decided.len(), events.len()), (1, 4));
    assert_eq!(
        (seen.count(), decisions.load(Ordering::SeqCst)),
        (1, 4),
        "one handler, four decisions"
    );
}

async fn a_conflict_of_the_handlers_own_runs_it_again(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", "x").await;
    let noted = seen.clone();
    let source = on_any()
        .in_streams("diary")
        .retry(Retry::default().backoff(Backoff::fixed(Duration::from_millis(1))));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "write",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let noted = noted.clone();
            async move {
                let found = ctx.store().get_one(&key("shared")).await?;
                noted.note("handled");
                if noted.count() == 1 {
                    let quicker = RawJson::new("another writer's")?;
                    let _ = ctx.store().put(&key("shared"), ExpectedRevision::Any, quicker).await?;
                }
                let expected =
                    found.revision().map_or(ExpectedRevision::Absent, ExpectedRevision::Revision);
                ctx.write(RecordWrite::put(&key("shared"), expected, RawJson::new("ours")?))?;
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    until("it is written", async || value(&tidelock, "shared").await == Some(json!("ours"))).await;
    until_quiet(&tidelock, "write").await;
    running.stop().await;
    assert_eq!(seen.count(), 2);
}

/// REACT-11: a handler's writes are committed before the next event's handler runs.
async fn a_handler_sees_the_writes_of_the_previous_event(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for nth in 1..=6 {
        note(&tidelock, "diary", &nth.to_string()).await;
    }
    let source = on_any().in_streams("diary");
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction("chain", source, |event: StoredEvent, ctx: ReactionCtx| async move {
        let found = ctx.store().get_one(&key("chain")).await?.into_live();
        let so_far =
            found.map(|record| record.value.to::<String>()).transpose()?.unwrap_or_default();
        Ok(ctx.put(key("chain"), &(so_far + &text(&event)))?)
    });
    let running = Running::start(app);
    until("all are chained", async || value(&tidelock, "chain").await == Some(json!("123456")))
        .await;
    running.stop().await;
}

/// REACT-14.
async fn a_batch_gets_the_events_of_one_target_and_lands_once(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    for nth in 0..20 {
        note(&tidelock, &format!("diary-{}", nth % 2), &nth.to_string()).await;
    }
    let noted = seen.clone();
    let source = on_any().in_streams("diary-");
    let app = tidelock.app().worker(brisk("one"));
    let app =
        app.batch_reaction("bulk", source, 4, move |events: Vec<StoredEvent>, ctx: ReactionCtx| {
            let noted = noted.clone();
            async move {
                assert!(
                    events
                        .windows(2)
                        .all(|w| w[0].stream == w[1].stream && w[0].version < w[1].version)
                );
                noted.note(events.len().to_string());
                Ok(ctx.add("bulk", i64::try_from(events.len())?, ..)?)
            }
        });
    let running = Running::start(app);
    until("all are counted", async || value(&tidelock, "bulk").await == Some(json!(20))).await;
    running.stop().await;
    assert!(stage.is_stingy() || seen.lines().contains(&"4".to_owned()), "{:?}", seen.lines());
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    sold: i64,
    sales: u32,
}

/// REACT-14.
async fn a_projection_keeps_one_row_for_each_target(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let sell = async |product: &str, units: i64| {
        append(&tidelock, &format!("shop-{product}"), "sold", &json!({ "units": units })).await;
    };
    let fold = |row: &mut Row, event: StoredEvent| {
        row.sales += 1;
        row.sold += event.payload.to::<serde_json::Value>().unwrap()["units"].as_i64().unwrap();
    };
    let app =
        tidelock.app().worker(brisk("one")).projection("totals", on_any().of_types(["sold"]), fold);
    let running = Running::start(app);
    for nth in 1..=5 {
        sell("tea", nth).await;
        sell("milk", 1).await;
    }
    let row = async |product: &str| {
        tidelock.reactions().row::<Row>("totals", &format!("shop-{product}")).await.unwrap()
    };
    until("tea is counted", async || row("tea").await == Some(Row { sold: 15, sales: 5 })).await;
    until("milk is counted", async || row("milk").await == Some(Row { sold: 5, sales: 5 })).await;

    let reset = tidelock
        .reactions()
        .reset(&ReactionFilter::named("totals"), ResetEffects::Keep)
        .await
        .unwrap();
    assert_eq!(reset.matched, 2);
    sell("tea", 10).await;
    until("tea is rebuilt", async || row("tea").await == Some(Row { sold: 25, sales: 6 })).await;
    until_quiet(&tidelock, "totals").await;
    running.stop().await;
    let rows = tidelock.reactions().rows::<Row>("totals").all().await.unwrap();
    assert_eq!(rows[0], ("shop-milk".to_owned(), Row { sold: 5, sales: 5 }));
    assert_eq!(rows.len(), 2);
}

/// REACT-15.
async fn the_effect_key_is_the_same_on_every_try(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    let event = note(&tidelock, "diary", "x").await;
    let noted = seen.clone();
    let source = on_any().retry(Retry::default().backoff(Backoff::fixed(Duration::from_millis(1))));
    let app = tidelock.app().worker(brisk("one")).reaction(
        "mail",
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let noted = noted.clone();
            async move {
                ctx.external(async |key| {
                    noted.note(key);
                    Ok(())
                })
                .await?;
                if noted.count() < 3 {
                    Err(HandlerError::again("after the mail was sent"))
                } else {
                    Ok(())
                }
            }
        },
    );
    let running = Running::start(app);
    seen.until(3).await;
    running.stop().await;
    assert_eq!(seen.lines(), vec![format!("mail:{}", event.id); 3]);
}

/// REACT-16.
async fn a_rebuild_repeats_no_effects_unless_asked(stage: TestStore) {
    let (tidelock, handled, sent) =
        (stage.tidelock().await, Observed::default(), Observed::default());
    for nth in 1..=3 {
        note(&tidelock, "diary", &nth.to_string()).await;
    }
    let (noted, mailed) = (handled.clone(), sent.clone());
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction(
        "mail",
        on_any().in_streams("diary"),
        move |event: StoredEvent, ctx: ReactionCtx| {
            let (noted, mailed) = (noted.clone(), mailed.clone());
            async move {
                noted.note(format!(
                    "{}{}",
                    text(&event),
                    if ctx.is_rebuild() { " again" } else { "" }
                ));
                ctx.external(async |_| {
                    mailed.note(text(&event));
                    Ok(())
                })
                .await?;
                // Staged, so that each event has its own lease and the rebuild spans several.
                ctx.add("handled", 1, ..)?;
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    handled.until(3).await;
    until_quiet(&tidelock, "mail").await;
    tidelock.reactions().reset(&ReactionFilter::named("mail"), ResetEffects::Keep).await.unwrap();
    note(&tidelock, "diary", "4").await;
    handled.until(7).await;
    until_quiet(&tidelock, "mail").await;
    assert_eq!(handled.lines()[3..], ["1 again", "2 again", "3 again", "4"]);
    assert_eq!(sent.lines(), ["1", "2", "3", "4"], "once each");
    assert_eq!(value(&tidelock, "~rebuild/mail/diary").await, None, "the rebuild is over");

    tidelock.reactions().reset(&ReactionFilter::named("mail"), ResetEffects::Repeat).await.unwrap();
    sent.until(8).await;
    running.stop().await;
}

async fn an_impossible_commit_blocks_instead_of_looping(stage: TestStore) {
    let (tidelock, seen) = (stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", "x").await;
    let noted = seen.clone();
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction(
        "greedy",
        on_any().in_streams("diary"),
        move |_: StoredEvent, ctx: ReactionCtx| {
            let noted = noted.clone();
            async move {
                noted.note("handled");
                for nth in 0..=limits::PARTS_PER_COMMIT {
                    ctx.write(RecordWrite::add(&key(&format!("n-{nth}")), 1, Bounds::NONE))?;
                }
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    let blocked = crate::stage::until_blocked(&tidelock, "greedy", "diary").await;
    running.stop().await;
    assert!(blocked.error.unwrap().contains("parts; the limit is 1000"));
    assert_eq!((seen.count(), value(&tidelock, "n-0").await), (1, None));
}
