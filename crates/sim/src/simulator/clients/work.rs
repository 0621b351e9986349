//! Decisions on an aggregate, each under an operation id.

use tidelock::events::Provenance;

use super::Client;
use crate::simulator::state::{STREAMS, Work, WorkEvent};

impl Client {
    pub(super) async fn work(&self, id: &str) {
        let (stream, units, comes) =
            self.draw(|rng| (rng.below(STREAMS), 1 + rng.below(3), rng.one_in(2)));
        let units = i64::try_from(units).unwrap_or(1);
        let work = self.tidelock.aggregate::<Work>(stream.to_string());
        self.process.world.asks("work", id);
        let decide = |work: &Work| {
            let id = id.to_owned();
            match comes {
                true => Ok(WorkEvent::Came { id, units }),
                false if work.units >= units => Ok(WorkEvent::Went { id, units }),
                false => Err("there is not enough".to_owned()),
            }
        };
        let mut decided = self.insist(async || work.operation_id(id).execute(decide).await).await;
        if matches!(decided, Some(Ok(_))) && self.draw(|rng| rng.one_in(4)) {
            // As if the answer had been lost.
            let again = self.insist(async || work.operation_id(id).execute(decide).await).await;
            if let Some(Err(error)) = &again {
                self.strange("a decision that was made before", error);
            }
            decided = again.or(decided);
        }
        match decided {
            Some(Ok(executed)) => {
                if executed.attempts > 1 {
                    self.sometimes("decision is made again");
                }
                if executed.how == Provenance::Replayed {
                    self.sometimes("operation is answered from memory");
                }
                self.process.world.told("work", id);
            }
            Some(Err(error)) if error.kind() == tidelock::ErrorKind::Refused => {}
            Some(Err(error)) => self.strange("a decision", &error),
            None => {}
        }
    }
}
