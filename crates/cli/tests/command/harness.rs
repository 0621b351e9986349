//! A private store, the command on it, and its output.

use std::future::Future;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::store::{
    Bounds, Commit, ItemRef, LeaseRequest, Mark, NewEvent, QueueName, RecordKey, RecordWrite,
    Settlement, Store, StoreExt, StreamName, Wake, WorkerName,
};
use tidelock_test_stage::{past, stingy_seed};

/// Against hanging only.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A store, and a folder for files.
pub(crate) struct Shop {
    pub(crate) folder: TempDir,
    pub(crate) url: String,
    /// The seed of the smallest pages, if the command is to have them.
    stingy: Option<u64>,
    runtime: tokio::runtime::Runtime,
}

/// A command's output and exit code.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Makes three tests of each case: on a file, on PostgreSQL, and on a file with the smallest pages.
macro_rules! on_files_and_postgres {
    ($($case:ident),* $(,)?) => {
        mod sqlite {
            $(#[test] fn $case() { super::$case(&$crate::harness::Shop::sqlite()); })*
        }
        mod postgres {
            $(#[test] fn $case() { super::$case(&$crate::harness::Shop::postgres()); })*
        }
        mod stingy {
            $(#[test] fn $case() { super::$case(&$crate::harness::Shop::stingy()); })*
        }
    };
}

impl Shop {
    /// A file that does not exist yet, or one with history.
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        past::lay_file(&folder.path().join("shop.db"));
        let url = format!("sqlite:{}", folder.path().join("shop.db").display());
        Self::at(folder, url)
    }

    /// A file that does not exist yet, for a command that reads it in the smallest pages.
    pub(crate) fn stingy() -> Self {
        let seed = stingy_seed().unwrap_or_else(|| u64::from(std::process::id()));
        println!("small pages: TIDELOCK_STINGY={seed} plays them again");
        Self { stingy: Some(seed), ..Self::sqlite() }
    }

    /// A new schema on the tests' server, with its tables.
    pub(crate) fn postgres() -> Self {
        let shop = Self::at(tempfile::tempdir().unwrap(), another_schema(past::lay_schema));
        shop.ok(&["migrate"]);
        shop
    }

    /// The store of this URL.
    pub(crate) fn on(url: String) -> Self {
        Self::at(tempfile::tempdir().unwrap(), url)
    }

    fn at(folder: TempDir, url: String) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        Self { folder, url, stingy: stingy_seed(), runtime }
    }

    /// Another store of the same kind, which does not exist yet.
    pub(crate) fn another(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = match self.url.starts_with("sqlite:") {
            true => format!("sqlite:{}", folder.path().join("other.db").display()),
            false => another_schema(|_, _| {}),
        };
        Self { stingy: self.stingy, ..Self::at(folder, url) }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Uses the store as another program would.
    pub(crate) fn with<T, F: Future<Output = T>>(
        &self,
        work: impl FnOnce(Arc<dyn Store>) -> F,
    ) -> T {
        self.runtime.block_on(async {
            let store = tidelock::open(&self.url).await.unwrap();
            let done = tokio::time::timeout(PATIENCE, work(store.clone())).await.expect("it ends");
            store.close().await.unwrap();
            done
        })
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = match self.stingy {
            Some(seed) => stingy(args, seed),
            None => bare(args),
        };
        command.args(["--store", &self.url]);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        said(self.command(args))
    }

    /// Runs a command that succeeds, and returns its output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    }

    /// Runs a command with `--json`, and leaves out what earlier history left.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let mut rows = lines(&self.ok(&[args, &["--json"]].concat()));
        rows.retain(|row| {
            !["stream", "queue", "run"]
                .iter()
                .any(|name| row[name].as_str().is_some_and(past::left))
        });
        rows
    }

    /// The end of the feed, as an argument.
    pub(crate) fn end(&self) -> String {
        self.with(|store| async move { store.feed_end().await.unwrap().to_string() })
    }

    /// Starts a command in the background.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        command.spawn().expect("the binary was built with this test")
    }
}

fn another_schema(lay: impl FnOnce(&str, &str)) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let (url, nth) =
        (tidelock_test_postgres::shared_database().unwrap(), COUNT.fetch_add(1, Ordering::SeqCst));
    let schema = format!("cli_{}_{nth}", std::process::id());
    lay(&url, &schema);
    format!("{url}?schema={schema}")
}

/// The command, without the tests' environment.
pub(crate) fn bare(args: &[&str]) -> Command {
    alone(Path::new(env!("CARGO_BIN_EXE_tidelock")), args)
}

/// The command on stores with the smallest pages.
fn stingy(args: &[&str], seed: u64) -> Command {
    let program =
        Path::new(env!("CARGO_BIN_EXE_tidelock")).with_file_name("examples").join("stingy_command");
    assert!(program.exists(), "cargo build -p tidelock-cli --examples makes {program:?}");
    let mut command = alone(&program, args);
    command.env("TIDELOCK_STINGY", seed.to_string());
    command
}

fn alone(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_remove("NO_COLOR")
        .env_remove("TIDELOCK_STORE")
        .env_remove("DATABASE_URL")
        .env_remove("TIDELOCK_TOKENS")
        .stdin(Stdio::null());
    command
}

pub(crate) fn said(mut command: Command) -> Said {
    told(&command.output().expect("the binary was built with this test"))
}

pub(crate) fn told(output: &Output) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?}: {e}")))
        .collect()
}

/// Appends events of this type.
pub(crate) async fn append(store: &dyn Store, stream: &str, event_type: &str, payloads: &[Value]) {
    let events =
        payloads.iter().map(|payload| NewEvent::of(event_type, payload).unwrap()).collect();
    let stream = StreamName::new(stream).unwrap();
    store.append(&stream, ExpectedVersion::Any, events).await.unwrap().committed().unwrap();
}

/// Enqueues an item.
pub(crate) async fn wake(store: &dyn Store, queue: &str, key: &str, mark: u64) {
    let wake = Wake::to_mark(ItemRef::parse(queue, key).unwrap(), Mark::new(mark).unwrap());
    store.commit(Commit::new().wake(wake)).await.unwrap().committed().unwrap();
}

/// Leases an item of a queue.
pub(crate) async fn lease(
    store: &dyn Store,
    queue: &str,
    duration: Duration,
) -> tidelock::store::Lease {
    let (queue, worker) = (QueueName::new(queue).unwrap(), WorkerName::new("worker-7").unwrap());
    let leased = store.lease(LeaseRequest::new(&queue, &worker, duration, 1)).await.unwrap();
    leased.leases.into_iter().next().expect("something is due")
}

/// Creates an item that is blocked with this error.
pub(crate) async fn block(store: &dyn Store, queue: &str, key: &str, error: &str) {
    wake(store, queue, key, 3).await;
    let lease = lease(store, queue, PATIENCE).await;
    let settled = Commit::new()
        .settle(Settlement::block(lease.token(), error).having_done(Mark::new(1).unwrap()));
    store.commit(settled).await.unwrap().committed().unwrap();
}

/// The shop's program: mails each order once, and fails on one without an address.
pub(crate) fn mailing(tidelock: &Tidelock) -> tidelock::AppBuilder {
    let app = tidelock.app().worker(tidelock_test_stage::brisk("mailer"));
    let app = app.reaction(
        "mail",
        on_any().in_streams("order-"),
        |order: tidelock::store::StoredEvent, ctx: ReactionCtx| async move {
            if order.payload.as_str().contains("poison") {
                return Err(HandlerError::fatal("an order without an address"));
            }
            let key = RecordKey::new(format!("mailed/{}", order.stream))?;
            ctx.write(RecordWrite::add(&key, 1, Bounds::NONE))?;
            Ok(())
        },
    );
    let by_town = on_any().in_streams("order-").to(|order: &tidelock::store::StoredEvent| {
        match order.payload.as_str() {
            text if text.contains("nowhere") => Err(HandlerError::fatal("there is no such town")),
            text => Ok(if text.contains("north") { "north" } else { "south" }.to_owned()),
        }
    });
    app.reaction("tour", by_town, |_: tidelock::store::StoredEvent, ctx: ReactionCtx| async move {
        let key = RecordKey::new(format!("tour/{}", ctx.target()))?;
        ctx.write(RecordWrite::add(&key, 1, Bounds::NONE))?;
        Ok(())
    })
}

/// Runs the program until it has handled so many events as far as possible.
pub(crate) async fn mail(store: &Arc<dyn Store>, events: u64) {
    let tidelock = Tidelock::over(store.clone());
    let running = tidelock_test_stage::Running::start(mailing(&tidelock));
    tidelock_test_stage::until("every order is mailed or blocked", async || {
        let targets = tidelock.reactions().list(&ReactionFilter::all()).all().await.unwrap();
        let (mail, tour): (Vec<_>, Vec<_>) =
            targets.into_iter().partition(|target| target.reaction == "mail");
        let reached =
            |target: &tidelock::reactions::TargetInfo| target.blocked || target.lag() == 0;
        let mailed: u64 = mail.iter().map(|target| target.mark.get()).sum();
        let toured: u64 =
            tour.iter().map(|target| if target.unrouted { 1 } else { target.mark.get() }).sum();
        mailed >= events && toured >= events && mail.iter().chain(&tour).all(reached)
    })
    .await;
    running.stop().await;
}

/// The counter under a key.
pub(crate) async fn counted(store: &dyn Store, key: &str) -> i64 {
    let slot = store.get_one(&RecordKey::new(key).unwrap()).await.unwrap();
    slot.live().map_or(0, |record| record.value.to().unwrap())
}
