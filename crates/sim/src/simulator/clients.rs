//! The clients of a simulated process: each does one thing after another, and repeats what failed
//! until it knows what came of it.

mod books;
mod chores;
mod claims;
mod edge;
mod jobs;
mod members;
mod orders;
mod scopes;
mod transfers;
mod units;
mod work;

use std::time::Duration;

use tidelock::claims::Claims;
use tidelock::runs::RunError;
use tidelock::{ErrorKind, Tidelock};

use super::process::Process;
use super::rng::Rng;

pub(crate) use books::{close as close_books, close_stream};
pub(crate) use chores::handle as do_chore;
pub(crate) use edge::Edge;
pub(crate) use jobs::serve as serve_jobs;

/// One client.
#[derive(Clone)]
pub(crate) struct Client {
    process: Process,
    tidelock: Tidelock,
    claims: Claims,
    edge: Edge,
    number: usize,
}

/// After so many failures a client gives up, and does not know what came of it.
const ATTEMPTS: usize = 40;

impl Client {
    pub(crate) fn new(process: &Process, tidelock: &Tidelock, edge: &Edge, number: usize) -> Self {
        let claims = tidelock.claims().by(format!("{}-{number}", process.name()));
        let (process, tidelock, edge) = (process.clone(), tidelock.clone(), edge.clone());
        Self { process, tidelock, claims, edge, number }
    }

    /// Does its operations, one at a time.
    pub(crate) async fn run(self) {
        for count in 0..self.process.world.plan.operations {
            if self.process.world.is_calm() || self.process.stopping().is_cancelled() {
                return;
            }
            let pause = self.draw(|rng| rng.millis(20, 2_000));
            self.process.sleep(pause).await;
            let id = format!("{}-{}-{count}", self.process.name(), self.number);
            match self.draw(|rng| rng.below(25)) {
                0..4 => self.work(&id).await,
                4..6 => self.transfer(&id).await,
                6 => self.change_scope(&id).await,
                7 => self.edit_scope(&id).await,
                8..10 => self.use_lock(&id).await,
                10 => self.use_key(&id).await,
                11 => self.use_quota(&id).await,
                12 => self.use_compound(&id).await,
                13 => self.use_singleton(&id).await,
                14..16 => self.order(&id).await,
                16..18 => self.book(&id).await,
                18 => self.enqueue(&id).await,
                19..21 => self.join(&id).await,
                21 => self.ask_for_chore(&id).await,
                22 => self.draw_rate().await,
                23 => self.do_unit(&id).await,
                _ => self.request(&id).await,
            }
        }
    }

    fn draw<T>(&self, from: impl FnOnce(&mut Rng) -> T) -> T {
        self.process.draw(from)
    }

    fn sometimes(&self, condition: &'static str) {
        self.process.world.sometimes(condition);
    }

    /// Repeats a call while the store fails; none if it is not known what came of it.
    async fn insist<T, E: Into<tidelock::Error>>(
        &self,
        call: impl AsyncFn() -> Result<T, E>,
    ) -> Option<Result<T, tidelock::Error>> {
        for _ in 0..ATTEMPTS {
            match call().await.map_err(Into::into) {
                Err(error) if is_transient(&error) => {
                    let pause = self.draw(|rng| rng.millis(50, 1_500));
                    self.process.sleep(pause).await;
                }
                answer => {
                    // What it has learned, it acts on only if it still lives.
                    self.process.alive().await;
                    return Some(answer);
                }
            }
        }
        None
    }

    /// An answer that no client should get.
    fn strange(&self, during: &str, error: &tidelock::Error) {
        let who = self.process.name();
        self.process.world.problem(format!("{during} of {who} failed: {error}"));
    }
}

fn is_transient(error: &tidelock::Error) -> bool {
    use ErrorKind::{Busy, Contended, TimedOut, Unavailable};
    // The first process that has the workflow may still be about to register it.
    let unregistered = matches!(error.details(), Some(RunError::UnknownWorkflow { .. }));
    unregistered || matches!(error.kind(), Unavailable | Contended | Busy | TimedOut)
}

/// How long a claim is waited for.
const GLANCE: Duration = Duration::from_secs(2);
