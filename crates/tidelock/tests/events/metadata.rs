//! Event metadata: correlation and causation.

use tidelock::prelude::*;
use tidelock::store::{FeedQuery, Position, StoreExt};

use crate::harness::{Ground, on_every_store};
use crate::shop::{Counter, Stepped, Stock, receive};

on_every_store!(a_command_records_actor_and_correlation, caused_events_inherit_the_correlation);

/// EVT-14.
async fn a_command_records_actor_and_correlation(ground: Ground) {
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
async fn caused_events_inherit_the_correlation(ground: Ground) {
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
