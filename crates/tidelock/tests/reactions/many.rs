//! More events than fit in a page.

use std::time::Duration;

use tidelock::doctor::{Doctor, FindingKind, Thresholds};
use tidelock::prelude::*;
use tidelock::store::StoredEvent;
use tidelock_test_stage::{
    MANY, Observed, Running, TestStore, brisk, many_events, note, on_every_store,
};

on_every_store!(
    an_unrouted_reaction_is_found_behind_many_other_events,
    an_unrouted_reaction_is_found_behind_many_reserved_events,
);

/// A reaction to these streams that was run once, and is no longer.
async fn left(tidelock: &Tidelock, streams: &str) {
    let seen = Observed::default();
    let noting = seen.clone();
    let handle = move |event: StoredEvent, _: ReactionCtx| {
        noting.note(event.stream.as_str());
        async { Ok(()) }
    };
    let app =
        tidelock.app().worker(brisk("w")).reaction("mail", on_any().in_streams(streams), handle);
    let running = Running::start(app);
    note(tidelock, "order-1", "first").await;
    seen.until(1).await;
    running.stop().await;
}

/// Whether the doctor reports it as unrouted.
async fn is_told(tidelock: &Tidelock) -> bool {
    let bounds = Thresholds { stuck_after: Duration::ZERO, ..Thresholds::default() };
    let found =
        Doctor::over(tidelock.store().clone()).within(bounds).examine().await.unwrap().findings;
    found.iter().any(|finding| {
        finding.kind == FindingKind::Route && finding.what.contains("no worker routes")
    })
}

/// CMD-5.
async fn an_unrouted_reaction_is_found_behind_many_other_events(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    left(&tidelock, "order-").await;
    many_events(&**tidelock.store(), "elsewhere", MANY).await;
    note(&tidelock, "order-1", "second").await;
    assert!(is_told(&tidelock).await);
}

/// CMD-5.
async fn an_unrouted_reaction_is_found_behind_many_reserved_events(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    left(&tidelock, "").await;
    many_events(&**tidelock.store(), "~ours", 1_100).await;
    note(&tidelock, "order-1", "second").await;
    assert!(is_told(&tidelock).await);
}
