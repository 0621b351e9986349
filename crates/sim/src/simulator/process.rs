//! A simulated process: what stops it, and the supervisor that starts it again.

use std::fmt;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::Tidelock;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::fault::Fault;
use super::layer::ProcessStore;
use super::mutants::Mutant;
use super::rng::Rng;
use super::world::World;

/// One life of a process. Clones are handles on it.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) world: Arc<World>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Unique to this life.
    name: String,
    /// The place of the process, which all of its lives have.
    number: usize,
    /// The version of its code.
    version: u32,
    dead: AtomicBool,
    died: Notify,
    stopping: CancellationToken,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    paused_until: Option<Instant>,
    cut_until: Option<Instant>,
    clients: Vec<bool>,
}

impl Process {
    pub(crate) fn new(world: &Arc<World>, number: usize, life: u64, version: u32) -> Self {
        let rng = Rng::seeded(world.plan.seed).fork(1_000 + number as u64 * 1_000 + life);
        Self {
            world: world.clone(),
            shared: Arc::new(Shared {
                name: format!("p{number}.{life}"),
                number,
                version,
                dead: AtomicBool::new(false),
                died: Notify::new(),
                stopping: CancellationToken::new(),
                state: Mutex::new(State {
                    rng,
                    paused_until: None,
                    cut_until: None,
                    clients: Vec::new(),
                }),
            }),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }

    pub(crate) fn number(&self) -> usize {
        self.shared.number
    }

    pub(crate) fn version(&self) -> u32 {
        self.shared.version
    }

    /// Its handle on the store, as no other process has it.
    pub(crate) fn tidelock(&self) -> Tidelock {
        let seed = self.draw(Rng::next);
        Tidelock::over(Arc::new(ProcessStore::new(self.clone()))).with_seed(seed)
    }

    /// Whether the application has this defect.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.world.plan.mutant == Some(mutant)
    }

    pub(crate) fn draw<T>(&self, from: impl FnOnce(&mut Rng) -> T) -> T {
        from(&mut self.lock().rng)
    }

    /// Whether this fault strikes now.
    pub(crate) fn strikes(&self, fault: Fault) -> bool {
        let strikes =
            !self.world.is_calm() && self.draw(|rng| rng.happens(self.world.plan.often(fault)));
        if strikes {
            self.world.fault(self.name(), fault, "");
        }
        strikes
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.shared.dead.load(Ordering::Relaxed)
    }

    /// Dies: from now on nothing that it does has an effect, and its supervisor drops it.
    pub(crate) fn die(&self) {
        if !self.shared.dead.swap(true, Ordering::Relaxed) {
            self.shared.died.notify_one();
        }
    }

    /// Passes when it has died.
    pub(crate) async fn died(&self) {
        self.shared.died.notified().await;
    }

    pub(crate) fn pause(&self, length: Duration) {
        self.lock().paused_until = Some(Instant::now() + length);
    }

    pub(crate) fn cut(&self, length: Duration) {
        self.lock().cut_until = Some(Instant::now() + length);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.lock().cut_until.is_some_and(|until| Instant::now() < until)
    }

    /// Asks it to shut down.
    pub(crate) fn stop(&self) {
        self.shared.stopping.cancel();
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.shared.stopping
    }

    /// Passes when the process runs: a paused one waits here, a dead one stays.
    pub(crate) async fn alive(&self) {
        loop {
            if self.is_dead() {
                pending::<()>().await;
            }
            let until = self.lock().paused_until.filter(|until| Instant::now() < *until);
            match until {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Waits, as its code does.
    pub(crate) async fn sleep(&self, length: Duration) {
        if !length.is_zero() {
            sleep(length).await;
        }
        self.alive().await;
    }

    /// The number of a client that has no call in flight.
    pub(crate) fn seat(&self) -> usize {
        let clients = &mut self.lock().clients;
        let free = clients.iter().position(|busy| !busy).unwrap_or(clients.len());
        if free == clients.len() {
            clients.push(true);
        }
        clients[free] = true;
        free
    }

    pub(crate) fn leave(&self, seat: usize) {
        self.lock().clients[seat] = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Starts a process again and again, until its work is done in the calm.
pub(crate) struct Supervisor {
    world: Arc<World>,
    number: usize,
    current: Mutex<Option<Process>>,
}

impl Supervisor {
    pub(crate) fn new(world: &Arc<World>, number: usize) -> Arc<Self> {
        Arc::new(Self { world: world.clone(), number, current: Mutex::default() })
    }

    /// The life that runs now.
    pub(crate) fn current(&self) -> Option<Process> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs lives. `live` runs one, and returns when it was told to stop.
    pub(crate) async fn run<F: Future<Output = ()>>(self: Arc<Self>, live: impl Fn(Process) -> F) {
        let mut rng = Rng::seeded(self.world.plan.seed).fork(500 + self.number as u64);
        // Both versions of the code are there from the beginning.
        let mut version = 1 + u32::from(self.number.is_multiple_of(2) && rng.one_in(2));
        for life in 0.. {
            let process = Process::new(&self.world, self.number, life, version);
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(process.clone());
            tokio::select! {
                biased;
                () = process.died() => {}
                () = live(process.clone()) => {}
            }
            // What outlives the process, because the runtime still owns it, has no effect.
            process.die();
            let pause = match self.world.is_calm() {
                true => Duration::from_millis(10),
                false => rng.millis(10, 5_000),
            };
            sleep(pause).await;
            while self.world.is_moving.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(100)).await;
            }
            version = if process.stopping().is_cancelled() { 3 - version } else { version };
            if self.world.is_calm() {
                // The newest code is everywhere in the end; it has the older workflows, too.
                version = 2;
            }
        }
    }
}
