//! Concurrent operations, and caught errors: a run still does everything once, and sleeps.

use std::future::IntoFuture;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tidelock::prelude::*;
use tidelock::runs::{RaceWinner, StepError};
use tidelock::store::{StoreExt, StreamName};
use tidelock_test_stage::{Observed, Running, Tally, TestStore, brisk, on_every_store, until};
use tokio::sync::Semaphore;

use crate::flow::Register;
use crate::helpers::{count, history, millis, process, result, see, start, with};

on_every_store!(
    steps_in_parallel_share_commits_and_each_is_done_once,
    a_result_is_in_the_store_before_the_function_sees_it,
    a_step_and_a_sleep_awaited_together_are_one_step,
    a_sleep_cannot_be_swallowed,
    the_winner_of_a_race_is_recorded_and_a_replay_agrees,
    a_replay_hands_results_over_in_the_order_in_which_they_were_known,
    a_replay_does_not_depend_on_the_polling_order,
    a_signal_and_a_timer_that_are_both_there_are_decided_once,
);

/// RUN-2. A hundred concurrent steps need far fewer commits; a sleep after them repeats none.
async fn steps_in_parallel_share_commits_and_each_is_done_once(stage: TestStore) {
    let (seen, tally) = (Observed::default(), Tally::default());
    let many = with("many", &(seen.clone(), tally.clone()), |ctx, (): (), (seen, tally)| {
        Box::pin(async move {
            let (ctx, seen, before) = (&ctx, &seen, tally.commits());
            let steps = (0..100).map(|nth| async move {
                ctx.step(format!("step-{nth}"), |key| see(seen, key)).await
            });
            let done = futures_util::future::try_join_all(steps).await?;
            let commits = ctx.value("commits", || tally.commits() - before).await?;
            ctx.sleep("rest", millis(1_500)).await?;
            Ok((done.len(), commits))
        })
    });
    let run = start(&stage, "many", "m", &()).await;
    let tidelock = Tidelock::over(tally.over(stage.store().await));
    let running = Running::start(tidelock.app().worker(brisk("one")).register(many));
    let (done, commits) = result::<(usize, u64)>(&run).await;
    assert_eq!(done, 100);
    assert!((1..=10).contains(&commits), "{commits} commits for a hundred steps");
    assert_eq!((seen.count(), count(&stage, "m", "step").await), (100, 100));
    running.stop().await;
}

/// RUN-2. A result is in the store before the function gets it: verified from another process.
async fn a_result_is_in_the_store_before_the_function_sees_it(stage: TestStore) {
    let eager = with("eager", &stage.store().await, |ctx, (): (), store| {
        Box::pin(async move {
            let stream = StreamName::new("~run/e").unwrap();
            let mut seen = Vec::new();
            for nth in 1..=5 {
                ctx.step(format!("step-{nth}"), |_| async { Ok::<_, HandlerError>(()) }).await?;
                let events = store.read_whole_stream(&stream).await.unwrap();
                let recorded =
                    events.iter().filter(|event| event.event_type.as_str() == "~step").count();
                seen.push(ctx.value(format!("recorded-{nth}"), || recorded).await?);
            }
            Ok(seen)
        })
    });
    let run = start(&stage, "eager", "e", &()).await;
    let running = Running::start(process(&stage, "one").await.register(eager));
    assert_eq!(
        result::<Vec<usize>>(&run).await,
        [1, 2, 3, 4, 5],
        "how many were there as each was handed over"
    );
    running.stop().await;
}

/// Schedule 92.
async fn a_step_and_a_sleep_awaited_together_are_one_step(stage: TestStore) {
    let seen = Observed::default();
    let both = with("both", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let step = async { ctx.step("step", |key| see(&seen, key)).await };
            let (step, slept) = tokio::join!(step, ctx.sleep("sleep", millis(1_500)));
            slept?;
            step
        })
    });
    let run = start(&stage, "both", "b", &()).await;
    let running = Running::start(process(&stage, "one").await.register(both));
    assert_eq!(result::<String>(&run).await, "step");
    assert_eq!(seen.lines(), ["b:step"]);
    running.stop().await;
}

/// Schedule 90. RUN-9. Whatever the function does with errors, a sleep is not one.
async fn a_sleep_cannot_be_swallowed(stage: TestStore) {
    let seen = Observed::default();
    let stubborn = with("stubborn", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let before = ctx.now("before").await?;
            let _ignored = ctx.sleep("sleep", millis(1_500)).await;
            let _ignored: Result<Option<()>, StepError> =
                ctx.wait_for_signal("go").within(millis(5)).await;
            ctx.step("after", |key| see(&seen, key)).await?;
            let after = ctx.now("after-all").await?;
            Ok(after.since(before) >= millis(1_500))
        })
    });
    let run = start(&stage, "stubborn", "s", &()).await;
    let running = Running::start(process(&stage, "one").await.register(stubborn));
    until("it sleeps", async || history(&stage, "s").await.contains(&"timer".into())).await;
    assert_eq!(seen.count(), 0);
    assert!(result::<bool>(&run).await);
    assert_eq!(seen.lines(), ["s:after"]);
    running.stop().await;
}

/// RUN-10. The loser is dropped where it is, and does not hold up a replay.
async fn the_winner_of_a_race_is_recorded_and_a_replay_agrees(stage: TestStore) {
    let seen = Observed::default();
    let race = with("race", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let slow = async {
                ctx.step("warm-up", |key| see(&seen, key)).await?;
                ctx.sleep("long", millis(3_600_000)).await
            };
            let quick = async {
                ctx.step("quick", |key| see(&seen, key)).await?;
                ctx.sleep("short", millis(1_200)).await
            };
            let winner = match ctx.race("race", slow, quick).await? {
                RaceWinner::First(_) => "slow",
                RaceWinner::Second(_) => "quick",
            };
            ctx.sleep("rest", millis(1_200)).await?;
            ctx.step("after", |key| see(&seen, key)).await?;
            Ok(winner.to_owned())
        })
    });
    let run = start(&stage, "race", "r", &()).await;
    let running = Running::start(process(&stage, "one").await.register(race));
    assert_eq!(result::<String>(&run).await, "quick");
    assert_eq!(count(&stage, "r", "won").await, 1);
    assert_eq!(count(&stage, "r", "dropped").await, 1, "the long sleep");
    assert_eq!(seen.count(), 3);
    running.stop().await;
}

/// RUN-5. `try_join!` drops the second step because of the first; the replay finds both recorded
/// and does the same.
async fn a_replay_hands_results_over_in_the_order_in_which_they_were_known(stage: TestStore) {
    let seen = Observed::default();
    let pair = with("pair", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let fails = async {
                ctx.step("fails", |_| async { Err::<(), _>(HandlerError::fatal("no")) }).await
            };
            let works = async { ctx.step("works", |key| see(&seen, key)).await };
            let joined = tokio::try_join!(fails, works);
            ctx.sleep("rest", millis(1_200)).await?;
            ctx.step("after", |key| see(&seen, key)).await?;
            Ok(joined.unwrap_err().to_string())
        })
    });
    let run = start(&stage, "pair", "p", &()).await;
    let running = Running::start(process(&stage, "one").await.register(pair));
    assert_eq!(result::<String>(&run).await, r#"step "fails" failed after 1 attempts: no"#);
    assert_eq!(seen.lines().iter().filter(|line| *line == "p:after").count(), 1);
    running.stop().await;
}

/// RUN-5. The step that is started first ends last, and the next one depends on that; on replay,
/// with both recorded, it still does.
async fn a_replay_does_not_depend_on_the_polling_order(stage: TestStore) {
    let state = (Observed::default(), Arc::new(Semaphore::new(0)));
    let unordered = with("unordered", &state, |ctx, (): (), (seen, go)| {
        Box::pin(async move {
            let (ctx, go) = (&ctx, &go);
            let slow = ctx.step("slow", |key| async move {
                go.acquire().await.map_err(HandlerError::fatal)?.forget();
                Ok::<_, HandlerError>(key.step().to_string())
            });
            let quick = ctx
                .step("quick", |key| async move { Ok::<_, HandlerError>(key.step().to_string()) });
            let mut both = FuturesUnordered::from_iter([slow.into_future(), quick.into_future()]);
            let mut order = Vec::new();
            while let Some(done) = both.next().await {
                let done = done?;
                ctx.step(format!("after-{done}"), |key| see(&seen, key)).await?;
                go.add_permits(1);
                order.push(done);
            }
            ctx.sleep("rest", millis(1_200)).await?;
            Ok(order)
        })
    });
    let run = start(&stage, "unordered", "u", &()).await;
    let running = Running::start(process(&stage, "one").await.register(unordered));
    assert_eq!(result::<Vec<String>>(&run).await, ["quick", "slow"]);
    assert_eq!(state.0.lines(), ["u:after-quick", "u:after-slow"]);
    running.stop().await;
}

/// Schedule 44. The timer and the signal are both recorded when the run is next driven; the choice
/// is permanent.
async fn a_signal_and_a_timer_that_are_both_there_are_decided_once(stage: TestStore) {
    let seen = Observed::default();
    let both = with("both", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let came: Option<u32> = ctx.wait_for_signal("go").within(millis(1_200)).await?;
            ctx.step("note", |_| {
                seen.note(format!("{came:?}"));
                async { Ok::<_, HandlerError>(()) }
            })
            .await?;
            ctx.sleep("rest", millis(1_200)).await?;
            ctx.step("again", |_| {
                seen.note(format!("{came:?}"));
                async { Ok::<_, HandlerError>(()) }
            })
            .await?;
            Ok(came)
        })
    });
    let run = start(&stage, "both", "b", &()).await;
    let first = Running::start(process(&stage, "one").await.register(both.clone()));
    until("it waits", async || history(&stage, "b").await.contains(&"waiting".into())).await;
    first.stop().await;
    let (store, stopped) = (stage.store().await, stage.store().await.now().await.unwrap());
    let is_late = async || store.now().await.unwrap().since(stopped) > millis(1_200);
    until("its time is up", is_late).await;
    run.signal("go", &7).await.unwrap();
    let second = Running::start(process(&stage, "two").await.register(both));
    let chosen = result::<Option<u32>>(&run).await;
    assert_eq!(seen.lines(), [format!("{chosen:?}"), format!("{chosen:?}")]);
    assert_eq!(count(&stage, "b", "received").await + count(&stage, "b", "timed-out").await, 1);
    second.stop().await;
}
