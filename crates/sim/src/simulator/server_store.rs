//! PostgreSQL in a simulation: a private server, and a network of its own for each process. Time is
//! real here, and nothing repeats itself.

use std::sync::Arc;
use std::time::Duration;

use tidelock::postgres::PostgresStore;
use tidelock::store::Store;
use tidelock_test_postgres::{Proxy, Server, Stop};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// What a network does to a process.
const INJURIES: [fn(&Proxy); 4] = [Proxy::cut, Proxy::refuse, Proxy::stall, Proxy::swallow_replies];

/// A store on a server.
#[derive(Debug)]
pub(crate) struct ServerStore {
    server: Arc<Server>,
    /// Past the network, for what looks at the store.
    store: Arc<dyn Store>,
    processes: Vec<(Arc<Proxy>, Arc<dyn Store>)>,
}

impl ServerStore {
    pub(crate) async fn start(processes: usize) -> Self {
        let server = spawn_blocking(|| Server::start_with(&[("max_connections", "200")]));
        let server = server.await.ok().and_then(Result::ok).expect("PostgreSQL is installed");
        let store = open(server.port()).await;
        let mut behind = Vec::new();
        for _ in 0..processes {
            let proxy = Proxy::to(server.port()).expect("the machine has a free port");
            let store = open(proxy.port()).await;
            behind.push((Arc::new(proxy), store));
        }
        Self { server: Arc::new(server), store, processes: behind }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    pub(crate) fn store_of(&self, process: usize) -> Option<Arc<dyn Store>> {
        self.processes.get(process).map(|(_, store)| store.clone())
    }

    /// Injures the network of a process for a while, in one of a few ways.
    pub(crate) fn cut(&self, process: usize, way: u64, length: Duration) {
        let Some((proxy, _)) = self.processes.get(process) else { return };
        let ways = INJURIES.len() as u64;
        INJURIES[usize::try_from(way % ways).unwrap_or(0)](proxy);
        let proxy = proxy.clone();
        tokio::spawn(async move {
            sleep(length).await;
            proxy.heal();
        });
    }

    /// Ends all injuries.
    pub(crate) fn heal(&self) {
        self.processes.iter().for_each(|(proxy, _)| proxy.heal());
    }

    /// The server crashes, and starts again.
    pub(crate) async fn restart(&self) {
        let server = self.server.clone();
        let restarted = spawn_blocking(move || server.restart(Stop::Immediate)).await;
        restarted.ok().and_then(Result::ok).expect("a server that crashed starts again");
    }
}

async fn open(port: u16) -> Arc<dyn Store> {
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    Arc::new(PostgresStore::open(&url).await.expect("a new server accepts a store"))
}
