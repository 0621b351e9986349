//! Commands that only read.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tidelock::Tidelock;
use tidelock::postgres::tokio_postgres::{self, NoTls};
use tidelock::scopes::ScopeKind;
use tidelock_test_stage::past;

use crate::harness::{PATIENCE, Shop, append, block, lease, told, wake};

on_files_and_postgres!(
    streams_are_listed_by_prefix_and_page,
    events_of_a_stream_are_shown_in_both_directions,
    the_feed_is_filtered_and_paged,
    following_shows_new_events_and_ends_on_an_interrupt,
    following_skips_nothing_while_many_append,
    work_items_are_shown_with_their_state,
    scopes_are_shown_by_kind_and_id,
);

fn orders(shop: &Shop) {
    shop.with(|store| async move {
        for nth in 1..=3 {
            append(&*store, &format!("order-{nth}"), "placed", &[json!({ "units": nth })]).await;
        }
        append(&*store, "order-2", "paid", &[json!(2), json!(3)]).await;
        append(&*store, "user-1", "seen", &[json!(null)]).await;
    });
}

fn streams_are_listed_by_prefix_and_page(shop: &Shop) {
    orders(shop);
    let table = shop.ok(&["streams"]);
    assert!(table.starts_with("STREAM "), "{table}");
    assert_eq!(table.lines().filter(|line| !past::left(line)).count(), 5, "{table}");
    let some = shop.run(&["streams", "order-", "--limit", "2", "--json"]);
    let names: Vec<_> =
        crate::harness::lines(&some.out).iter().map(|row| row["stream"].clone()).collect();
    assert_eq!(names, ["order-1", "order-2"]);
    assert!(some.err.contains("--after order-2"), "{some:?}");
    let rest = shop.json(&["streams", "order-", "--after", "order-2"]);
    assert_eq!(rest.len(), 1);
    assert_eq!(
        (&rest[0]["stream"], &rest[0]["state"], &rest[0]["version"]),
        (&json!("order-3"), &json!("open"), &json!(1))
    );
    let none = shop.run(&["streams", "nothing-"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.contains("no such stream in"), "{none:?}");
}

fn events_of_a_stream_are_shown_in_both_directions(shop: &Shop) {
    orders(shop);
    let versions = |args: &[&str]| -> Vec<u64> {
        shop.json(&[&["events"], args].concat())
            .iter()
            .map(|event| event["version"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(versions(&["order-2"]), [1, 2, 3]);
    assert_eq!(versions(&["order-2", "--backward", "--limit", "2"]), [3, 2]);
    assert_eq!(versions(&["order-2", "--from", "2"]), [2, 3]);
    assert_eq!(versions(&["order-2", "--type", "paid"]), [2, 3]);
    let table = shop.ok(&["events", "order-2"]);
    assert!(table.contains("placed") && table.contains("{\"units\":2}"), "{table}");
    let absent = shop.run(&["events", "order-9"]);
    assert_eq!(absent.code, 4, "{absent:?}");
    assert!(absent.err.contains("stream \"order-9\" does not exist"), "{absent:?}");
}

fn the_feed_is_filtered_and_paged(shop: &Shop) {
    let start = shop.end();
    orders(shop);
    let feed = shop.json(&["events", "--all"]);
    assert_eq!(feed.len(), 6);
    let third = feed[2]["position"].to_string();
    assert_eq!(shop.json(&["events", "--after", &third]), feed[3..]);
    assert_eq!(shop.json(&["events", "--type", "paid", "--prefix", "order-"]).len(), 2);
    assert_eq!(shop.json(&["events", "--prefix", "user-"]).len(), 1);
    let page = shop.run(&["events", "--after", &start, "--limit", "3"]);
    assert!(page.err.contains(&format!("--after {third}")), "{page:?}");
    assert_eq!(shop.run(&["events", "--backward"]).code, 2);
}

/// The number of writers, and of appends by each.
const APPENDING: (usize, usize) = (6, 120);

/// CMD-4. Concurrent appends, each through its own handle; on PostgreSQL, one transaction got its
/// position before all others and commits after them.
fn following_skips_nothing_while_many_append(shop: &Shop) {
    shop.ok(&["migrate"]);
    let mut follow = shop.spawn(&["events", "--follow", "--after", "0", "--json"]);
    shop.with(|store| async move {
        append(&*store, "first", "placed", &[json!(1)]).await;
        let late = Late::begin(&shop.url).await;
        let appending: Vec<_> = (0..APPENDING.0)
            .map(|nth| {
                let url = shop.url.clone();
                tokio::spawn(async move {
                    let store = tidelock::open(&url).await.unwrap();
                    for n in 0..APPENDING.1 {
                        let stream = format!("order-{}", (nth + n) % 4);
                        append(&*store, &stream, "placed", &[json!([nth, n]), json!("again")])
                            .await;
                    }
                    store.close().await.unwrap();
                })
            })
            .collect();
        for appending in appending {
            appending.await.unwrap();
        }
        late.end().await;
        append(&*store, "last", "placed", &[json!(1)]).await;
    });
    let all = shop.with(|store| async move { crate::everything::facts(&*store).await });
    let is_late = usize::from(!shop.url.starts_with("sqlite:"));
    let new = all.iter().filter(|fact| !past::left(fact[1].as_str().unwrap())).count();
    assert_eq!(new, 2 * APPENDING.0 * APPENDING.1 + 2 + is_late);
    let (out, (line, lines)) =
        (BufReader::new(follow.stdout.take().unwrap()), std::sync::mpsc::channel());
    let reading = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).try_for_each(|text| line.send(text))
    });
    let shown: Vec<Value> = (0..all.len())
        .map_while(|_| lines.recv_timeout(PATIENCE).ok())
        .map(|text| serde_json::from_str(&text).unwrap())
        .collect();
    follow.kill().unwrap();
    follow.wait().unwrap();
    drop(lines);
    // The rest of its output does not matter.
    let _unsaid = reading.join().unwrap();
    let ids =
        |events: &[Value], id: &dyn Fn(&Value) -> Value| events.iter().map(id).collect::<Vec<_>>();
    assert!(
        ids(&shown, &|row| row["id"].clone()) == ids(&all, &|fact| fact[0].clone()),
        "each once, in the order of the feed"
    );
}

/// A PostgreSQL transaction that stays open while others commit; on a file there is no such thing.
struct Late(Option<tokio_postgres::Client>);

impl Late {
    async fn begin(url: &str) -> Self {
        let Some((server, schema)) = url.split_once("?schema=") else { return Self(None) };
        let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        let append =
            format!("{schema}.append_one('late', -1, gen_random_uuid(), 'placed', '1', '{{}}')");
        client.batch_execute(&format!("BEGIN; SELECT {append}")).await.unwrap();
        Self(Some(client))
    }

    async fn end(self) {
        if let Some(client) = self.0 {
            client.batch_execute("COMMIT").await.unwrap();
        }
    }
}

/// CMD-3.
fn following_shows_new_events_and_ends_on_an_interrupt(shop: &Shop) {
    let start = shop.end();
    orders(shop);
    let mut all = shop.spawn(&["events", "--follow", "--after", &start, "--json"]);
    let mut lines = BufReader::new(all.stdout.take().unwrap()).lines();
    let mut next = || lines.next().expect("it goes on").unwrap();
    for _ in 0..6 {
        next();
    }
    shop.with(|store| async move { append(&*store, "order-9", "placed", &[json!("late")]).await });
    assert!(next().contains("\"late\""), "what comes later is shown");
    kill(Pid::from_raw(all.id() as i32), Signal::SIGINT).unwrap();
    assert!(lines.next().is_none(), "nothing more");
    let ended = told(&all.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

fn work_items_are_shown_with_their_state(shop: &Shop) {
    shop.with(|store| async move {
        block(&*store, "mail", "a", "no address").await;
        wake(&*store, "mail", "b", 5).await;
        lease(&*store, "mail", PATIENCE).await;
        wake(&*store, "mail", "c", 1).await;
        wake(&*store, "post", "d", 1).await;
        lease(&*store, "post", Duration::from_micros(1)).await;
    });
    let states = |args: &[&str]| -> Vec<String> {
        let items = shop.json(&[&["leases"], args].concat());
        items
            .iter()
            .filter(|item| !past::left_item(item))
            .map(|item| {
                format!("{}:{}", item["key"].as_str().unwrap(), item["state"].as_str().unwrap())
            })
            .collect()
    };
    assert_eq!(states(&[]), ["a:blocked", "b:held", "c:due", "d:expired"]);
    assert_eq!(states(&["--queue", "ma*"]), ["a:blocked", "b:held", "c:due"]);
    assert_eq!(states(&["--state", "blocked", "--state", "expired"]), ["a:blocked", "d:expired"]);
    assert_eq!(states(&["--after", "mail", "b"]), ["c:due", "d:expired"]);
    let table = shop.ok(&["leases"]);
    assert!(table.contains("no address") && table.contains("worker-7"), "{table}");
}

fn scopes_are_shown_by_kind_and_id(shop: &Shop) {
    shop.with(|store| async move {
        let tidelock = Tidelock::over(store);
        for (kind, id) in
            [(ScopeKind::USER, "joe"), (ScopeKind::USER, "ann"), (ScopeKind::SESSION, "7/8")]
        {
            tidelock.scope::<Value>(kind, id).set(&json!({ "seen": id })).await.unwrap();
        }
    });
    let ids = |args: &[&str]| -> Vec<Value> {
        shop.json(&[&["scopes"], args].concat()).iter().map(|scope| scope["id"].clone()).collect()
    };
    assert_eq!(ids(&[]), ["7/8", "ann", "joe"]);
    assert_eq!(ids(&["user", "j"]), ["joe"]);
    assert!(shop.ok(&["scopes", "session"]).contains("{\"seen\":\"7/8\"}"));
}

#[test]
fn the_environment_names_the_store_and_color_is_for_terminals() {
    let shop = Shop::sqlite();
    orders(&shop);
    let mut command = crate::harness::bare(&["streams"]);
    let said = crate::harness::said({
        command.env("TIDELOCK_STORE", &shop.url);
        command
    });
    assert_eq!(said.out, shop.ok(&["streams"]));
    assert!(!said.out.contains('\x1b'), "{}", said.out);
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let said = crate::harness::said(crate::harness::bare(&["completions", shell]));
        assert!(said.code == 0 && said.out.contains("prioritize"), "{shell}: {}", said.err);
    }
}
