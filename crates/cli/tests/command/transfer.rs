//! Export and import of a whole store.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::postgres::tokio_postgres::{self, NoTls};
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, ItemQuery, ItemRef, LeaseRequest, NewEvent, QueueName, RecordKey, RecordWrite,
    Settlement, Store, StreamName, Wake, WorkerName,
};
use tidelock_test_stage::past;

use crate::everything::{facts, fill, rest};
use crate::harness::{PATIENCE, Shop, append, block, counted, lease, mail, said, wake};

on_files_and_postgres!(
    a_store_is_moved_completely,
    a_killed_import_continues,
    overdue_items_keep_their_order_and_their_times,
    an_import_does_not_overwrite_items,
    an_import_does_not_overwrite_records,
    reactions_continue_where_they_were,
    reactions_rebuild,
    dropped_reactions_start_as_new_ones,
);

/// CMD-6.
fn a_store_is_moved_completely(shop: &Shop) {
    shop.with(|store| async move { fill(&*store).await });
    let (other, file) = (shop.another(), shop.path("all.jsonl"));
    let exported = shop.run(&["export", &file]);
    assert_eq!((exported.code, exported.out.as_str()), (0, ""), "{exported:?}");
    let (events, (_, records, items)) =
        shop.with(|store| async move { (facts(&*store).await, rest(&*store).await) });
    let all = events.len();
    let whole =
        format!("exported {all} events, {} records and {} work items", records.len(), items.len());
    assert_eq!(events.iter().filter(|event| !is_past(event)).count(), 83);
    assert_eq!(records.keys().filter(|key| !key.starts_with('~') && !past::left(key)).count(), 2);
    assert!(exported.err.contains(&whole), "{exported:?}");
    let dry = other.run(&["import", &file, "--reactions", "continue", "--dry-run"]);
    assert!(dry.code == 0 && dry.err.contains(&format!("{all} events")), "{dry:?}");
    other.ok(&["import", &file, "--reactions", "continue"]);
    let (before, rest_before) =
        shop.with(|store| async move { (facts(&*store).await, rest(&*store).await) });
    let (after, rest_after) =
        other.with(|store| async move { (facts(&*store).await, rest(&*store).await) });
    assert_eq!(after, before);
    assert_eq!(rest_after.0, rest_before.0);
    assert_eq!(rest_after.1, rest_before.1);
    assert_eq!(rest_after.2, rest_before.2);
    let again = other.run(&["import", &file, "--reactions", "continue"]);
    assert!(again.code == 0 && again.err.contains("already imported"), "{again:?}");
    let second = shop.path("again.jsonl");
    other.ok(&["export", &second]);
    let without_ids = |path: &str| -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        crate::harness::lines(&text)
            .into_iter()
            .filter(|line| line.get("closed").is_some() || line.get("trimmed").is_some())
            .collect()
    };
    assert_eq!(without_ids(&second), without_ids(&file));
}

/// The number of events that the killed import moves.
const MANY: usize = 6_000;

/// CMD-6.
fn a_killed_import_continues(shop: &Shop) {
    shop.with(|store| async move {
        for nth in 0..MANY / 100 {
            let commit = (0..10).fold(Commit::new(), |commit, part| {
                let stream = StreamName::new(format!("order-{}", (nth * 3 + part) % 50)).unwrap();
                let events = (0..10).map(|n| {
                    NewEvent::of("placed", &json!({ "n": n, "text": "x".repeat(50) })).unwrap()
                });
                commit.append(&stream, ExpectedVersion::Any, events)
            });
            store.commit(commit).await.unwrap().committed().unwrap();
        }
    });
    let (other, file) = (shop.another(), shop.path("all.jsonl"));
    shop.ok(&["export", &file]);
    // The tables first, so that there is something to read during the import.
    other.ok(&["migrate"]);
    let mut kills = 0;
    for least in [1, 2_000] {
        let mut import = other.spawn(&["import", &file, "--reactions", "continue"]);
        other.with(|store| async move {
            tidelock_test_stage::until("some of it is there", async || {
                some_are_there(&*store, least).await
            })
            .await;
        });
        kills += i32::from(import.try_wait().unwrap().is_none());
        import.kill().unwrap();
        import.wait().unwrap();
    }
    assert!(kills > 0, "none was killed in the middle");
    other.ok(&["import", &file, "--reactions", "continue"]);
    let before = shop.with(|store| async move { facts(&*store).await });
    let after = other.with(|store| async move { facts(&*store).await });
    assert_eq!(before.iter().filter(|event| !is_past(event)).count(), MANY);
    assert!(after == before, "every event is there once, in order");
}

/// Whether this event is from the store's earlier history.
fn is_past(event: &Value) -> bool {
    past::left(event[1].as_str().unwrap())
}

async fn some_are_there(store: &dyn Store, least: usize) -> bool {
    facts(store).await.len() >= least
}

/// The number of overdue items, and of commits that made them so.
const BACKLOG: (usize, usize) = (5_000, 50);

/// CMD-6. Schedule 117. The keys are in the opposite order of the due times, and some items were
/// retried.
fn overdue_items_keep_their_order_and_their_times(shop: &Shop) {
    shop.with(|store| async move {
        for commit in 0..BACKLOG.1 {
            let size = BACKLOG.0 / BACKLOG.1;
            let wakes = (0..size)
                .map(|nth| format!("{:05}", BACKLOG.0 - commit * size - nth))
                .map(|key| Wake::at(ItemRef::parse("mail", &key).unwrap(), tidelock::When::NOW));
            let wakes = wakes.fold(Commit::new(), Commit::wake);
            store.commit(wakes).await.unwrap().committed().unwrap();
            let tried = lease(&*store, "mail", PATIENCE).await;
            let retry = Settlement::retry(tried.token(), Duration::from_micros(1), "no route");
            store.commit(Commit::new().settle(retry)).await.unwrap().committed().unwrap();
        }
    });
    let (other, file) = (shop.another(), shop.path("all.jsonl"));
    shop.ok(&["export", &file]);
    other.ok(&["import", &file, "--reactions", "continue"]);
    let backlog = |shop: &Shop| {
        shop.with(|store| async move { (waiting(&*store).await, taken(&*store).await) })
    };
    let ((before, first), (after, then)) = (backlog(shop), backlog(&other));
    assert_eq!((before.len(), first.len()), (BACKLOG.0, BACKLOG.0));
    assert!(first.windows(2).any(|pair| pair[0] > pair[1]), "the order is not that of the keys");
    assert!(before == after, "due times, holds and counts are the same");
    assert!(first == then, "and so is the order in which they are taken");
}

/// The items of the queue, with times and counts.
async fn waiting(store: &dyn Store) -> Vec<Value> {
    let (mut query, mut found) =
        (ItemQuery::new(tidelock::store::ItemFilter::queue("mail")), Vec::new());
    loop {
        let page = store.items(query.clone()).await.unwrap();
        found.extend(page.items.iter().map(|item| {
            json!([item.item.key, item.due, item.hold, item.attempts, item.failures, item.error])
        }));
        match page.next {
            Some(next) => query = query.after(next),
            None => return found,
        }
    }
}

/// The keys of the queue in the order in which a worker leases them.
async fn taken(store: &dyn Store) -> Vec<String> {
    let (queue, worker) = (QueueName::new("mail").unwrap(), WorkerName::new("w").unwrap());
    let mut taken = Vec::new();
    loop {
        let leases =
            store.lease(LeaseRequest::new(&queue, &worker, PATIENCE, 1_000)).await.unwrap().leases;
        if leases.is_empty() {
            return taken;
        }
        taken.extend(leases.into_iter().map(|lease| lease.item.key.to_string()));
    }
}

/// CMD-6.
fn an_import_does_not_overwrite_items(shop: &Shop) {
    let (other, file) = (shop.another(), shop.path("all.jsonl"));
    shop.with(|store| async move { wake(&*store, "mail", "a", 1).await });
    shop.ok(&["export", &file]);
    other.ok(&["migrate"]);
    other.with(|store| async move { block(&*store, "mail", "a", "no address").await });
    let before = other.json(&["leases"]);
    let refused = other.run(&["import", &file, "--reactions", "continue"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("item \"a\" of queue \"mail\": expected no item"), "{refused:?}");
    assert_eq!(other.json(&["leases"]), before);
}

/// CMD-6.
fn an_import_does_not_overwrite_records(shop: &Shop) {
    let (other, file) = (shop.another(), shop.path("all.jsonl"));
    shop.with(|store| async move { count(&*store, "sold/tea", 1).await });
    shop.ok(&["export", &file]);
    other.ok(&["migrate"]);
    other.with(|store| async move { count(&*store, "sold/tea", 7).await });
    let refused = other.run(&["import", &file, "--reactions", "continue"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("sold/tea"), "{refused:?}");
    let kept = other.with(|store| async move { counted(&*store, "sold/tea").await });
    assert_eq!(kept, 7);
}

async fn count(store: &dyn Store, key: &str, by: i64) {
    let add = RecordWrite::add(&RecordKey::new(key).unwrap(), by, Bounds::NONE);
    store.commit(Commit::new().write(add)).await.unwrap().committed().unwrap();
}

/// A store with reactions, and its copy in another store.
fn moved(shop: &Shop, then: &str) -> Shop {
    shop.with(|store| async move {
        // Positions of the two stores must not be equal by chance.
        append(&*store, "other", "noted", &[json!(1), json!(2), json!(3)]).await;
        append(&*store, "order-1", "placed", &[json!("north"), json!("south")]).await;
        append(&*store, "order-2", "placed", &[json!("nowhere"), json!("south")]).await;
        mail(&store, 4).await;
    });
    let (other, file) = (shop.another(), shop.path("all.jsonl"));
    other.with(|store| async move { append(&*store, "there before", "noted", &[json!(1)]).await });
    shop.ok(&["export", &file]);
    other.ok(&["import", &file, "--reactions", then]);
    other
}

/// How often orders were mailed, and how many per town, after one more order.
fn after_one_more(shop: &Shop, events: u64) -> [i64; 4] {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("north")]).await;
        mail(&store, events).await;
        let mut counts = [0; 4];
        for (count, key) in
            counts.iter_mut().zip(["mailed/order-1", "mailed/order-2", "tour/north", "tour/south"])
        {
            *count = counted(&*store, key).await;
        }
        counts
    })
}

/// CMD-6. Schedule 97.
fn reactions_continue_where_they_were(shop: &Shop) {
    let other = moved(shop, "continue");
    let unrouted = |shop: &Shop| shop.json(&["reactions", "tour", "--blocked"]).len();
    assert_eq!((unrouted(shop), unrouted(&other)), (1, 1), "what has no route is known there too");
    assert_eq!(after_one_more(&other, 5), [3, 2, 2, 2], "each order is handled once");
    let event = other.json(&["reactions", "tour", "--blocked"]);
    let position = event[0]["mark"].as_u64().unwrap() - 1;
    let it = other.json(&["events", "--after", &position.to_string(), "--limit", "1"]);
    assert_eq!(it[0]["payload"], json!("nowhere"), "and it is the same event");
}

/// CMD-6. Schedule 97.
fn reactions_rebuild(shop: &Shop) {
    let other = moved(shop, "rebuild");
    assert_eq!(
        after_one_more(&other, 5),
        [5, 4, 3, 4],
        "each order is handled again, and the new one once"
    );
}

/// CMD-6. Schedule 97.
fn dropped_reactions_start_as_new_ones(shop: &Shop) {
    let other = moved(shop, "none");
    assert_eq!(other.json(&["reactions"]).len(), 0);
    assert_eq!(after_one_more(&other, 5), [5, 4, 3, 4]);
}

#[test]
fn the_option_for_reactions_is_required() {
    let said = said(crate::harness::bare(&["import", "all.jsonl"]));
    assert_eq!(said.code, 2);
    assert!(said.err.contains("--reactions"), "{said:?}");
}

#[test]
fn a_store_is_moved_through_a_pipe() {
    let (shop, other) = (Shop::sqlite(), Shop::sqlite());
    shop.with(|store| async move { fill(&*store).await });
    let mut export = shop.spawn(&["export", "-"]);
    let mut import = other.command(&["import", "-", "--reactions", "none"]);
    import.stdin(export.stdout.take().unwrap());
    assert_eq!(said(import).code, 0);
    assert!(export.wait().unwrap().success());
    assert_eq!(other.json(&["events", "--all"]).len(), 83);
    let nothing = other.run(&["import", "-", "--reactions", "none"]);
    assert!(
        nothing.err.contains("\"standard input\" cannot be imported: it is empty"),
        "{nothing:?}"
    );
}

/// A feed that is held back shows less than the streams have.
#[test]
fn an_export_reports_a_transaction_that_holds_back_events() {
    let shop = Shop::postgres();
    let (url, file) = (shop.url.clone(), shop.path("all.jsonl"));
    let (server, schema) = shop.url.split_once("?schema=").unwrap();
    let stay = format!(
        "BEGIN; SELECT {schema}.append_one('slow', -1, gen_random_uuid(), 'placed', '1', '{{}}')"
    );
    let exported = shop.with(|store| async move {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&stay).await.unwrap();
        append(&*store, "order-1", "placed", &[json!(1)]).await;
        said(crate::harness::bare(&["export", &file, "--store", &url]))
    });
    assert_eq!(exported.code, 1, "{exported:?}");
    assert!(
        exported.err.contains("exported 0 events") && exported.err.contains("was in use"),
        "{exported:?}"
    );
}

/// CMD-6.
#[test]
fn a_damaged_file_is_refused_before_anything_is_written() {
    let (shop, other) = (Shop::sqlite(), Shop::sqlite());
    shop.with(
        |store| async move { append(&*store, "order-1", "placed", &[json!(1), json!(2)]).await },
    );
    let file = shop.path("all.jsonl");
    shop.ok(&["export", &file]);
    let whole = fs::read_to_string(&file).unwrap();
    let cut = whole.rfind("{\"end\"").unwrap();
    for (text, why) in [
        (&whole[..cut], "truncated"),
        (&whole[..whole.len() - 20], "middle of a line"),
        (&whole.replace("\"payload\":1", "\"payload\":7"), "checksum"),
        (&whole.replace("\"format\":1", "\"format\":99"), "format 99"),
        (&format!("{whole}{{}}\n"), "after its last line"),
        ("", "empty"),
        ("hello\n", "first line"),
    ] {
        fs::write(&file, text).unwrap();
        let refused = other.run(&["import", &file, "--reactions", "none"]);
        assert!(refused.code != 0 && refused.err.contains(why), "{why}: {refused:?}");
        assert!(!Path::new(&other.path("shop.db")).exists(), "{why}");
    }
}

#[test]
fn an_import_does_not_overwrite_streams() {
    let (shop, other) = (Shop::sqlite(), Shop::sqlite());
    for shop in [&shop, &other] {
        shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!(1)]).await });
    }
    let file = shop.path("all.jsonl");
    shop.ok(&["export", &file]);
    let refused = other.run(&["import", &file, "--reactions", "continue"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.err.contains("stream \"order-1\": expected no stream, found version 1"),
        "{refused:?}"
    );
    assert_eq!(shop.run(&["export", &file]).code, 4, "nor does an export");
    shop.ok(&["export", &file, "--overwrite"]);
    other.another().ok(&["import", &file, "--reactions", "none", "--dry-run"]);
}

/// CMD-9. A store's own files, under any of their names, whether they exist or not.
#[test]
fn nothing_is_written_over_the_store_itself() {
    let shop = Shop::sqlite();
    shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!(1)]).await });
    let hard = shop.path("hard-link");
    fs::hard_link(shop.path("shop.db"), &hard).unwrap();
    let mut own: Vec<String> = ["", "-wal", "-shm", "-journal"]
        .iter()
        .map(|end| shop.path(&format!("shop.db{end}")))
        .collect();
    own.push(hard);
    for path in &own {
        let archive = ["close", "order-1", "--archive", path, "--yes"];
        for args in [&["export", path, "--overwrite"][..], &archive] {
            let refused = shop.run(args);
            assert_eq!(refused.code, 4, "{args:?}: {refused:?}");
            assert!(refused.err.contains("of the store"), "{refused:?}");
        }
    }
    let streams = shop.json(&["streams"]);
    assert_eq!((&streams[0]["stream"], &streams[0]["version"]), (&json!("order-1"), &json!(1)));
}

/// CMD-9. A link is neither followed nor replaced, nor is anything else but a regular file; a file
/// is replaced atomically.
#[test]
fn an_export_replaces_regular_files_only() {
    let shop = Shop::sqlite();
    shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!(1)]).await });
    let [target, link, fifo, socket, folder, dangling] =
        ["target", "link", "fifo", "socket", "folder", "dangling"].map(|name| shop.path(name));
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    symlink(shop.path("nowhere"), &dangling).unwrap();
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _bound = UnixListener::bind(&socket).unwrap();
    fs::create_dir(&folder).unwrap();
    for path in [&link, &fifo, &socket, &folder, &dangling] {
        let kind = |path: &str| fs::symlink_metadata(path).unwrap().file_type();
        let before = kind(path);
        let archive = ["close", "order-1", "--archive", path, "--yes"];
        for args in [&["export", path][..], &["export", path, "--overwrite"], &archive] {
            let refused = shop.run(args);
            assert_eq!(refused.code, 4, "{args:?}: {refused:?}");
            assert!(
                refused.err.contains(path.as_str()) && refused.err.contains("try: "),
                "{refused:?}"
            );
        }
        assert_eq!(kind(path), before, "{path}");
    }
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    let written = fs::metadata(&target).unwrap().ino();
    shop.ok(&["export", &target, "--overwrite"]);
    assert_ne!(
        fs::metadata(&target).unwrap().ino(),
        written,
        "it is another file, put in the place of the first"
    );
    let names: Vec<_> =
        fs::read_dir(shop.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let left = names.iter().filter(|name| name.to_string_lossy().contains("partial")).count();
    assert_eq!(left, 0, "{names:?}");
}
