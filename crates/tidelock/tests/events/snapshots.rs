//! Snapshots of aggregate state.

use std::convert::Infallible;
use tidelock::store::{AfterTrim, Append, Commit, RecordKey, StoreExt, StreamName, Version};

use serde::{Deserialize, Serialize};
use tidelock::events::{LoadError, Snapshots};
use tidelock::prelude::*;

use crate::harness::{Ground, on_every_store};
use crate::meddler::{Fault, Meddler};

on_every_store!(
    a_snapshot_is_kept_when_a_multiple_is_crossed_and_loading_begins_there,
    a_snapshot_is_kept_when_the_aggregate_says_so,
    events_without_a_decision_make_no_snapshot_due,
    an_older_snapshot_never_replaces_a_newer_one,
    a_snapshot_of_another_shape_is_not_used,
    a_snapshot_that_cannot_be_kept_fails_nothing,
    a_trimmed_stream_is_loaded_from_its_snapshot,
    a_snapshot_of_an_earlier_life_is_not_used,
);

/// A counter with a snapshot every ten steps, in shape N.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Walk<const SHAPE: u32> {
    steps: u64,
    /// How many events this state was folded from since it was read from JSON.
    #[serde(skip)]
    replayed: u64,
}

#[derive(Debug, Event)]
struct Walked {}

impl<const SHAPE: u32> Aggregate for Walk<SHAPE> {
    const KIND: &'static str = "walk";
    type Event = Walked;

    fn apply(&mut self, _: &Walked) {
        self.steps += 1;
        self.replayed += 1;
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(10).schema(SHAPE)
    }
}

async fn walk<const SHAPE: u32>(tidelock: &Tidelock, steps: usize) {
    let steps =
        |_: &Walk<SHAPE>| Ok::<_, Infallible>((0..steps).map(|_| Walked {}).collect::<Vec<_>>());
    tidelock.aggregate::<Walk<SHAPE>>("one").execute(steps).await.unwrap();
}

async fn load<const SHAPE: u32>(ground: &Ground) -> (u64, u64) {
    let loaded = ground.open().await.aggregate::<Walk<SHAPE>>("one").load().await.unwrap();
    (loaded.steps, loaded.replayed)
}

fn key() -> RecordKey {
    RecordKey::new("~snapshot/walk-one").unwrap()
}

async fn kept_version(ground: &Ground) -> Option<u64> {
    let record = ground.store().await.get_one(&key()).await.unwrap().into_live()?;
    record.value.to::<serde_json::Value>().unwrap()["version"].as_u64()
}

/// EVT-10.
async fn a_snapshot_is_kept_when_a_multiple_is_crossed_and_loading_begins_there(ground: Ground) {
    let tidelock = ground.open().await;
    walk::<1>(&tidelock, 9).await;
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (None, (9, 9)));
    walk::<1>(&tidelock, 4).await;
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (Some(13), (13, 0)));
    walk::<1>(&tidelock, 3).await;
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (Some(13), (16, 3)));
}

/// A walk with a snapshot after every pause.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Hike {
    paused: bool,
}

#[derive(Debug, Event)]
enum HikeEvent {
    Walked,
    Paused,
}

impl Aggregate for Hike {
    const KIND: &'static str = "walk";
    type Event = HikeEvent;

    fn apply(&mut self, event: &HikeEvent) {
        self.paused = matches!(event, HikeEvent::Paused);
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::when(|hike, version| hike.paused && version.get() > 2)
    }
}

/// EVT-10. Whether by a decision alone, or in a unit of work.
async fn a_snapshot_is_kept_when_the_aggregate_says_so(ground: Ground) {
    let tidelock = ground.open().await;
    let hike = tidelock.aggregate::<Hike>("one");
    for (kept, paused) in
        [(None, true), (None, false), (Some(3), true), (Some(3), false), (Some(5), true)]
    {
        let next = move |_: &Hike| {
            let event = if paused { HikeEvent::Paused } else { HikeEvent::Walked };
            Ok::<_, Infallible>(event)
        };
        match kept {
            Some(5) => {
                let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
                    Ok(tx.execute(&hike, next).await?)
                });
                unit.await.unwrap();
            }
            _ => drop(hike.execute(next).await.unwrap()),
        }
        assert_eq!(kept_version(&ground).await, kept);
    }
}

/// EVT-10. Neither plain appends, nor those of a unit of work, nor parts that the caller commits.
async fn events_without_a_decision_make_no_snapshot_due(ground: Ground) {
    let tidelock = ground.open().await;
    let path = tidelock.aggregate::<Walk<1>>("one");
    let steps = || (0..12).map(|_| Walked {}).collect::<Vec<_>>();
    path.append(steps()).await.unwrap();
    tidelock.transact(async |tx: Tx| tx.append(&path, steps())).await.unwrap();
    let decided = |_: &Walk<1>| Ok::<_, Infallible>(steps());
    let parts = path.decision().propose(decided).await.unwrap();
    tidelock.store().commit(parts).await.unwrap().committed().unwrap();
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (None, (36, 36)));
    walk::<1>(&tidelock, 4).await;
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (Some(40), (40, 0)));
}

/// EVT-10. A process that stalled after its commit resumes, and writes its snapshot.
async fn an_older_snapshot_never_replaces_a_newer_one(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let (slow, quick) = (Tidelock::over(meddler.clone()), ground.open().await);
    walk::<1>(&slow, 9).await;
    // Its next commit lands, and the one after that, of its snapshot, is held.
    let (_, commits) = meddler.counts();
    let late = tokio::spawn({
        let slow = slow.clone();
        meddler.allow(1);
        async move { walk::<1>(&slow, 1).await }
    });
    while meddler.counts().1 < commits + 2 {
        tokio::task::yield_now().await;
    }
    walk::<1>(&quick, 15).await;
    assert_eq!(kept_version(&ground).await, Some(25));
    meddler.let_through();
    late.await.unwrap();
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (Some(25), (25, 0)));
}

/// EVT-10.
async fn a_snapshot_of_another_shape_is_not_used(ground: Ground) {
    let (old, new) = (ground.open().await, ground.open().await);
    walk::<1>(&old, 10).await;
    assert_eq!(load::<2>(&ground).await, (10, 10));
    walk::<2>(&new, 10).await;
    assert_eq!(load::<2>(&ground).await, (20, 0));
    assert_eq!(load::<1>(&ground).await, (20, 20), "the old program reads the stream");
    walk::<1>(&old, 10).await;
    assert_eq!(
        (kept_version(&ground).await, load::<2>(&ground).await),
        (Some(20), (30, 10)),
        "and leaves the new one's alone"
    );
}

/// EVT-10.
async fn a_snapshot_that_cannot_be_kept_fails_nothing(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    walk::<1>(&tidelock, 9).await;
    meddler.fail_after(1, [Fault::LostRequest]);
    walk::<1>(&tidelock, 1).await;
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (None, (10, 10)));
}

async fn trim(ground: &Ground, through: u64) {
    let store = ground.store().await;
    let stream = StreamName::new("walk-one").unwrap();
    let close = Append::closing(&stream, ExpectedVersion::Any);
    let commit = Commit::new().with_append(close).trim(
        &stream,
        Version::new(through).unwrap(),
        AfterTrim::Reopen,
    );
    store.commit(commit).await.unwrap().committed().unwrap();
}

/// EVT-10.
async fn a_trimmed_stream_is_loaded_from_its_snapshot(ground: Ground) {
    let tidelock = ground.open().await;
    walk::<1>(&tidelock, 12).await;
    walk::<1>(&tidelock, 2).await;
    trim(&ground, 8).await;
    assert_eq!(load::<1>(&ground).await, (14, 2));
    trim(&ground, 14).await;
    // Without a snapshot that reaches the remaining events, there is no state.
    let refused = ground.open().await.aggregate::<Walk<1>>("one").load().await.unwrap_err();
    assert!(matches!(refused, LoadError::Trimmed { first, .. } if first.get() == 15), "{refused}");
    let refused = ground.open().await.aggregate::<Walk<2>>("one").load().await.unwrap_err();
    assert!(matches!(refused, LoadError::Trimmed { .. }), "{refused}");
    // A process with a cached state continues, and so do the versions.
    walk::<1>(&tidelock, 7).await;
    assert_eq!((kept_version(&ground).await, load::<1>(&ground).await), (Some(21), (21, 0)));
}

/// EVT-10. The stream was trimmed past its snapshot and restarted.
async fn a_snapshot_of_an_earlier_life_is_not_used(ground: Ground) {
    let tidelock = ground.open().await;
    walk::<1>(&tidelock, 10).await;
    walk::<1>(&tidelock, 5).await;
    trim(&ground, 15).await;
    let append = ground.open().await.aggregate::<Walk<1>>("one").append(Walked {}).await;
    assert_eq!(append.unwrap().version.unwrap().get(), 16);
    let refused = ground.open().await.aggregate::<Walk<1>>("one").load().await.unwrap_err();
    assert!(matches!(refused, LoadError::Trimmed { first, .. } if first.get() == 16), "{refused}");
}
