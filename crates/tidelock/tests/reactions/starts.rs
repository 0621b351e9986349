//! Where a new reaction starts: after a position, or at a time.

use std::time::Duration;

use tidelock::prelude::*;
use tidelock::store::{Position, StoreErrorKind, StoreExt, StoredEvent, Timestamp};
use tidelock_test_stage::{Observed, Running, TestStore, brisk, note, on_every_store, until};

use crate::stage::until_quiet;

/// Against hanging only.
const PATIENCE: Duration = Duration::from_secs(60);

on_every_store!(
    a_reaction_starts_after_a_position,
    a_reaction_starts_at_a_time,
    a_position_that_was_never_given_out_stops_the_application,
);

/// Handles events from this start, of their own streams and of computed targets.
async fn handled(
    tidelock: &Tidelock,
    name: &str,
    from: impl Fn(
        tidelock::reactions::Subscription<StoredEvent>,
    ) -> tidelock::reactions::Subscription<StoredEvent>,
) -> Vec<String> {
    let mut all = Vec::new();
    for computed in [false, true] {
        let (seen, name) = (Observed::default(), format!("{name}-{computed}"));
        let source = from(on_any().in_streams("order-"));
        let source = if computed { source.to(|_: &StoredEvent| "all") } else { source };
        let noted = seen.clone();
        let app = tidelock.app().worker(brisk("one"));
        let app = app.reaction(&name, source, move |event: StoredEvent, _| {
            noted.note(format!("{}/{}", event.stream, event.version));
            async { Ok(()) }
        });
        let running = Running::start(app);
        let end = tidelock.store().feed_end().await.unwrap();
        until("everything is routed", async || {
            let routes = tidelock.reactions().routes().await.unwrap();
            routes.iter().any(|route| route.reaction == name && route.position >= end)
        })
        .await;
        until_quiet(tidelock, &name).await;
        running.stop().await;
        let mut lines = seen.lines();
        lines.sort();
        all.push(lines);
    }
    assert_eq!(all[0], all[1], "of own streams, and of computed targets");
    all.remove(0)
}

/// REACT-29.
async fn a_reaction_starts_after_a_position(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let mut positions = Vec::new();
    for stream in ["order-1", "order-2", "order-1", "order-2"] {
        positions.push(note(&tidelock, stream, "x").await.position);
    }
    let all = handled(&tidelock, "all", |source| source.from_position(Position::START)).await;
    assert_eq!(all.len(), 4);
    let last = handled(&tidelock, "last", |source| source.from_position(positions[1])).await;
    assert_eq!(last, ["order-1/2", "order-2/2"]);
}

/// REACT-29.
async fn a_reaction_starts_at_a_time(stage: TestStore) {
    let (tidelock, mut times) = (stage.tidelock().await, Vec::new());
    for stream in ["order-1", "order-2", "order-1", "order-2"] {
        let before = times.last().copied();
        let later = async || Some(tidelock.store().now().await.unwrap()) > before;
        until("the clock moves", later).await;
        times.push(note(&tidelock, stream, "x").await.recorded_at);
    }
    for (nth, moment) in times.iter().enumerate() {
        let since = handled(&tidelock, &format!("since-{nth}"), |it| it.from_time(*moment)).await;
        assert_eq!(since.len(), 4 - nth, "{since:?} since {moment} of {times:?}");
    }
    let long_ago = Timestamp::from_micros(times[0].micros() - 3_600_000_000).unwrap();
    assert_eq!(handled(&tidelock, "old", |source| source.from_time(long_ago)).await.len(), 4);
    let later = times[3].plus(Duration::from_micros(1));
    assert_eq!(handled(&tidelock, "young", |source| source.from_time(later)).await.len(), 0);
}

/// REACT-29, LOG-10.
async fn a_position_that_was_never_given_out_stops_the_application(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let last = note(&tidelock, "order-1", "x").await.position;
    let beyond = Position::new(last.get() + 100_000_000).unwrap();
    let source = on_any().from_position(beyond);
    let app = tidelock.app().reaction("mail", source, |_: StoredEvent, _| async { Ok(()) });
    let stopped = tokio::time::timeout(PATIENCE, app.build().unwrap().run()).await;
    let error = stopped.expect("it stops by itself").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Rewound, "{error}");
    assert!(tidelock.reactions().routes().await.unwrap().is_empty(), "it is not registered");
}
