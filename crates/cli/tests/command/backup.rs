//! Backups of an SQLite store in use, and how they are restored.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::everything::{facts, fill, rest};
use crate::harness::{Shop, append, lines, said};

/// CMD-14. As the guide says: stop, put the copy in place, declare it, and check.
#[test]
fn a_backup_is_restored_with_everything() {
    let shop = Shop::sqlite();
    shop.with(|store| async move { fill(&*store).await });
    let copy = shop.path("copy.db");
    let told = shop.ok(&["backup", &copy]);
    let (events, rest_before) =
        shop.with(|store| async move { (facts(&*store).await, rest(&*store).await) });
    assert!(told.starts_with(&format!("{copy} has {} events, ", events.len())), "{told}");
    assert!(told.trim_end().ends_with("and was verified"), "{told}");
    let last = lines(&shop.ok(&["events", "--all", "--json"])).pop().unwrap();

    shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!("lost")]).await });
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(shop.path(&format!("shop.db{end}")));
    }
    fs::copy(&copy, shop.path("shop.db")).unwrap();
    shop.ok(&["migrate", "--restored"]);
    shop.ok(&["migrate", "--check"]);
    let restored = shop.with(|store| async move { (facts(&*store).await, rest(&*store).await) });
    assert_eq!(restored, (events, rest_before));
    shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!("next")]).await });
    let next = lines(&shop.ok(&["events", "--all", "--json"])).pop().unwrap();
    let position = |event: &serde_json::Value| event["position"].as_u64().unwrap();
    assert!(position(&next) > position(&last) + 1, "the lost position was handed out again");
}

/// CMD-14.
#[test]
fn a_backup_overwrites_no_file_and_not_the_store() {
    let shop = Shop::sqlite();
    shop.with(|store| async move { append(&*store, "order-1", "placed", &[json!(1)]).await });
    fs::write(shop.path("mine"), "mine").unwrap();
    for name in ["mine", "shop.db", "shop.db-wal", "none/copy.db"] {
        let refused = shop.run(&["backup", &shop.path(name)]);
        assert_eq!((refused.code, refused.out.as_str()), (4, ""), "{name}: {refused:?}");
        assert!(refused.err.contains(name) && refused.err.contains("  try: "), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(shop.path("mine")).unwrap(), "mine");
    let copy = shop.path("copy.db");
    let made = lines(&shop.ok(&["backup", &copy, "--json"])).remove(0);
    assert_eq!((&made["file"], &made["schema"]), (&json!(copy), &json!(2)));
    assert_eq!(made["bytes"], json!(fs::metadata(&copy).unwrap().len()));
    assert_eq!(shop.run(&["backup", &copy]).code, 4, "the second time it is there");
}

/// CMD-14.
#[test]
fn a_backup_to_a_full_disk_leaves_no_file() {
    let shop = Shop::sqlite();
    shop.with(|store| async move {
        let payloads: Vec<_> =
            (0..900).map(|nth| json!(format!("{nth}{}", "x".repeat(2_000)))).collect();
        append(&*store, "order-1", "placed", &payloads).await;
    });
    let mut command = std::process::Command::new("bash");
    let little_room = "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\"";
    command.args(["-c", little_room, env!("CARGO_BIN_EXE_tidelock"), "backup"]);
    command.args([&shop.path("copy.db"), "--store", &shop.url]);
    let refused = said(command);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{refused:?}");
    let left = fs::read_dir(shop.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<_> = left.filter(|path| path.to_string_lossy().contains("copy")).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

/// CMD-14.
#[test]
fn a_server_has_its_own_backups_and_no_store_has_none() {
    let shop = Shop::postgres();
    let copy = shop.path("copy.db");
    let refused = shop.run(&["backup", &copy]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.err.contains("pg_dump"), "{refused:?}");
    let missing = Shop::on(format!("sqlite:{}", shop.path("none.db"))).run(&["backup", &copy]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(!Path::new(&copy).exists() && !Path::new(&shop.path("none.db")).exists());
}
