//! Retried requests to a run take effect once, after a lost reply.

use futures_util::FutureExt;
use tidelock::prelude::*;
use tidelock::runs::{RunCtx, RunError, RunState, StepKey};
use tidelock_test_stage::{Observed, Running, TestStore, on_every_store};

use crate::client::idle;
use crate::flow::{Flow, app, count, history, result};

on_every_store!(
    a_run_is_signalled_cancelled_and_terminated_once,
    a_run_that_failed_again_is_not_retried_again,
);

/// RUN-49.
async fn a_run_is_signalled_cancelled_and_terminated_once(stage: TestStore) {
    let (here, there) = (stage.tidelock().await, stage.tidelock().await);
    idle(&here, "r").await;
    for tidelock in [&here, &there] {
        tidelock.runs().run("r").operation_id("s").signal("go", &7).await.unwrap();
    }
    for tidelock in [&here, &there] {
        tidelock.runs().run("r").operation_id("a").cancel("enough").await.unwrap();
    }
    for tidelock in [&here, &there] {
        tidelock.runs().run("r").operation_id("b").terminate("at once").await.unwrap();
    }
    there.runs().run("r").operation_id("a").cancel("enough").await.unwrap();
    let types: Vec<_> =
        history(&here, "r").await.into_iter().map(|event| event.event_type).collect();
    assert_eq!(types.len(), 4, "started, signalled, asked to cancel, terminated: {types:?}");
    let refused = there.runs().run("r").operation_id("c").terminate("at once").await.unwrap_err();
    assert!(matches!(refused, RunError::Ended { state: RunState::Terminated, .. }), "{refused}");
}

/// RUN-49. A retry of an answered request does not retry the run again.
async fn a_run_that_failed_again_is_not_retried_again(stage: TestStore) {
    let (tidelock, tries) = (stage.tidelock().await, Observed::default());
    let noted = tries.clone();
    let workflow = move |ctx: RunCtx, (): ()| {
        let noted = noted.clone();
        async move {
            let print = |_: StepKey| {
                noted.note("print");
                async { Err::<(), _>(HandlerError::fatal("out of paper")) }
            };
            ctx.step("print", print).await
        }
        .boxed()
    };
    let running = Running::start(app(&tidelock, "one", Flow::new("w", workflow)));
    let run = tidelock.start("w", "r", &()).await.unwrap();
    result::<()>(&run).await.unwrap_err();
    let retry =
        async |id: &str| run.clone().operation_id(id).retry("there is paper").await.unwrap();
    retry("a").await;
    result::<()>(&run).await.unwrap_err();
    retry("a").await;
    assert_eq!(run.get().await.unwrap().state, RunState::Failed, "it was left as it is");
    retry("b").await;
    result::<()>(&run).await.unwrap_err();
    assert_eq!((tries.count(), count(&tidelock, "r", "~retried").await), (3, 2));
    running.stop().await;
}
