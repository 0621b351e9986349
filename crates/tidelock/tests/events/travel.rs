//! Time travel: the state at a version, at a position, at a time.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use tidelock::events::{LoadError, Snapshots};
use tidelock::prelude::*;
use tidelock::store::{Position, Version};

use crate::harness::{Ground, on_every_store};
use crate::shop::{Stock, receive};

on_every_store!(
    the_state_at_a_version_is_the_one_decided_on,
    the_state_at_a_position_and_at_a_time,
    a_version_that_was_not_reached_is_not_made_up,
    the_past_before_a_snapshot_is_folded_from_the_start,
);

/// EVT-12.
async fn the_state_at_a_version_is_the_one_decided_on(ground: Ground) {
    let tidelock = ground.open().await;
    let tea = tidelock.aggregate::<Stock>("tea");
    for units in [1, 2, 3] {
        tea.execute(receive(units)).await.unwrap();
    }
    for (version, left) in [(1, 1), (2, 3), (3, 6)] {
        let then = tea.load_at_version(Version::new(version).unwrap()).await.unwrap();
        assert_eq!((then.left, then.version.unwrap().get()), (left, version));
    }
    assert_eq!(
        tea.load().await.unwrap().left,
        6,
        "the present is not touched by looking at the past"
    );
}

/// EVT-12.
async fn the_state_at_a_position_and_at_a_time(ground: Ground) {
    let tidelock = ground.open().await;
    let (tea, milk) = (tidelock.aggregate::<Stock>("tea"), tidelock.aggregate::<Stock>("milk"));
    let first = tea.execute(receive(1)).await.unwrap().position.unwrap();
    let between = milk.execute(receive(9)).await.unwrap().position.unwrap();
    let second = tea.execute(receive(2)).await.unwrap().position.unwrap();
    let mut left = Vec::new();
    for position in [Position::START, first, between, second] {
        left.push(tea.load_at_position(position).await.unwrap().left);
    }
    assert_eq!(left, [0, 1, 1, 3]);

    let history = tea.history().await.unwrap();
    let (early, late) = (history[0].recorded_at, history[1].recorded_at);
    let at_first = tea.load_at_time(early).await.unwrap().left;
    assert!(at_first == 1 || early == late, "{at_first}");
    assert_eq!(tea.load_at_time(late).await.unwrap().left, 3);
    let before = tidelock::Timestamp::from_micros(early.micros() - 1).unwrap();
    assert_eq!(tea.load_at_time(before).await.unwrap().version, None);
}

/// EVT-12.
async fn a_version_that_was_not_reached_is_not_made_up(ground: Ground) {
    let tidelock = ground.open().await;
    let tea = tidelock.aggregate::<Stock>("tea");
    tea.execute(receive(1)).await.unwrap();
    let refused = tea.load_at_version(Version::new(2).unwrap()).await.unwrap_err();
    assert!(matches!(refused, LoadError::NotReached { .. }));
    assert_eq!(refused.to_string(), r#"stream "stock-tea": asked for version 2, found version 1"#);
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Steps {
    steps: u64,
}

#[derive(Debug, Event)]
struct Step {}

impl Aggregate for Steps {
    const KIND: &'static str = "steps";
    type Event = Step;

    fn apply(&mut self, _: &Step) {
        self.steps += 1;
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::when(|state, _| state.steps == 5)
    }
}

/// EVT-12, EVT-10.
async fn the_past_before_a_snapshot_is_folded_from_the_start(ground: Ground) {
    let tidelock = ground.open().await;
    let steps = tidelock.aggregate::<Steps>("one");
    let mut positions = Vec::new();
    for _ in 0..8 {
        positions
            .push(steps.execute(|_| Ok::<_, Infallible>(Step {})).await.unwrap().position.unwrap());
    }
    for (at, position) in (1..).zip(positions) {
        let version = Version::new(at).unwrap();
        assert_eq!(steps.load_at_version(version).await.unwrap().steps, at);
        assert_eq!(steps.load_at_position(position).await.unwrap().steps, at);
    }
}
