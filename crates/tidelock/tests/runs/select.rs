//! Selects: the first of any number of operations, which is recorded.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock::prelude::*;
use tidelock::runs::{RunStatus, StepError};
use tidelock::store::WorkerName;
use tidelock::worker::WorkerOptions;
use tidelock_test_stage::{
    DyingStore, Observed, Running, TestStore, in_memory, on_every_store, until,
};

use crate::disconnect::mortal;
use crate::flow::{Flow, Register, soon};
use crate::helpers::{count, error, history, millis, process, result, see, start, with};

on_every_store!(
    the_first_of_any_number_of_operations_is_selected,
    a_replay_takes_the_recorded_branch_when_others_are_ready_by_then,
    a_select_without_futures_is_an_error,
    a_recorded_branch_that_the_code_has_no_longer_parks_the_run,
);

type Branch<'a> = BoxFuture<'a, Result<String, StepError>>;

/// A sleep, a signal, a child, and a step with a sleep after it.
fn pick(seen: &Observed) -> [Flow<(), (usize, String)>; 2] {
    let pick = with("pick", seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let (ctx, seen) = (&ctx, &seen);
            let rest = async {
                ctx.sleep("long", millis(3_600_000)).await?;
                Ok("rested".to_owned())
            };
            let told = async { ctx.wait_for_signal("go").await };
            let helped = async {
                let (_, helped): (usize, String) = ctx.child("help", "helper", &()).typed().await?;
                Ok(helped)
            };
            let worked = async {
                ctx.step("work", |key| see(seen, key)).await?;
                ctx.sleep("short", millis(1_200)).await?;
                Ok("worked".to_owned())
            };
            let branches: [Branch<'_>; 4] =
                [rest.boxed(), told.boxed(), helped.boxed(), worked.boxed()];
            let (nth, how) = ctx.select("pick", branches).await?;
            let how = how?;
            ctx.step("after", |_| {
                let is_first = !seen.lines().iter().any(|line| line.starts_with("after"));
                let hangs = is_first && how == "told";
                seen.note(format!("after {nth} {how}"));
                async move {
                    match hangs {
                        true => std::future::pending().await,
                        false => Ok::<_, HandlerError>(()),
                    }
                }
                .boxed()
            })
            .await?;
            ctx.sleep("rest", millis(1_200)).await?;
            Ok((nth, how))
        })
    });
    let helper = with("helper", seen, |ctx, (): (), _| {
        Box::pin(async move {
            let helped: String = ctx.wait_for_signal("help").await?;
            Ok((0, helped))
        })
    });
    [soon(pick), helper]
}

/// RUN-57. The losers are dropped where they are, and do not hold up the replay after the sleep.
async fn the_first_of_any_number_of_operations_is_selected(stage: TestStore) {
    let seen = Observed::default();
    let [pick, helper] = pick(&seen);
    let run = start(&stage, "pick", "p", &()).await;
    let running = Running::start(process(&stage, "one").await.register(pick).register(helper));
    assert_eq!(result::<(usize, String)>(&run).await, (3, "worked".to_owned()));
    assert_eq!(seen.lines(), ["p:work", "after 3 worked"]);
    let entries = history(&stage, "p").await;
    let of = |kind: &str| entries.iter().filter(|entry| *entry == kind).count();
    assert_eq!((of("won"), of("dropped")), (1, 3), "{entries:?}");
    running.stop().await;
}

/// RUN-57. The process dies in the step after the select; meanwhile every other branch could end.
async fn a_replay_takes_the_recorded_branch_when_others_are_ready_by_then(stage: TestStore) {
    let seen = Observed::default();
    let [pick, helper] = pick(&seen);
    let run = start(&stage, "pick", "p", &()).await;
    let (tidelock, store) = mortal(&stage).await;
    let app = tidelock.app().worker(tidelock_test_stage::brisk("one"));
    let first = Running::start(app.register(pick.clone()).register(helper.clone()));
    until("all branches began", async || {
        let there = history(&stage, "p").await;
        ["waiting", "child", "step"].iter().all(|kind| there.iter().any(|entry| entry == kind))
    })
    .await;
    run.signal("go", &"told").await.unwrap();
    until("it is after the select", async || {
        seen.lines().iter().any(|line| line == "after 1 told")
    })
    .await;
    store.cut();
    stage.tidelock().await.runs().run("p/help").signal("help", &"helped").await.unwrap();
    let second = Running::start(process(&stage, "two").await.register(pick).register(helper));
    assert_eq!(result::<(usize, String)>(&run).await, (1, "told".to_owned()));
    assert_eq!(seen.lines(), ["p:work", "after 1 told", "after 1 told"]);
    assert_eq!(count(&stage, "p", "won").await, 1);
    first.abandon();
    second.stop().await;
}

/// RUN-57.
async fn a_select_without_futures_is_an_error(stage: TestStore) {
    let nothing = with("nothing", &(), |ctx, (): (), ()| {
        Box::pin(async move {
            let (nth, ()) = ctx.select("pick", Vec::<BoxFuture<'static, ()>>::new()).await?;
            Ok(nth)
        })
    });
    let run = start(&stage, "nothing", "n", &()).await;
    let running = Running::start(process(&stage, "one").await.register(nothing));
    let error = error(&run).await;
    assert!(error.contains(r#""pick": there is nothing to select from"#), "{error}");
    running.stop().await;
}

/// RUN-4, RUN-57. Branches may be added behind those that there are, and not be taken away.
async fn a_recorded_branch_that_the_code_has_no_longer_parks_the_run(stage: TestStore) {
    let of = |branches: usize| {
        with("pick", &branches, |ctx, (): (), branches| {
            Box::pin(async move {
                let ctx = &ctx;
                let sleeps = (0..branches).map(|nth| {
                    ctx.sleep(
                        format!("sleep-{nth}"),
                        millis(if nth == 2 { 1_200 } else { 3_600_000 }),
                    )
                });
                let (nth, slept) = ctx.select("pick", sleeps.map(FutureExt::boxed)).await?;
                slept?;
                ctx.wait_for_signal::<()>("go").await?;
                Ok(nth)
            })
        })
    };
    let run = start(&stage, "pick", "p", &()).await;
    let three = Running::start(process(&stage, "one").await.register(of(3)));
    let waits = async || history(&stage, "p").await.contains(&"waiting".into());
    until("it waits after the select", waits).await;
    three.stop().await;
    let two = Running::start(process(&stage, "two").await.register(of(2)));
    run.signal("go", &()).await.unwrap();
    let parked = async || matches!(run.status().await.unwrap(), RunStatus::Parked { .. });
    until("it is parked", parked).await;
    let RunStatus::Parked { error, .. } = run.status().await.unwrap() else {
        panic!("it is parked")
    };
    assert!(
        error.contains(r#"expected race "pick" won by branch 2, counted from 0 (recorded), found race "pick" with 2 branches"#),
        "{error}"
    );
    two.stop().await;
    let four = Running::start(process(&stage, "four").await.register(of(4)));
    run.resume().await.unwrap();
    assert_eq!(result::<usize>(&run).await, 2);
    four.stop().await;
}

/// RUN-57. Dies at every call of the store, before it and after it: what follows the select sees
/// one branch only.
#[test]
fn a_select_takes_one_branch_wherever_its_process_dies() {
    let (mut survived, mut taken) = (0, BTreeSet::new());
    for last_words in [false, true] {
        for calls in 0.. {
            let mut died = false;
            in_memory(async |stage| {
                let (dead, branch) = die_after(&stage, calls, last_words).await;
                died = dead;
                taken.insert(branch);
            });
            if !died {
                break;
            }
            survived += 1;
        }
    }
    assert!(survived > 20, "it died only {survived} times");
    assert!(taken.len() > 1, "deaths change which branch is first: {taken:?}");
}

/// Whether the process died, and the branch that was taken.
async fn die_after(stage: &TestStore, calls: i64, last_words: bool) -> (bool, usize) {
    let seen = Observed::default();
    let three = with("three", &seen, |ctx, (): (), seen| {
        Box::pin(async move {
            let (ctx, seen) = (&ctx, &seen);
            let rested = async {
                ctx.sleep("short", millis(1_500)).await?;
                Ok("rested".to_owned())
            };
            let told = async { ctx.wait_for_signal("go").await };
            let worked = async {
                ctx.step("work", |key| see(seen, key)).await?;
                ctx.sleep("shorter", millis(1_400)).await?;
                Ok("worked".to_owned())
            };
            let branches: [Branch<'_>; 3] = [rested.boxed(), told.boxed(), worked.boxed()];
            let (nth, _) = ctx.select("three", branches).await?;
            ctx.step("after", |_| {
                seen.note(format!("after {nth}"));
                async { Ok::<_, HandlerError>(()) }
            })
            .await?;
            ctx.sleep("rest", millis(1_200)).await?;
            Ok(nth)
        })
    });
    let run = start(stage, "three", "t", &()).await;
    let store = DyingStore::over(stage.store().await, calls, last_words);
    let mortal = Tidelock::over(store.clone());
    // Polls rarely: a process that only polls has no call to die at.
    let unhurried = WorkerOptions::new(WorkerName::new("mortal").unwrap());
    let app = mortal.app().worker(unhurried).register(three.clone()).build().unwrap();
    let first = tokio::spawn(app.run());
    let ended = async || run.get().await.unwrap().state.is_ended();
    until("it is dead, or the run has ended", async || store.is_dead() || ended().await).await;
    let died = store.is_dead() && !ended().await;
    first.abort();
    if died {
        run.signal("go", &"told").await.unwrap();
    }
    let second = Running::start(process(stage, "heir").await.register(three));
    let branch = result::<usize>(&run).await;
    let mut after = seen.lines();
    after.retain(|line| line.starts_with("after"));
    assert!(
        !after.is_empty() && after.iter().all(|line| *line == format!("after {branch}")),
        "{after:?}"
    );
    assert_eq!(count(stage, "t", "won").await, 1);
    second.stop().await;
    (died, branch)
}
