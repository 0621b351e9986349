//! Errors, and their messages.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tidelock::postgres::tokio_postgres::{self, NoTls};

use crate::harness::{Shop, append, bare, block, said};

/// CMD-1. CMD-3.
#[test]
fn reading_a_missing_file_creates_none() {
    for command in
        [&["streams"][..], &["doctor"], &["leases"], &["export", "-"], &["unblock", "--queue", "a"]]
    {
        let shop = Shop::sqlite();
        let missing = shop.run(command);
        assert_eq!((missing.code, missing.out.as_str()), (3, ""), "{missing:?}");
        assert!(
            missing.err.contains("there is no store at") && missing.err.contains("shop.db"),
            "{missing:?}"
        );
        assert!(
            missing.err.contains("try: ") && missing.err.contains("tidelock migrate"),
            "{missing:?}"
        );
        assert!(!Path::new(&shop.path("shop.db")).exists());
    }
}

#[test]
fn the_default_is_a_file_in_this_folder() {
    let shop = Shop::sqlite();
    let mut command = bare(&["streams"]);
    command.current_dir(shop.folder.path());
    let missing = said(command);
    assert_eq!(missing.code, 3);
    assert!(missing.err.contains("\"tidelock.db\""), "{missing:?}");
}

/// CMD-1.
#[test]
fn a_foreign_database_is_left_unchanged() {
    let shop = Shop::sqlite();
    let path = shop.path("shop.db");
    // An empty file is an SQLite database without tables.
    fs::write(&path, "").unwrap();
    let refused = shop.run(&["streams"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        refused.err.contains("no Tidelock store") && refused.err.contains("tidelock migrate"),
        "{refused:?}"
    );
    assert!(!refused.err.contains("migrate=0"), "it was not typed: {refused:?}");
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn an_invalid_store_url_is_refused_without_its_password() {
    for url in [
        "mongodb:shop",
        "postgress://joe:hush@host/shop",
        "memory:",
        "shop.db",
        "host=db password=hush",
    ] {
        let refused = said(bare(&["streams", "--store", url]));
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains("  try: ") && !refused.err.contains("hush"), "{refused:?}");
    }
    let bare_path = said(bare(&["streams", "--store", "shop.db"])).err;
    assert!(bare_path.contains("\"shop.db\" is no store URL"), "as it was typed: {bare_path}");
    assert!(bare_path.contains("try: --store sqlite:shop.db"), "{bare_path}");
}

/// Options that a command adds to a store's URL are not blamed on the user.
#[test]
fn an_invalid_value_is_a_usage_error() {
    let shop = Shop::sqlite();
    shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!(1)]).await });
    for (args, code, says) in [
        (&["prioritize", "1000", "--queue", "mail"][..], 2, "try: a value within these bounds"),
        (&["events", "--after", "999"], 4, "try: a position that the message names"),
    ] {
        let refused = shop.run(args);
        assert_eq!(refused.code, code, "{refused:?}");
        assert!(refused.err.contains(says), "{refused:?}");
    }
}

#[test]
fn an_export_to_a_full_disk_names_the_file_and_leaves_none() {
    let shop = Shop::sqlite();
    shop.with(|store| async move {
        let payloads: Vec<_> =
            (0..900).map(|nth| json!(format!("{nth}{}", "x".repeat(2_000)))).collect();
        append(&*store, "order-1", "placed", &payloads).await;
    });
    let file = shop.path("shop.jsonl");
    // In blocks of a kibibyte or a half: less than the export, and more than SQLite writes to read
    // the store.
    let little_room = "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("bash");
    command.args([
        "-c",
        little_room,
        env!("CARGO_BIN_EXE_tidelock"),
        "export",
        &file,
        "--store",
        &shop.url,
    ]);
    let refused = said(command);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("cannot write") && refused.err.contains(&file), "{refused:?}");
    assert!(refused.err.contains("room on this disk"), "{refused:?}");
    let left: Vec<_> =
        fs::read_dir(shop.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("jsonl")), "{left:?}");
}

/// CMD-2. CMD-3.
#[test]
fn an_unreachable_server_is_named_without_its_password() {
    let url = "postgres://joe:hush@127.0.0.1:1/shop?connect_timeout_ms=2000";
    let other = "postgres://joe@127.0.0.1:1/shop?password=hush&connect_timeout_ms=2000";
    for (command, url) in [(&["streams"][..], url), (&["doctor"], other), (&["migrate"], url)] {
        let refused = said(bare(&[command, &["--store", url]].concat()));
        assert_eq!((refused.code, refused.out.as_str()), (3, ""), "{refused:?}");
        assert!(refused.err.contains("127.0.0.1") && !refused.err.contains("hush"), "{refused:?}");
    }
}

/// CMD-3.
#[test]
fn a_closed_pipe_ends_a_listing_quietly() {
    let shop = Shop::sqlite();
    shop.with(|store| async move {
        let payloads: Vec<_> =
            (0..900).map(|nth| json!(format!("{nth}{}", "x".repeat(200)))).collect();
        append(&*store, "order-1", "placed", &payloads).await;
    });
    let export = ["export", "-"];
    for args in [
        &["events", "--all"][..],
        &["events", "--all", "--json"],
        &export,
        &["events", "-f", "--after", "0"],
    ] {
        let mut child =
            shop.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = crate::harness::told(&child.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{args:?}");
    }
}

/// Creates a role that can read this store's tables, and returns its URL.
fn reader_of(shop: &Shop) -> String {
    let (server, schema) = shop.url.split_once("?schema=").unwrap();
    let grants = format!(
        "CREATE ROLE {schema}_reader; GRANT USAGE ON SCHEMA {schema} TO {schema}_reader;
         GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}_reader;
         GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {schema}_reader"
    );
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&grants).await.unwrap();
    });
    format!("{}&options=-c%20role%3D{schema}_reader", shop.url)
}

#[test]
fn a_read_only_role_reads_everything_and_changes_nothing() {
    let shop = Shop::postgres();
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!(1)]).await;
        block(&*store, "mail", "a", "no address").await;
    });
    let url = reader_of(&shop);
    for args in [
        &["streams"][..],
        &["events"],
        &["leases"],
        &["reactions"],
        &["export", "-"],
        &["migrate", "--check"],
    ] {
        let looked = said(bare(&[args, &["--store", &url]].concat()));
        assert_eq!(looked.code, 0, "{args:?}: {looked:?}");
    }
    assert_eq!(said(bare(&["doctor", "--store", &url])).code, 1, "it finds what is blocked");
    let refused = said(bare(&["unblock", "--queue", "mail", "--store", &url]));
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("may not do this") && refused.err.contains("a role with the right"),
        "{refused:?}"
    );
    assert_eq!(shop.json(&["leases"])[0]["state"], json!("blocked"));
}

#[test]
fn separate_programs_are_run_or_reported_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bare(&["stress", "--seconds", "1"]);
    command.env("PATH", folder.path());
    let ran = said(command);
    // There may be one beside the tested binary, from a build of the whole workspace.
    let is_there =
        Path::new(env!("CARGO_BIN_EXE_tidelock")).with_file_name("tidelock-stress").exists();
    assert!(is_there || ran.err.contains("cargo build --release -p tidelock-stress"), "{ran:?}");
}
