//! Reactions that start and signal runs.

use futures_util::FutureExt;
use serde_json::json;
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::reactions::ResetEffects;
use tidelock::runs::{RunCtx, RunError, RunFilter};
use tidelock::store::{RecordKey, StoreExt, StoredEvent, limits};
use tidelock_test_stage::{Running, TestStore, append, on_every_store, until};

use crate::flow::{Flow, app, count, result};

on_every_store!(
    a_reaction_starts_and_signals_runs_in_the_commit_of_its_ack,
    a_start_whose_ack_does_not_land_does_not_happen,
    a_handler_starts_a_run_and_signals_it_in_one_commit,
    a_signal_to_a_run_that_has_ended_is_the_handlers_to_decide_about,
);

fn shop() -> Flow<String, String> {
    let checkout = |ctx: RunCtx, order: String| {
        async move {
            let paid: u32 = ctx.wait_for_signal("paid").await?;
            Ok(format!("{order} for {paid}"))
        }
        .boxed()
    };
    Flow::new("checkout", checkout)
}

async fn handle(event: StoredEvent, ctx: ReactionCtx) -> Result<(), HandlerError> {
    let order = event.stream.as_str().to_owned();
    match event.event_type.as_str() {
        "placed" => _ = ctx.start("checkout", &order, &order).attribute("shop", "7").await?,
        _ => ctx.signal(&order, "paid", &7).await?,
    }
    Ok(())
}

/// RUN-45.
async fn a_reaction_starts_and_signals_runs_in_the_commit_of_its_ack(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let running = Running::start(app(&tidelock, "one", shop()).reaction(
        "orders",
        on_any().in_streams("order-"),
        handle,
    ));
    let placed = append(&tidelock, "order-1", "placed", &json!({})).await;
    append(&tidelock, "order-1", "paid", &json!({})).await;
    let run = tidelock.runs().run("order-1");
    until("it is started", async || run.get().await.is_ok()).await;
    assert_eq!(result::<String>(&run).await.unwrap(), "order-1 for 7");
    let events = crate::flow::history(&tidelock, "order-1").await;
    assert_eq!(Metadata::of(&events[0]).causation, Some(placed.id), "the run knows what led to it");

    // Handled again after a reset, the start finds the existing run, and the signal is received
    // once.
    let filter = ReactionFilter::named("orders");
    tidelock.reactions().reset(&filter, ResetEffects::Keep).await.unwrap();
    let quiet = async || {
        tidelock.reactions().list(&filter).all().await.unwrap().iter().all(|t| t.lag() == 0)
    };
    until("all is handled again", quiet).await;
    assert_eq!(count(&tidelock, "order-1", "~started").await, 1);
    assert_eq!(count(&tidelock, "order-1", "~signalled").await, 1);
    let listed =
        tidelock.runs().list(&RunFilter::all().attribute("shop", "7")).all().await.unwrap();
    assert_eq!(listed.len(), 1);
    running.stop().await;
}

/// RUN-45.
async fn a_start_whose_ack_does_not_land_does_not_happen(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let app = app(&tidelock, "one", shop()).reaction(
        "orders",
        on_any().in_streams("order-"),
        async |event: StoredEvent, ctx: ReactionCtx| {
            ctx.start("checkout", event.stream.as_str(), &1).await?;
            // More than a commit can hold.
            for nth in 0..=limits::PARTS_PER_COMMIT {
                ctx.put(&RecordKey::new(format!("r-{nth}"))?, &1)?;
            }
            Ok(())
        },
    );
    let running = Running::start(app);
    append(&tidelock, "order-1", "placed", &json!({})).await;
    let blocked = async || {
        let listed =
            tidelock.reactions().list(&ReactionFilter::named("orders")).all().await.unwrap();
        listed.iter().any(|target| target.blocked)
    };
    until("the handler has failed", blocked).await;
    let none = tidelock.runs().run("order-1").get().await.unwrap_err();
    assert!(matches!(none, RunError::NoRun { .. }), "{none}");
    running.stop().await;
}

/// RUN-45.
async fn a_handler_starts_a_run_and_signals_it_in_one_commit(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let counts = |ctx: RunCtx, (): ()| {
        async move {
            let first: u32 = ctx.wait_for_signal("n").named("first").await?;
            let second: u32 = ctx.wait_for_signal("n").named("second").await?;
            Ok((first, second))
        }
        .boxed()
    };
    let both = async |event: StoredEvent, ctx: ReactionCtx| {
        let run = event.stream.as_str();
        ctx.start("counts", run, &()).await?;
        ctx.signal(run, "n", &1).id("one").await?;
        ctx.signal(run, "n", &2).id("two").await?;
        Ok(())
    };
    let app = app(&tidelock, "one", Flow::new("counts", counts));
    let running = Running::start(app.reaction("both", on_any().in_streams("order-"), both));
    append(&tidelock, "order-1", "placed", &json!({})).await;
    let run = tidelock.runs().run("order-1");
    until("it is started", async || run.get().await.is_ok()).await;
    assert_eq!(result::<(u32, u32)>(&run).await.unwrap(), (1, 2));
    running.stop().await;
}

/// RUN-45.
async fn a_signal_to_a_run_that_has_ended_is_the_handlers_to_decide_about(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let late = async |event: StoredEvent, ctx: ReactionCtx| match ctx
        .signal(event.stream.as_str(), "paid", &7)
        .await
    {
        Err(RunError::Ended { .. }) => Ok(ctx.put(&RecordKey::new("late")?, &1)?),
        other => Ok(other?),
    };
    let run = crate::client::idle(&tidelock, "order-1").await;
    run.terminate("enough").await.unwrap();
    let running = Running::start(app(&tidelock, "one", shop()).reaction(
        "late",
        on_any().in_streams("order-"),
        late,
    ));
    append(&tidelock, "order-1", "paid", &json!({})).await;
    let key = RecordKey::new("late").unwrap();
    until("the handler knows", async || {
        tidelock.store().get_one(&key).await.unwrap().live().is_some()
    })
    .await;
    running.stop().await;
}
