//! A follower of the feed: every life of a process begins at the beginning.

use std::future::poll_fn;
use std::time::Duration;

use futures_util::Stream;
use tidelock::Tidelock;
use tidelock::store::{FeedQuery, Position};

use super::process::Process;
use crate::history::{self, Action, Answer, Client, Outcome};

/// Follows the feed until the process ends: by pages of the store, or as applications do.
pub(crate) async fn follow(process: Process, tidelock: Tidelock) {
    match process.draw(|rng| rng.one_in(2)) {
        true => read_pages(process, tidelock).await,
        false => follow_events(process, tidelock).await,
    }
}

async fn read_pages(process: Process, tidelock: Tidelock) {
    let mut after = Position::START;
    let follower = format!("pages of {}", process.name());
    loop {
        let client = Client { process: process.name().to_owned(), number: 2_000 };
        let (follower, prefix) = (follower.clone(), String::new());
        let asked = Action::ReadFeed { follower, prefix, after: after.get() };
        let recorded = process.world.begin(client, asked);
        let answer = tidelock.store().read_feed(FeedQuery::after(after).limit(20)).await;
        process.alive().await;
        let outcome = match &answer {
            Ok(page) => Outcome::Done(Answer::Page {
                events: page.events.iter().map(history::event).collect(),
                next: page.next.get(),
            }),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        process.world.end(recorded, outcome);
        let at_end = match answer {
            Ok(page) => {
                after = page.next;
                page.at_end
            }
            Err(_) => true,
        };
        if at_end {
            let pause = process.draw(|rng| rng.millis(100, 3_000));
            process.sleep(pause).await;
        }
    }
}

async fn follow_events(process: Process, tidelock: Tidelock) {
    let mut feed = Box::pin(tidelock.feed().follow());
    loop {
        let Some(event) = poll_fn(|context| feed.as_mut().poll_next(context)).await else {
            // An error for which no retry helps: the application begins again.
            process.world.facts(|facts| facts.followed.remove(process.name()));
            process.sleep(Duration::from_secs(1)).await;
            feed = Box::pin(tidelock.feed().follow());
            continue;
        };
        process.alive().await;
        if let Ok(event) = event {
            process.world.facts(|facts| {
                let followed = facts.followed.entry(process.name().to_owned()).or_default();
                followed.push((event.position.get(), event.stream.to_string()));
            });
        }
    }
}
