//! Bookings, and the closing of books.

use std::convert::Infallible;

use tidelock::ErrorKind;
use tidelock::closing::CloseError;
use tidelock::store::StoredEvent;

use super::Client;
use crate::simulator::process::Process;
use crate::simulator::state::{BookEvent, Books, Named, STREAMS};

impl Client {
    pub(super) async fn book(&self, id: &str) {
        let stream = self.draw(|rng| rng.below(STREAMS)).to_string();
        let books = self.tidelock.aggregate::<Books>(&stream);
        let name = format!("{stream}/{id}");
        self.process.world.asks("booking", &name);
        let booked = self
            .insist(async || {
                let booked = BookEvent::Booked { id: id.to_owned() };
                books.operation_id(id).execute(|_| Ok::<_, String>(booked.clone())).await
            })
            .await;
        match booked {
            Some(Ok(_)) => self.process.world.told("booking", &name),
            Some(Err(error)) if error.kind() == ErrorKind::Closed => {}
            Some(Err(error)) => self.strange("a booking", &error),
            None => {}
        }
    }
}

/// Closes books in some way, or finishes what was begun.
pub(crate) async fn close(process: &Process) {
    let (stream, way) = process.draw(|rng| (rng.below(STREAMS), rng.below(2)));
    close_stream(process, stream, way).await;
}

/// Closes these books; returns whether nothing is left to do.
pub(crate) async fn close_stream(process: &Process, stream: u64, way: u64) -> bool {
    let tidelock = process.tidelock();
    for way in [way, 1 - way] {
        let books = tidelock.aggregate::<Books>(stream.to_string());
        let (archivist, of) = (process.clone(), stream.to_string());
        let archive = move |events: Vec<StoredEvent>| {
            let (archivist, of) = (archivist.clone(), of.clone());
            async move { shelve(&archivist, of, events).await }
        };
        let patience = process.draw(|rng| rng.millis(0, 10_000));
        let closing = books.archive_to(archive).lease(process.world.plan.lease).within(patience);
        let closed = match way {
            0 => closing.restart().await,
            _ => closing.keep_last(3).await,
        };
        process.alive().await;
        match closed {
            Ok(_) => {
                process.world.sometimes("books are closed");
                return true;
            }
            Err(CloseError::NoStream { .. } | CloseError::NothingToClear { .. }) => return true,
            Err(CloseError::OtherPlan { .. }) => {
                process.world.sometimes("closing continues after a death");
            }
            Err(
                CloseError::Busy { .. }
                | CloseError::Refused { .. }
                | CloseError::Unfinished { .. }
                | CloseError::Store(_)
                | CloseError::Load(_),
            ) => return false,
            Err(error) => process.world.problem(format!("a closing failed: {error}")),
        }
    }
    false
}

/// Keeps archived events. A page may come twice, with the same content.
async fn shelve(
    process: &Process,
    books: String,
    events: Vec<StoredEvent>,
) -> Result<(), Infallible> {
    process.alive().await;
    for event in events {
        let named = event.payload.to::<Named>();
        let id = named.map_or_else(|_| event.event_type.to_string(), |named| named.id);
        let version = event.version.get();
        let first = process.world.facts(|facts| {
            facts.archived.entry(books.clone()).or_default().insert(version, id.clone())
        });
        if first.as_ref().is_some_and(|first| *first != id) {
            let problem =
                format!("version {version} of books {books} was archived as {first:?} and {id:?}");
            process.world.problem(problem);
        }
    }
    Ok(())
}
