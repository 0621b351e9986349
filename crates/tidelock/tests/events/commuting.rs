//! Commuting events: conflicts without a second decision.

use std::convert::Infallible;

use tidelock::events::Provenance;
use tidelock::prelude::*;

use crate::harness::{Ground, on_every_store};
use crate::meddler::Meddler;

on_every_store!(
    commuting_events_are_not_decided_again,
    non_commuting_events_are_decided_again,
    commuting_events_are_rebased_on_commits_in_flight,
    a_decision_with_a_commit_to_itself_is_moved_too,
);

/// Votes commute with each other; closing the poll commutes with nothing.
#[derive(Debug, Default, Clone)]
struct Poll {
    votes: u64,
    is_over: bool,
}

#[derive(Debug, Event)]
enum PollEvent {
    Voted { by: String },
    Ended,
}

impl Aggregate for Poll {
    const KIND: &'static str = "poll";
    type Event = PollEvent;

    fn apply(&mut self, event: &PollEvent) {
        match event {
            PollEvent::Voted { .. } => self.votes += 1,
            PollEvent::Ended => self.is_over = true,
        }
    }

    fn commutes(ours: &PollEvent, theirs: &PollEvent) -> bool {
        matches!((ours, theirs), (PollEvent::Voted { .. }, PollEvent::Voted { .. }))
    }
}

impl Poll {
    fn vote(&self, by: &str) -> Result<PollEvent, &'static str> {
        if self.is_over { Err("it is over") } else { Ok(PollEvent::Voted { by: by.to_owned() }) }
    }
}

async fn vote(tidelock: &Tidelock, by: &str) -> (u32, Provenance) {
    let mut decisions = 0;
    let decide = |poll: &Poll| {
        decisions += 1;
        poll.vote(by)
    };
    let executed = tidelock.aggregate::<Poll>("lunch").execute(decide).await.unwrap();
    (decisions, executed.how)
}

/// EVT-5.
async fn commuting_events_are_not_decided_again(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    assert_eq!(vote(&here, "ada").await, (1, Provenance::Decided));
    for by in ["bob", "eve"] {
        vote(&there, by).await;
    }
    assert_eq!(vote(&here, "zoe").await, (1, Provenance::Rebased));
    assert_eq!(here.aggregate::<Poll>("lunch").load().await.unwrap().votes, 4);
}

/// EVT-5.
async fn non_commuting_events_are_decided_again(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    vote(&here, "ada").await;
    vote(&there, "bob").await;
    there
        .aggregate::<Poll>("lunch")
        .execute(|_| Ok::<_, Infallible>(PollEvent::Ended))
        .await
        .unwrap();
    let refused =
        here.aggregate::<Poll>("lunch").execute(|poll| poll.vote("zoe")).await.unwrap_err();
    assert_eq!(refused.refused(), Some("it is over"));
    assert_eq!(here.aggregate::<Poll>("lunch").load().await.unwrap().votes, 2);
}

/// EVT-5, EVT-7. Several conflict at once; each is rebased on the other.
async fn commuting_events_are_rebased_on_commits_in_flight(ground: Ground) {
    let meddler = Meddler::over(ground.store().await);
    let (here, there) = (Tidelock::over(meddler.clone()), ground.open().await);
    vote(&here, "ada").await;
    let (_, commits) = meddler.counts();
    meddler.hold();
    let voters: Vec<_> = ["bob", "eve", "kim"]
        .map(|by| {
            let here = here.clone();
            tokio::spawn(async move { vote(&here, by).await })
        })
        .into_iter()
        .collect();
    while meddler.counts().1 == commits {
        tokio::task::yield_now().await;
    }
    vote(&there, "zoe").await;
    meddler.let_through();
    for voter in voters {
        let (decisions, _) = voter.await.unwrap();
        assert_eq!(decisions, 1, "no decision was repeated");
    }
    let loaded = there.aggregate::<Poll>("lunch").load().await.unwrap();
    assert_eq!((loaded.votes, loaded.version.unwrap().get()), (5, 5));
}

/// EVT-5, EVT-6.
async fn a_decision_with_a_commit_to_itself_is_moved_too(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    vote(&here, "ada").await;
    vote(&there, "bob").await;
    let mut decisions = 0;
    let decide = |poll: &Poll| {
        decisions += 1;
        poll.vote("zoe")
    };
    let executed =
        here.aggregate::<Poll>("lunch").operation_id("zoe's").execute(decide).await.unwrap();
    assert_eq!((decisions, executed.how), (1, Provenance::Rebased));
    assert_eq!(there.aggregate::<Poll>("lunch").load().await.unwrap().votes, 3);
}
