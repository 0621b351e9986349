//! Closing a stream, and its archive file.

use std::fs;

use serde_json::json;

use crate::harness::{Shop, append, lines, mail};

on_files_and_postgres!(
    a_closed_stream_is_archived_and_refuses_appends,
    a_stream_with_unhandled_events_is_not_closed,
);

fn year(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "year-2025", "sold", &[json!(1), json!(2), json!(3)]).await;
    });
}

fn a_closed_stream_is_archived_and_refuses_appends(shop: &Shop) {
    year(shop);
    let archive = shop.path("2025.jsonl");
    let close = ["close", "year-2025", "--archive", &archive];
    assert_eq!(shop.run(&close).code, 2, "it asks first");
    let dry = shop.run(&[&close[..], &["--dry-run"]].concat());
    assert!(dry.err.contains("3 events of it will be in"), "{dry:?}");
    assert_eq!(shop.json(&["streams"])[0]["state"], json!("open"), "nothing was done");
    let told = shop.json(&[&close[..], &["--yes"]].concat());
    assert_eq!(
        told,
        [json!({ "done": "closed", "stream": "year-2025", "through": 3, "archived": 3 })]
    );
    let payloads: Vec<_> = lines(&fs::read_to_string(&archive).unwrap())
        .iter()
        .map(|event| event["payload"].clone())
        .collect();
    assert_eq!(payloads, [1, 2, 3]);
    assert_eq!(
        (&shop.json(&["streams"])[0]["state"], &shop.json(&["streams"])[0]["events"]),
        (&json!("closed"), &json!(0))
    );
    assert_eq!(
        shop.json(&[&close[..], &["--yes"]].concat())[0]["archived"],
        json!(0),
        "out of habit"
    );
    assert_eq!(shop.run(&["close", "year-1999", "--discard", "--yes"]).code, 4);
}

fn a_stream_with_unhandled_events_is_not_closed(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("poison")]).await;
        mail(&store, 1).await;
    });
    let close = ["close", "order-1", "--discard", "--yes", "--within", "0s"];
    let refused = shop.run(&close);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.err.contains("reaction \"mail\" is blocked at target \"order-1\""),
        "{refused:?}"
    );
    shop.ok(&[&close[..], &["--ignore", "mail"]].concat());
}

#[test]
fn a_truncated_archive_is_continued_without_duplicates() {
    let shop = Shop::sqlite();
    year(&shop);
    let archive = shop.path("2025.jsonl");
    let events = shop.ok(&["events", "year-2025", "--json"]);
    let cut = events.lines().nth(1).unwrap();
    fs::write(&archive, format!("{}\n{}", events.lines().next().unwrap(), &cut[..cut.len() / 2]))
        .unwrap();
    shop.ok(&["close", "year-2025", "--archive", &archive, "--yes"]);
    assert_eq!(fs::read_to_string(&archive).unwrap(), events);
}

#[test]
fn a_file_that_is_not_an_archive_is_left_unchanged() {
    for text in ["dear diary", "dear diary\n", "{}\n"] {
        let shop = Shop::sqlite();
        year(&shop);
        let diary = shop.path("diary.txt");
        fs::write(&diary, text).unwrap();
        let refused = shop.run(&["close", "year-2025", "--archive", &diary, "--yes"]);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("not an event"), "{refused:?}");
        assert_eq!(fs::read_to_string(&diary).unwrap(), text);
        assert_eq!(shop.json(&["streams"])[0]["state"], json!("open"));
    }
}
