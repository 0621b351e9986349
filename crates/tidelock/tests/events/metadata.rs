//! What is known about events, and what follows from what.

use tidelock::prelude::*;

use crate::ground::{Ground, on_every_store};
use crate::shop::{Counter, Stepped, Stock, receive};

on_every_store!(a_command_says_who_and_why, what_follows_from_an_event_is_in_its_conversation);

/// EVT-14.
async fn a_command_says_who_and_why(ground: Ground) {
    let tidelock = ground.open().await;
    let tea = tidelock.aggregate::<Stock>("tea");
    let about = Metadata::new().correlated("request-1").by("ada").with("ip", "::1");
    tea.decision().metadata(about.clone()).execute(receive(1)).await.unwrap();
    tea.decision().by("bob").execute(receive(1)).await.unwrap();
    let history = tea.history().await.unwrap();
    assert_eq!(history[0].metadata, about);
    assert_eq!(history[1].metadata, Metadata::new().by("bob"));
    let query = FeedQuery::after(Position::START).metadata("correlation", "request-1");
    assert_eq!(ground.store().await.rows(query).all().await.unwrap().len(), 1);
}

/// EVT-14.
async fn what_follows_from_an_event_is_in_its_conversation(ground: Ground) {
    let tidelock = ground.open().await;
    let (tea, counter) = (tidelock.aggregate::<Stock>("tea"), tidelock.aggregate::<Counter>("one"));
    tea.execute(receive(1)).await.unwrap();
    let first = tea.history().await.unwrap().remove(0);
    let steps = |(_, _): (&Stock, &Counter)| Ok::<_, String>(((), Stepped {}));
    tidelock.decide((&tea, &counter)).caused_by(&first).by("ada").execute(steps).await.unwrap();
    let second = counter.history().await.unwrap().remove(0);
    assert_eq!(second.metadata, Metadata::caused_by(first.id, &first.metadata).by("ada"));
    tea.decision().caused_by(&second).execute(receive(1)).await.unwrap();
    let third = tea.history().await.unwrap().remove(1);
    assert_eq!(third.metadata.correlation, Some(first.id.to_string()));
    assert_eq!(third.metadata.causation, Some(second.id));
}
