//! Everything that is in the store at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tidelock::jobs::{Job, JobInfo};
use tidelock::reactions::Reactions;
use tidelock::runs::run_of_stream;
use tidelock::store::{
    FeedQuery, HeadQuery, Position, Record, RecordQuery, Store, StoreExt, StoredEvent, StreamState,
};
use tidelock::{Event, Tidelock};

use crate::history::{self, Audit, FinalStream};
use crate::simulator::app::{Handled, Tally, gathered, handled};
use crate::simulator::state::{Chore, WorkEvent};
use crate::simulator::world::World;

/// Streams, records and the feed.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) feed: Vec<StoredEvent>,
    pub(super) streams: BTreeMap<String, (StreamState, Vec<StoredEvent>)>,
    pub(super) records: BTreeMap<String, Record>,
    /// The events that were skipped: reaction, target and event.
    pub(super) skipped: BTreeSet<(String, String, String)>,
}

impl Found {
    pub(super) async fn read(store: &Arc<dyn Store>) -> Self {
        let why = "the in-memory store answers";
        let feed = store.rows(FeedQuery::after(Position::START)).all().await.expect(why);
        let heads = store.rows(HeadQuery::prefix("")).all().await.expect(why);
        let mut streams = BTreeMap::new();
        for head in heads {
            let events = store.read_whole_stream(&head.stream).await.expect(why);
            streams.insert(head.stream.to_string(), (head.state, events));
        }
        let records = store.rows(RecordQuery::prefix("")).all().await.expect(why);
        let records = records.into_iter().map(|record| (record.key.to_string(), record)).collect();
        let skipped = Reactions::new(store.clone()).skipped(None).all().await.expect(why);
        let skipped = skipped
            .into_iter()
            .map(|skipped| (skipped.reaction, skipped.target, skipped.event.to_string()))
            .collect();
        Self { feed, streams, records, skipped }
    }

    /// The events of a stream.
    pub(super) fn stream(&self, name: &str) -> &[StoredEvent] {
        self.streams.get(name).map_or(&[], |(_, events)| events)
    }

    /// The payloads of a stream that are of this type.
    pub(super) fn payloads<T: DeserializeOwned>(&self, stream: &str) -> Vec<T> {
        let events = self.stream(stream).iter();
        events.filter_map(|event| event.payload.to::<T>().ok()).collect()
    }

    /// The events of a stream of work.
    pub(super) fn work(&self, stream: &str) -> Vec<WorkEvent> {
        let decode =
            |event: &StoredEvent| WorkEvent::decode(event.event_type.as_str(), &event.payload).ok();
        self.stream(stream).iter().filter_map(decode).collect()
    }

    /// The payloads of a stream that are texts.
    pub(super) fn texts(&self, stream: &str) -> BTreeSet<String> {
        self.payloads::<String>(stream).into_iter().collect()
    }

    /// The value of a record.
    pub(super) fn record<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.records.get(key)?.value.to::<T>().ok()
    }

    /// What clients were told to be done.
    pub(super) fn told(
        &self,
        world: &World,
        kind: &'static str,
    ) -> impl Iterator<Item = String> + use<> {
        let asked = world.facts(|facts| facts.asked.get(kind).cloned().unwrap_or_default());
        asked.into_iter().filter(|(_, told)| *told).map(|(name, _)| name)
    }

    /// For each reaction and target, the events that it has to handle.
    pub(super) fn to_handle(&self) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
        let mut all: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        let work = self.feed.iter().filter(|event| event.stream.as_str().starts_with("work-"));
        for event in work {
            let targets = [("follow", event.stream.to_string()), ("gather", gathered(event))];
            for (reaction, target) in targets {
                let skipped = (reaction.to_owned(), target.clone(), event.id.to_string());
                if self.skipped.contains(&skipped) {
                    continue;
                }
                let targets = all.entry(reaction.to_owned()).or_default();
                targets.entry(target).or_default().push(event.id.to_string());
            }
        }
        all
    }

    /// The jobs that were enqueued and have not ended.
    pub(super) async fn unfinished_chores(
        &self,
        world: &World,
        tidelock: &Tidelock,
    ) -> Vec<String> {
        let mut left = Vec::new();
        for chore in self.told(world, "chore") {
            let job = tidelock.jobs().get(Chore::QUEUE, &chore).await.ok().flatten();
            if !job.is_some_and(|job: JobInfo| job.state.is_ended()) {
                left.push(chore);
            }
        }
        left
    }

    /// The bookings of books that are not handled, of those that they still hold.
    pub(super) fn unshelved(&self) -> usize {
        let books = self.streams.iter().filter(|(name, _)| name.starts_with("books-"));
        books
            .map(|(name, (_, events))| {
                let handled = self.handled("shelve", name);
                let events =
                    events.iter().filter(|event| !event.event_type.as_str().starts_with('~'));
                events.filter(|event| !handled.contains(&event.id.to_string())).count()
            })
            .sum()
    }

    /// The events that a target has handled, in order.
    pub(super) fn handled(&self, reaction: &str, target: &str) -> Vec<String> {
        let records = self.payloads::<Handled>(&handled(reaction, target));
        records.into_iter().map(|handled| handled.event).collect()
    }

    /// Rows of the projection that are not up to date.
    pub(super) async fn behind(&self, tidelock: &Tidelock) -> Vec<String> {
        let mut behind = Vec::new();
        for (name, (_, events)) in self.streams.iter().filter(|(name, _)| name.starts_with("work-"))
        {
            let row = tidelock.reactions().row::<Tally>("tally", name).await.ok().flatten();
            let expected = Tally {
                events: events.len() as u64,
                last: events.last().map_or(0, |event| event.version.get()),
            };
            if row.as_ref() != Some(&expected) && !events.is_empty() {
                behind.push(format!("the row of {name}, which is {row:?} and not {expected:?}"));
            }
        }
        behind
    }

    /// What the checkers compare with the history.
    pub(super) fn audit(&self, world: &World) -> Audit {
        let reset = world.facts(|facts| facts.reset.clone());
        let mut audit = Audit {
            feed: Some(self.feed.iter().map(history::event).collect()),
            ..Audit::default()
        };
        for (name, (state, events)) in &self.streams {
            let stream = FinalStream {
                events: events.iter().map(history::event).collect(),
                version: state.version().map(tidelock::store::Version::get),
                closed: matches!(state, StreamState::Closed(_)),
            };
            audit.streams.insert(name.clone(), stream);
        }
        for (key, record) in &self.records {
            let slot = history::slot(&tidelock::store::Slot::Live(record.clone()));
            audit.records.insert(key.clone(), slot);
        }
        for (reaction, targets) in self.to_handle() {
            for (target, events) in targets {
                if reset.contains(&(reaction.clone(), target.clone())) {
                    continue;
                }
                let done = self.handled(&reaction, &target);
                audit.handled.entry(reaction.clone()).or_default().insert(target.clone(), done);
                audit.to_handle.entry(reaction.clone()).or_default().insert(target, events);
            }
        }
        for event in &self.feed {
            if let Some(run) = run_of_stream(&event.stream)
                && event.event_type.as_str() == "~step"
                && let Ok(step) = event.payload.to::<serde_json::Value>()
            {
                let step = step["name"].as_str().unwrap_or_default().to_owned();
                *audit.recorded.entry((run.to_string(), step)).or_default() += 1;
            }
        }
        audit
    }
}
