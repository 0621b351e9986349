//! Personal data, which can be erased.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use tidelock::events::Snapshots;
use tidelock::prelude::*;
use tidelock::store::{FeedQuery, Position, RecordQuery, StoreExt};
use tidelock_test_stage::{MANY, many_records};
use tokio::task::JoinSet;

use crate::harness::{Ground, on_every_store};
use crate::meddler::{Fault, Meddler};

on_every_store!(
    personal_data_is_not_in_the_log_and_is_there_when_it_is_read,
    an_erased_subject_is_gone_and_the_events_stay,
    nothing_slips_in_behind_an_erasure,
    an_interrupted_erasure_counts_and_can_continue,
    no_snapshot_is_kept_of_a_state_that_had_personal_data,
    an_unknown_outcome_with_personal_data_is_found_out,
    an_erasure_leaves_nothing_however_much_there_is,
);

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Club {
    names: Vec<String>,
    joined: usize,
}

#[derive(Debug, Clone, PartialEq, Event)]
enum ClubEvent {
    Founded,
    Joined { name: Personal<String>, letters: Vec<Personal<Letter>>, fee: i64 },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Letter {
    text: Option<String>,
}

impl Aggregate for Club {
    const KIND: &'static str = "club";
    type Event = ClubEvent;

    fn apply(&mut self, event: &ClubEvent) {
        if let ClubEvent::Joined { name, .. } = event {
            self.joined += 1;
            self.names.extend(name.get().cloned());
        }
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(1)
    }
}

fn joined(subject: &str, name: &str) -> ClubEvent {
    let letter = Letter { text: Some(format!("{name} writes")) };
    ClubEvent::Joined {
        name: Personal::new(subject, name.to_owned()),
        letters: vec![
            Personal::new(subject, letter),
            Personal::new(subject, Letter { text: None }),
        ],
        fee: 5,
    }
}

async fn join(
    tidelock: &Tidelock,
    subject: &str,
    name: &str,
) -> Result<(), ExecuteError<Infallible>> {
    let club = tidelock.aggregate::<Club>("chess");
    club.execute(|_| Ok(joined(subject, name))).await.map(|_| ())
}

/// Everything in the store, as text: the log, and the records of this pattern.
async fn all_text(ground: &Ground) -> (String, String) {
    let store = ground.store().await;
    let events = store.rows(FeedQuery::after(Position::START)).all().await.unwrap();
    let records = store.rows(RecordQuery::prefix("~")).all().await.unwrap();
    (format!("{events:?}"), format!("{records:?}"))
}

/// EVT-13.
async fn personal_data_is_not_in_the_log_and_is_there_when_it_is_read(ground: Ground) {
    let tidelock = ground.open().await;
    join(&tidelock, "user-7", "Ada").await.unwrap();
    let (log, records) = all_text(&ground).await;
    assert!(!log.contains("Ada") && records.contains("Ada"));
    let history = ground.open().await.aggregate::<Club>("chess").history().await.unwrap();
    assert_eq!(history[0].event, joined("user-7", "Ada"));
    assert_eq!(ground.open().await.aggregate::<Club>("chess").load().await.unwrap().names, ["Ada"]);
}

/// EVT-13.
async fn an_erased_subject_is_gone_and_the_events_stay(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    for (subject, name) in [("user-7", "Ada"), ("user-8", "Bob"), ("user-7", "Ada again")] {
        join(&here, subject, name).await.unwrap();
        there.aggregate::<Club>("chess").load().await.unwrap();
    }
    assert_eq!(here.erase_subject("user-7").await.unwrap(), 2);
    for tidelock in [&here, &there] {
        let loaded = tidelock.aggregate::<Club>("chess").load().await.unwrap();
        assert_eq!(
            (loaded.joined, &loaded.names[..]),
            (3, &["Bob".to_owned()][..]),
            "no cache has it"
        );
    }
    let (log, records) = all_text(&ground).await;
    assert!(!log.contains("Ada") && !records.contains("Ada") && records.contains("Bob"));
    let history = there.aggregate::<Club>("chess").history().await.unwrap();
    let ClubEvent::Joined { name, letters, fee } = &history[0].event else {
        panic!("it was another")
    };
    assert_eq!(
        (name.get(), name.subject(), letters.len(), letters[0].get(), *fee),
        (None, "user-7", 2, None, 5)
    );

    let refused = join(&there, "user-7", "Ada").await.unwrap_err();
    assert!(
        matches!(&refused, ExecuteError::SubjectErased { subject } if subject == "user-7"),
        "{refused}"
    );
    join(&there, "user-9", "Ada").await.unwrap();
    assert_eq!(here.erase_subject("user-7").await.unwrap(), 0, "there is nothing left to erase");
}

/// EVT-13. Concurrent appends and an erasure: what was appended before is erased, and nothing is
/// appended after.
async fn nothing_slips_in_behind_an_erasure(ground: Ground) {
    let mut writers = JoinSet::new();
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(100);
    for writer in 0..4 {
        let (tidelock, begun) = (ground.open().await, begun.clone());
        writers.spawn(async move {
            let club = tidelock.aggregate::<Club>(format!("club-{writer}"));
            let mut written = 0;
            loop {
                match club.execute(|_| Ok::<_, Infallible>(joined("user-7", "Ada"))).await {
                    Ok(_) => written += 1,
                    Err(ExecuteError::SubjectErased { .. }) => return written,
                    Err(other) => panic!("{other}"),
                }
                let _receiver_may_be_gone = begun.try_send(());
            }
        });
    }
    for _ in 0..12 {
        has_begun.recv().await.unwrap();
    }
    let erased = ground.open().await.erase_subject("user-7").await.unwrap();
    let written: usize = writers.join_all().await.into_iter().sum();
    assert_eq!(erased, written, "every event's data was found");
    let (log, records) = all_text(&ground).await;
    assert!(!log.contains("Ada") && !records.contains("Ada"));
}

/// EVT-13.
async fn an_interrupted_erasure_counts_and_can_continue(ground: Ground) {
    let tidelock = ground.open().await;
    join(&tidelock, "user-7", "Ada").await.unwrap();
    let meddler = Meddler::over(ground.store().await);
    // The mark is set, and then the connection is lost.
    meddler.fail_after(1, [Fault::LostRequest]);
    Tidelock::over(meddler).erase_subject("user-7").await.unwrap_err();
    assert!(all_text(&ground).await.1.contains("Ada"), "it is still there");
    let loaded = ground.open().await.aggregate::<Club>("chess").load().await.unwrap();
    assert!(loaded.names.is_empty(), "but it is not read");
    assert!(join(&tidelock, "user-7", "Ada").await.is_err(), "and nothing is added to it");
    assert_eq!(tidelock.erase_subject("user-7").await.unwrap(), 1);
    assert!(!all_text(&ground).await.1.contains("Ada"));
}

/// EVT-13, EVT-10.
async fn no_snapshot_is_kept_of_a_state_that_had_personal_data(ground: Ground) {
    let tidelock = ground.open().await;
    let club = tidelock.aggregate::<Club>("chess");
    let found = |_: &Club| Ok::<_, Infallible>(ClubEvent::Founded);
    club.execute(found).await.unwrap();
    let snapshots = || async {
        let store = ground.store().await;
        store.rows(RecordQuery::prefix("~snapshot/")).all().await.unwrap()
    };
    let before = snapshots().await;
    assert_eq!(before.len(), 1, "there is one of the state before");
    join(&tidelock, "user-7", "Ada").await.unwrap();
    club.execute(found).await.unwrap();
    ground.open().await.aggregate::<Club>("chess").execute(found).await.unwrap();
    let unit = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<()> { Ok(tx.execute(&club, found).await?) });
    unit.await.unwrap();
    assert_eq!(club.load().await.unwrap().version.unwrap().get(), 5);
    assert_eq!(snapshots().await, before, "and none since");
}

/// EVT-13, EVT-6.
async fn an_unknown_outcome_with_personal_data_is_found_out(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let tidelock = Tidelock::over(meddler.clone());
    meddler.fail([Fault::LostReply, Fault::LostRequest]);
    join(&tidelock, "user-7", "Ada").await.unwrap();
    assert_eq!(ground.open().await.aggregate::<Club>("chess").load().await.unwrap().names, ["Ada"]);
}

/// Schedule 101. EVT-13.
async fn an_erasure_leaves_nothing_however_much_there_is(ground: Ground) {
    let (tidelock, store) = (ground.open().await, ground.store().await);
    join(&tidelock, "user-7", "Ada").await.unwrap();
    join(&tidelock, "user-8", "Bob").await.unwrap();
    let secret =
        store.rows(RecordQuery::prefix("~personal/user-7/")).next().await.unwrap().unwrap();
    many_records(&*store, "~personal/user-7/", &secret.value).await;
    assert_eq!(tidelock.erase_subject("user-7").await.unwrap(), MANY + 1);
    let (_, records) = all_text(&ground).await;
    assert!(!records.contains("Ada") && records.contains("Bob"), "{records}");
    assert_eq!(tidelock.erase_subject("user-7").await.unwrap(), 0);
}
