//! Units of work over every pattern: all of their parts land together, or none.

use tidelock::scopes::{DocumentChange, ScopeKind};
use tidelock::store::{Edit, ExpectedRevision, RawJson};
use tidelock::{ErrorKind, Tx};

use super::Client;
use crate::simulator::app::{ORDER, SLEEPS};
use crate::simulator::state::{
    Board, BookEvent, Books, CALLS, Chore, HOT, QUOTA, STREAMS, Work, WorkEvent,
};

impl Client {
    pub(super) async fn do_unit(&self, id: &str) {
        let (stream, hot) = self.draw(|rng| (rng.below(STREAMS), rng.below(HOT)));
        let work = self.tidelock.aggregate::<Work>(stream.to_string());
        let books = self.tidelock.aggregate::<Books>(stream.to_string());
        let board = self.tidelock.scope::<Board>(ScopeKind::USER, format!("board-{hot}"));
        let quota = self.claims.quota("units", 10 * QUOTA);
        let rate = self.claims.rate("calls", CALLS.0, CALLS.1 * CALLS.0);
        let singleton = self.claims.singleton("unit").of(id);
        let Ok(item) = RawJson::new(id) else { return };
        let push = DocumentChange::Edit(Edit::Push { at: "names".to_owned(), item });
        let run = format!("run-{id}");
        let asked = [
            ("unit", id.to_owned()),
            ("work", id.to_owned()),
            ("booking", format!("{stream}/{id}")),
            ("push", format!("{hot}/{id}")),
            ("run", run.clone()),
            ("chore", id.to_owned()),
            ("job", id.to_owned()),
        ];
        let world = &self.process.world;
        asked.iter().for_each(|(kind, name)| world.asks(kind, name));
        // Without an operation id a repeated unit of work is a second one, so it has one attempt.
        let done = self
            .tidelock
            .transact(async |tx: Tx| -> tidelock::Result<()> {
                let (event, booked) = (id.to_owned(), id.to_owned());
                let come = move |_: &Work| {
                    Ok::<_, String>(WorkEvent::Came { id: event.clone(), units: 1 })
                };
                tx.execute(&work, come).await?;
                tx.append(&books, BookEvent::Booked { id: booked })?;
                tx.change(&board, ExpectedRevision::Any, &push).await?;
                let _run = tx.start(ORDER, &run, &SLEEPS).await?;
                tx.signal(&run, "hurry", &()).await?;
                let _job = tx.enqueue(&Chore { id: id.to_owned() }).key(id).await?;
                tx.enqueue_item(tx.tidelock().queue("jobs").enqueue(id))?;
                tx.take(&quota, 1).await?.granted()?;
                tx.take_rate(&rate, 1).await?.granted()?;
                tx.claim(&singleton, id).await?.granted()?;
                tx.add("units", 1, ..)?;
                tx.put(format!("unit/{id}"), &(stream, hot))
            })
            .await;
        match done {
            Ok(()) => {
                self.sometimes("unit of work over every pattern lands");
                asked.iter().for_each(|(kind, name)| world.told(kind, name));
            }
            // Books are closed now and then, and the rate is exceeded.
            Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Exceeded) => {}
            Err(error) if super::is_transient(&error) => {}
            Err(error) => self.strange("a unit of work", &error),
        }
    }
}
