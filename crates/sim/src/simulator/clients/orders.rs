//! Runs: started, signalled, and waited for.

use tidelock::ErrorKind;
use tidelock::runs::RunError;

use super::Client;
use crate::simulator::app::{FAILS, ORDER, RACES, WAITS};

impl Client {
    pub(super) async fn order(&self, id: &str) {
        let shape = self.draw(|rng| {
            let bits = rng.below(2 * FAILS);
            if rng.one_in(3) { bits } else { bits & !FAILS & !RACES }
        });
        let run = format!("run-{id}");
        let world = &self.process.world;
        world.asks("run", &run);
        // A signal may come before the run.
        let signals_first = self.draw(|rng| rng.one_in(3));
        if signals_first {
            self.signal(&run, shape).await;
        }
        let start = async || self.tidelock.start(ORDER, &run, &shape).await.map(drop);
        match self.insist(start).await {
            Some(Ok(())) => world.told("run", &run),
            Some(Err(error)) => return self.strange("a start", &error),
            None => {}
        }
        if !signals_first {
            let pause = self.draw(|rng| rng.millis(10, 4_000));
            self.process.sleep(pause).await;
            self.signal(&run, shape).await;
        }
    }

    async fn signal(&self, run: &str, shape: u64) {
        let names = [(WAITS, "go"), (RACES, "hurry")];
        for (_, name) in names.into_iter().filter(|(bit, _)| shape & bit != 0) {
            let handle = self.tidelock.runs().run(run);
            let signal = async || handle.signal(name, &()).id(name).await;
            match self.insist::<_, RunError>(signal).await {
                // An operator may have ended the run.
                Some(Err(error))
                    if error.kind() != ErrorKind::Closed
                        && !matches!(error.details::<RunError>(), Some(RunError::Ended { .. })) =>
                {
                    self.strange("a signal", &error);
                }
                _ => {}
            }
        }
    }
}
