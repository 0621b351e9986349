//! Schedule 71, COMMIT-5: the power fails, at any moment, and what was acknowledged is there
//! afterwards.
//!
//! Acknowledgements are written to a file on the same disk, so that the shim's journal shows which
//! came before which flush. The other test runs writers that promise too much through the same
//! machinery, which must detect them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tidelock_store::{
    Commit, CommitId, CommitOutcome, ExpectedRevision, ExpectedVersion, HeadQuery, NewEvent,
    RawJson, RecordKey, RecordWrite, Store, StoreExt, StreamName, Version,
};
use tidelock_store_sqlite::SqliteStore;
use tidelock_test_disk::{Chance, Disk, Happening};

use crate::dice::Dice;
use crate::shim::Shim;
use crate::worker::Part;
use crate::{block_on, integrity, open};

const TASKS: u64 = 8;
/// Enough that the log is checkpointed and restarts in the meantime.
const COMMITS: u64 = 60;
const PAYLOAD: usize = 20_000;
/// How many times the power fails.
const LOSSES: usize = 80;

pub(crate) fn what_was_acknowledged_survives_a_loss_of_power() {
    let mut dice = Dice::for_test("what_was_acknowledged_survives_a_loss_of_power");
    let shim = Shim::new();
    shim.start("committer", &[]).finish();
    let happenings = shim.happenings();
    let restarted = happenings.iter().filter(|(path, happening)| {
        path.ends_with("store.db-wal") && matches!(happening, Happening::Write { offset: 0, .. })
    });
    assert!(restarted.count() > 1, "the log never restarted: too little was written");

    let acknowledged = check_losses(&happenings, &mut dice);
    assert_eq!(acknowledged.values().sum::<u64>(), TASKS * COMMITS);
}

impl Chance for Dice {
    fn below(&mut self, end: u64) -> u64 {
        Self::below(self, end)
    }

    fn one_in(&mut self, times: u64) -> bool {
        Self::one_in(self, times)
    }
}

/// Lets the power fail many times; what was acknowledged by then must be there. Returns what was
/// acknowledged in the end.
pub(crate) fn check_losses(
    happenings: &[(PathBuf, Happening)],
    dice: &mut Dice,
) -> BTreeMap<u64, u64> {
    let mut at_stake = 0;
    let acknowledged = lose_power_often(happenings, dice, |folder, acknowledged| {
        let path = folder.join("store.db");
        if acknowledged.is_empty() && !fs::exists(&path).unwrap() {
            return;
        }
        let store = open(&path);
        block_on(async {
            for (task, number) in acknowledged {
                let found = committed(&store, *task).await;
                assert!(
                    found >= *number,
                    "task {task}: {number} were acknowledged, {found} are there"
                );
            }
        });
        drop(store);
        assert_eq!(integrity(&path), "ok");
        at_stake += usize::from(!acknowledged.is_empty());
    });
    println!("{LOSSES} losses of power, {at_stake} with something at stake");
    assert!(at_stake > LOSSES / 2, "there was hardly ever anything to lose");
    acknowledged
}

/// The positive control: neither of these modes flushes before it acknowledges.
pub(crate) fn a_careless_writer_is_found_out() {
    let mut dice = Dice::for_test("a_careless_writer_is_found_out");
    for mode in ["NORMAL", "OFF"] {
        let shim = Shim::new();
        shim.start("careless", &[&mode]).finish();
        let mut found_out = 0;
        lose_power_often(&shim.happenings(), &mut dice, |folder, acknowledged| {
            let count = |connection: Connection| {
                connection.query_row("SELECT count(*) FROM deeds", [], |row| row.get::<_, u32>(0))
            };
            // A file that cannot be read has lost everything.
            let found = Connection::open(folder.join("store.db")).and_then(count).unwrap_or(0);
            found_out += usize::from(u64::from(found) < acknowledged.get(&0).copied().unwrap_or(0));
        });
        println!("synchronous = {mode}: found out in {found_out} of {LOSSES} losses of power");
        assert!(
            found_out > LOSSES / 4,
            "synchronous = {mode} was hardly ever found out: the disk is too kind"
        );
    }
}

/// Checks what the disk holds after power failures spread over the whole journal. Returns what was
/// acknowledged in the end.
fn lose_power_often(
    happenings: &[(PathBuf, Happening)],
    dice: &mut Dice,
    mut look: impl FnMut(&Path, &BTreeMap<u64, u64>),
) -> BTreeMap<u64, u64> {
    let mut moments: Vec<usize> =
        (0..LOSSES).map(|_| dice.below(happenings.len() as u64) as usize).collect();
    moments.push(happenings.len() - 1);
    moments.sort_unstable();
    let (mut disk, mut acknowledged) = (Disk::default(), BTreeMap::new());
    let mut moments = moments.into_iter().peekable();
    for (at, (path, happening)) in happenings.iter().enumerate() {
        match happening {
            Happening::Write { bytes, .. } if path.ends_with("acknowledged") => {
                let line = str::from_utf8(bytes).unwrap().trim_end();
                let (task, number) = line.split_once(' ').unwrap();
                acknowledged.insert(task.parse().unwrap(), number.parse().unwrap());
            }
            _ if path.ends_with("store.db-shm") => {}
            happening => disk.take(path, happening, dice),
        }
        while moments.next_if_eq(&at).is_some() {
            let folder = tempfile::tempdir().unwrap();
            disk.lose_power(folder.path(), dice).unwrap();
            look(folder.path(), &acknowledged);
        }
    }
    acknowledged
}

/// How many commits of a task are there; each is complete.
pub(crate) async fn committed(store: &SqliteStore, task: u64) -> u64 {
    let head =
        store.heads(HeadQuery::Named(vec![stream(task)])).await.unwrap().heads.pop().unwrap();
    let number = head.state.version().map_or(0, Version::get);
    let noted = store.get_one(&record(task)).await.unwrap();
    let noted = noted.live().map_or(0, |record| record.value.to().unwrap());
    assert_eq!(number, noted, "half a commit of task {task} is there");
    number
}

/// A commit of a task: an event, and its number in a record.
pub(crate) fn deed(task: u64, number: u64, bytes: usize) -> Commit {
    let event = NewEvent::of("done", &"x".repeat(bytes)).unwrap();
    Commit::new()
        .with_id(CommitId::fresh())
        .append(&stream(task), ExpectedVersion::Any, [event])
        .write(RecordWrite::put(
            &record(task),
            ExpectedRevision::Any,
            RawJson::new(&number).unwrap(),
        ))
}

/// Commits from several tasks at once and records what was acknowledged.
pub(crate) fn committer(part: &Part) {
    let store = open(part.argument(0));
    let acknowledged = Acknowledged::beside(part.argument(0));
    block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            tasks.spawn(commit_often(store.clone(), task, acknowledged.clone()));
        }
        tasks.join_all().await;
    });
}

async fn commit_often(store: SqliteStore, task: u64, acknowledged: Acknowledged) {
    for number in 1..=COMMITS {
        let outcome = store.commit(deed(task, number, PAYLOAD)).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)));
        acknowledged.note(task, number);
    }
}

/// Plain SQL in the given mode, a transaction per row.
pub(crate) fn careless(part: &Part) {
    let connection = Connection::open(part.argument(0)).unwrap();
    let mode = part.argument(2);
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    connection
        .execute_batch(&format!("PRAGMA synchronous = {mode}; CREATE TABLE deeds (n INTEGER)"))
        .unwrap();
    let acknowledged = Acknowledged::beside(part.argument(0));
    for number in 1..=100_u32 {
        connection.execute("INSERT INTO deeds VALUES (?1)", [number]).unwrap();
        acknowledged.note(0, number.into());
    }
}

/// The file of acknowledgements: a task and a number each.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged(Arc<Mutex<File>>);

impl Acknowledged {
    pub(crate) fn beside(store: &str) -> Self {
        let path = Path::new(store).with_file_name("acknowledged");
        Self(Arc::new(Mutex::new(OpenOptions::new().create(true).append(true).open(path).unwrap())))
    }

    pub(crate) fn note(&self, task: u64, number: u64) {
        self.0.lock().unwrap().write_all(format!("{task} {number}\n").as_bytes()).unwrap();
    }
}

fn stream(task: u64) -> StreamName {
    StreamName::new(format!("task-{task}")).unwrap()
}

fn record(task: u64) -> RecordKey {
    RecordKey::new(format!("task-{task}")).unwrap()
}
