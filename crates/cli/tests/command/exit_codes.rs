//! The exit codes of the guide: each is given by what the guide says of it, and by nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;
use tidelock::prelude::*;

use crate::harness::{Shop, append, bare, block, said};

/// A store with something that is blocked, a run and a stream.
fn stock(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!(1)]).await;
        block(&*store, "post", "a", "no address").await;
        let tidelock = Tidelock::over(store);
        tidelock.start("checkout", "checkout-1", &json!(7)).version(1).await.unwrap();
    });
}

/// Commands on that store.
const ON_A_STORE: &[(i32, &[&str])] = &[
    (0, &["streams"]),
    (0, &["streams", "nothing-begins-like-this"]),
    (0, &["jobs", "--queue", "nothing-is-called-this"]),
    (0, &["unblock", "--queue", "post", "--dry-run"]),
    (0, &["migrate", "--check"]),
    (1, &["doctor"]),
    (1, &["export", "no-such-folder/shop.jsonl"]),
    (1, &["import", "no-such-file.jsonl", "--reactions", "none"]),
    (1, &["serve", "--tokens", "no-such-file", "--listen", "127.0.0.1:0"]),
    (2, &["streams", "--limit", "none"]),
    (2, &["streams", "--lmit", "1"]),
    (2, &["straems"]),
    (2, &["reset", "--queue", "post"]),
    (2, &["prioritize", "1000", "--queue", "post"]),
    (4, &["events", "order-2"]),
    (4, &["events", "--after", "999999"]),
    (4, &["runs", "checkout-2"]),
    (4, &["signal", "checkout-2", "approved"]),
    (4, &["unblock", "--queue", "pst"]),
    (4, &["retry", "checkout-1"]),
    (4, &["release", "lock/nope"]),
];

/// CMD-3.
fn a_command_ends_with_the_documented_code(shop: &Shop) {
    stock(shop);
    for (code, args) in ON_A_STORE {
        let ended = shop.run(args);
        assert_eq!(ended.code, *code, "{args:?}: {ended:?}");
    }
}

/// CMD-3. Where there is no store: a URL that makes no sense is the caller's mistake, a place where
/// there is nothing is not.
fn without_a_store_the_code_says_whose_mistake_it_is(shop: &Shop) {
    stock(shop);
    let cases = match shop.url.starts_with("sqlite:") {
        true => files(shop),
        false => databases(shop),
    };
    for (code, url, says) in cases {
        for args in [&["streams"][..], &["doctor"], &["migrate"], &["export", "-"]] {
            // That a file is missing is no failure of the command that creates it.
            if args == ["migrate"] && says == "no file" {
                continue;
            }
            let ended = said(bare(&[args, &["--store", &url]].concat()));
            assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{args:?} {url}: {ended:?}");
            let is_named = ended.err.contains(says) || ended.err.contains("no file");
            assert!(is_named && ended.err.contains("  try: "), "{args:?} {url}: {ended:?}");
        }
    }
}

type Case = (i32, String, &'static str);

fn files(shop: &Shop) -> Vec<Case> {
    let in_folder = |name: &str| format!("sqlite:{}", shop.path(name));
    fs::create_dir(shop.path("folder")).unwrap();
    fs::write(shop.path("notes.txt"), "not the tables you are looking for\n".repeat(100)).unwrap();
    vec![
        (3, in_folder("missing.db"), "no file"),
        (3, in_folder("no-such-folder/shop.db"), "does not exist: create it first"),
        (3, in_folder("folder"), "this is a folder"),
        (3, in_folder("notes.txt"), "not an SQLite database"),
        (2, format!("{}?raeders=3", shop.url), "unknown option"),
        (2, format!("{}?readers=none", shop.url), "must be a number"),
        (2, shop.path("shop.db"), "is no store URL"),
        (2, "sqlite:".to_owned(), "needs a file"),
        (2, "memory:".to_owned(), "inside one process"),
    ]
}

fn databases(shop: &Shop) -> Vec<Case> {
    let (server, _) = shop.url.split_once('?').unwrap();
    let (host, _) = server.rsplit_once('/').unwrap();
    let (_, address) = host.rsplit_once('@').unwrap_or(("", host));
    vec![
        (3, format!("{host}/no_such_database"), "\"no_such_database\" does not exist"),
        (3, format!("postgres://no_such_user@{address}/postgres"), "\"no_such_user\""),
        (3, "postgres://joe@127.0.0.1:1/shop?connect_timeout_ms=2000".to_owned(), "127.0.0.1"),
        (2, format!("{server}?shcema=a"), "shcema"),
        (2, format!("{server}?schema=%20"), "schema"),
        (2, "postgress://joe@127.0.0.1/shop".to_owned(), "postgress"),
    ]
}

/// CMD-3. The guide explains the codes that commands end with, and no other.
#[test]
fn the_guide_lists_the_codes_that_are_used() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/operating.md");
    let guide = fs::read_to_string(guide).unwrap();
    let table = guide.lines().skip_while(|line| *line != "| exit code | |").skip(2);
    let listed: BTreeSet<i32> = table
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').nth(1).unwrap().trim().parse().unwrap())
        .collect();
    let used: BTreeSet<i32> = ON_A_STORE.iter().map(|(code, _)| *code).chain([3]).collect();
    assert_eq!(listed, used);
}

on_files_and_postgres!(
    a_command_ends_with_the_documented_code,
    without_a_store_the_code_says_whose_mistake_it_is,
);
