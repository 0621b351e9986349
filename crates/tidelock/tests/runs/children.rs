//! Child runs.

use tidelock::prelude::*;
use tidelock::runs::RunState;
use tidelock::store::{RecordKey, StoreExt};
use tidelock_test_stage::{
    DyingStore, Observed, Running, TestStore, brisk, in_memory, on_every_store, until,
};

use crate::flow::{Flow, Register};
use crate::helpers::{count, error, process, result, see, start, with};

on_every_store!(
    a_parent_waits_for_its_child_and_has_its_result,
    a_childs_failure_is_the_parents_to_handle,
    a_cancelled_parent_cancels_its_child,
);

fn family(seen: &Observed) -> [Flow<String, String>; 2] {
    let parent = with("parent", seen, |ctx, what: String, seen| {
        Box::pin(async move {
            ctx.step("before", |key| see(&seen, key)).await?;
            let answer: String = ctx.child("help", "helper", &what).typed().await?;
            Ok(format!("it said {answer}"))
        })
    });
    let helper = with("helper", seen, |ctx, what: String, seen| {
        Box::pin(async move {
            ctx.step("help", |key| see(&seen, key)).await?;
            match what.as_str() {
                "fail" => {
                    ctx.step("no", |_| async { Err(HandlerError::fatal("cannot help")) }).await
                }
                "wait" => ctx.wait_for_signal("never").await,
                _ => Ok(what),
            }
        })
    });
    [parent, helper]
}

/// RUN-23. Driven by different processes.
async fn a_parent_waits_for_its_child_and_has_its_result(stage: TestStore) {
    let seen = Observed::default();
    let [parent, helper] = family(&seen);
    let helpers = Running::start(process(&stage, "helpers").await.register(helper));
    let known = async || {
        stage.store().await.get_one(&RecordKey::new("~workflow/helper").unwrap()).await.unwrap()
    };
    until("helper is known", async || known().await.live().is_some()).await;
    let run = start(&stage, "parent", "p", "yes").await;
    let parents = Running::start(process(&stage, "parents").await.register(parent));
    assert_eq!(result::<String>(&run).await, "it said yes");
    assert_eq!(seen.lines(), ["p:before", "p/help:help"]);
    let child = stage.tidelock().await.runs().run("p/help").get().await.unwrap();
    assert_eq!(child.parent.unwrap().run.as_str(), "p");
    parents.stop().await;
    helpers.stop().await;
}

/// RUN-23.
async fn a_childs_failure_is_the_parents_to_handle(stage: TestStore) {
    let seen = Observed::default();
    let [parent, helper] = family(&seen);
    let run = start(&stage, "parent", "p", "fail").await;
    let running = Running::start(process(&stage, "one").await.register(parent).register(helper));
    let error = error(&run).await;
    assert!(error.contains(r#"child "help", run "p/help", did not complete"#), "{error}");
    assert!(error.contains("cannot help"), "{error}");
    running.stop().await;
}

/// RUN-23.
async fn a_cancelled_parent_cancels_its_child(stage: TestStore) {
    let seen = Observed::default();
    let [parent, helper] = family(&seen);
    let run = start(&stage, "parent", "p", "wait").await;
    let running = Running::start(process(&stage, "one").await.register(parent).register(helper));
    let child = stage.tidelock().await.runs().run("p/help");
    until("the child waits", async || count(&stage, "p/help", "waiting").await == 1).await;
    run.cancel("enough").await.unwrap();
    let ended = async || child.get().await.unwrap().state == RunState::Cancelled;
    until("the child is cancelled", ended).await;
    let ended = async || run.get().await.unwrap().state == RunState::Cancelled;
    until("the parent is cancelled", ended).await;
    running.stop().await;
}

/// Schedule 48. RUN-23. The parent's process dies at every call around the start of the child:
/// there is one child.
#[test]
fn a_parent_that_dies_has_one_child() {
    for (calls, last_words) in (4..24).flat_map(|calls| [(calls, false), (calls, true)]) {
        in_memory(async |stage| {
            let seen = Observed::default();
            let [parent, helper] = family(&seen);
            let run = start(&stage, "parent", "p", "yes").await;
            let store = DyingStore::over(stage.store().await, calls, last_words);
            let mortal = Tidelock::over(store.clone());
            let app = mortal
                .app()
                .worker(brisk("mortal"))
                .register(parent.clone())
                .register(helper.clone());
            let first = tokio::spawn(app.build().unwrap().run());
            until("it is dead", async || store.is_dead()).await;
            first.abort();
            let second =
                Running::start(process(&stage, "heir").await.register(parent).register(helper));
            assert_eq!(result::<String>(&run).await, "it said yes");
            assert_eq!(
                (count(&stage, "p", "child").await, count(&stage, "p/help", "started").await),
                (1, 1)
            );
            second.stop().await;
        });
    }
}
