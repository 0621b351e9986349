//! Reactions: lists, and operators' commands by name.

use std::sync::Arc;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::store::{Store, StoredEvent};
use tidelock_test_stage::{Running, brisk, until};

use crate::harness::{Shop, append, counted, mail};

on_files_and_postgres!(
    targets_are_shown_with_their_lag_and_error,
    a_reaction_is_unblocked_reset_and_rerouted_by_name,
    a_truncated_list_says_so,
    a_reset_that_would_skip_events_is_refused,
    a_projection_is_listed_paged_and_rebuilt,
);

fn three_orders(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("north")]).await;
        append(&*store, "order-2", "placed", &[json!("poison"), json!("south")]).await;
        append(&*store, "order-3", "placed", &[json!("nowhere")]).await;
        mail(&store, 4).await;
    });
}

fn targets_are_shown_with_their_lag_and_error(shop: &Shop) {
    three_orders(shop);
    let rows = shop.json(&["reactions", "mail"]);
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row["target"].as_str().unwrap(), row["lag"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("order-1", 0), ("order-2", 2), ("order-3", 0)]);
    assert_eq!(rows[1]["error"], json!("an order without an address"));
    assert_eq!(
        shop.json(&["reactions", "--blocked"]).len(),
        2,
        "a target, and an event without a route"
    );
    assert_eq!(shop.json(&["reactions", "--lagging", "--target", "order-*"]).len(), 1);
    let table = shop.ok(&["reactions"]);
    assert!(
        table.contains("blocked, unrouted") && table.contains("there is no such town"),
        "{table}"
    );
    let routes = shop.json(&["reactions", "--routes"]);
    assert_eq!(routes.iter().map(|route| &route["reaction"]).collect::<Vec<_>>(), ["mail", "tour"]);
    assert!(routes[0]["position"].as_u64().unwrap() > 0);
    let none = shop.run(&["reactions", "unknown"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
}

fn a_reaction_is_unblocked_reset_and_rerouted_by_name(shop: &Shop) {
    three_orders(shop);
    assert_eq!(shop.ok(&["unblock", "--reaction", "mail"]), "unblocked: 1 of 1 targets\n");
    assert_eq!(shop.json(&["reactions", "mail", "--blocked"]).len(), 0);
    assert_eq!(
        shop.ok(&["reset", "--reaction", "mail", "--target", "order-1", "-y"]),
        "reset: 1 of 1 targets\n"
    );
    shop.ok(&["prioritize", "7", "--source", "order-2"]);
    let told: Vec<_> =
        shop.json(&["reactions", "mail"]).iter().map(|row| row["priority"].clone()).collect();
    assert_eq!(told, [0, 7, 0]);
    let mailed = shop.with(|store| async move {
        mail(&store, 4).await;
        counted(&*store, "mailed/order-1").await
    });
    assert_eq!(mailed, 2, "it was handled again");
    assert_eq!(shop.run(&["reroute", "unknown", "--from", "now", "-y"]).code, 4);
    assert_eq!(shop.run(&["reroute", "mail", "--from", "beginning"]).code, 2, "it asks first");
    let dry = shop.run(&["reroute", "mail", "--from", "beginning", "--dry-run"]);
    assert!(
        dry.code == 0 && dry.err.starts_with("dry run: events of reaction \"mail\""),
        "{dry:?}"
    );
    assert_ne!(
        shop.json(&["reactions", "mail", "--routes"])[0]["position"],
        json!(0),
        "nothing was done"
    );
    shop.ok(&["reroute", "mail", "--from", "beginning", "-y"]);
    assert_eq!(shop.json(&["reactions", "mail", "--routes"])[0]["position"], json!(0));
}

fn a_truncated_list_says_so(shop: &Shop) {
    shop.with(|store| async move {
        for nth in 0..101 {
            append(&*store, &format!("order-{nth:03}"), "placed", &[json!("north")]).await;
        }
        mail(&store, 101).await;
    });
    let cut = shop.run(&["reactions", "mail"]);
    assert_eq!(cut.out.lines().count(), 101, "a heading, and a hundred targets");
    assert_eq!(cut.err, "there may be more: --all, or a narrower pattern\n");
    let whole = shop.run(&["reactions", "mail", "--all"]);
    assert_eq!((whole.out.lines().count(), whole.err.as_str()), (102, ""));
}

/// REACT-26. Schedule 114.
fn a_reset_that_would_skip_events_is_refused(shop: &Shop) {
    three_orders(shop);
    shop.with(|store| async move {
        let tidelock = tidelock::Tidelock::over(store);
        let stream = tidelock::store::StreamName::new("order-1").unwrap();
        let books = tidelock.archive_stream_to(&stream, tidelock::closing::discard);
        books.ignore_reaction("mail").ignore_reaction("tour").close().await.unwrap();
    });
    let reset = ["reset", "--reaction", "mail", "--target", "order-1", "-y"];
    let refused = shop.run(&reset);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.err.contains("were deleted") && refused.err.contains("--partial"),
        "{refused:?}"
    );
    let partial: Vec<&str> = reset.into_iter().chain(["--partial"]).collect();
    assert_eq!(shop.ok(&partial), "reset: 1 of 1 targets\n");
}

/// Folds the events of every stream into a row, until no rebuild is left, and there are so many
/// rows.
async fn fold(store: &Arc<dyn Store>, by: u64, rows: usize) {
    let tidelock = Tidelock::over(store.clone());
    let count = move |row: &mut u64, _: StoredEvent| *row += by;
    let app = tidelock.app().worker(brisk("fold")).projection("counts", on_any(), count);
    let running = Running::start(app);
    let reactions = tidelock.reactions();
    until("all rows are there", async || {
        let info = reactions.projection("counts").await.unwrap();
        let is_over = info.is_some_and(|info| info.rebuild.is_none() && !info.deleting);
        is_over && reactions.rows::<u64>("counts").all().await.unwrap().len() == rows
    })
    .await;
    running.stop().await;
}

/// REACT-30.
fn a_projection_is_listed_paged_and_rebuilt(shop: &Shop) {
    shop.with(|store| async move {
        for nth in 0..3 {
            append(&*store, &format!("order-{nth}"), "placed", &[json!("north")]).await;
        }
        fold(&store, 1, 3).await;
    });
    let shown = json!([{ "projection": "counts", "rebuild": null, "deleting": false }]);
    assert_eq!(json!(shop.json(&["projections"])), shown);
    let row = |nth: u64, row: u64| json!({ "target": format!("order-{nth}"), "row": row });
    assert_eq!(json!(shop.json(&["rows", "counts"])), json!([row(0, 1), row(1, 1), row(2, 1)]));
    let first = shop.run(&["rows", "counts", "--limit", "2"]);
    assert!(first.out.contains("order-1") && !first.out.contains("order-2"), "{first:?}");
    assert!(first.err.contains("--after \"order-1\""), "{first:?}");
    let rest = shop.json(&["rows", "counts", "--after", "order-1"]);
    assert_eq!(json!(rest), json!([row(2, 1)]));
    assert_eq!(json!(shop.json(&["rows", "counts", "--target", "order-0"])), json!([row(0, 1)]));
    assert_eq!(shop.run(&["rows", "counts", "--target", "order-9"]).code, 4);
    for unknown in
        [&["rows", "count"][..], &["rebuild", "count", "-y"], &["rebuild", "count", "--cancel"]]
    {
        let refused = shop.run(unknown);
        assert!(
            refused.code == 4 && refused.err.contains("did you mean \"counts\"?"),
            "{refused:?}"
        );
    }

    let dry = shop.run(&["rebuild", "counts", "--dry-run"]);
    assert!(dry.code == 0 && dry.err.contains("would be rebuilt"), "{dry:?}");
    assert_eq!(shop.run(&["rebuild", "counts"]).code, 2, "it asks first");
    assert_eq!(shop.run(&["rebuild", "counts", "--cancel"]).code, 4, "there is none");
    assert_eq!(json!(shop.json(&["projections"])), shown, "nothing was done");
    shop.ok(&["rebuild", "counts", "-y"]);
    let rebuild = shop.json(&["projections"])[0]["rebuild"].clone();
    assert_eq!((&rebuild["targets"], &rebuild["lag"]), (&json!(3), &json!(3)), "{rebuild}");
    assert!(shop.ok(&["rebuild", "counts", "-y"]).contains("already"));
    shop.ok(&["rebuild", "counts", "--cancel"]);
    shop.ok(&["rebuild", "counts", "--partial", "-y"]);
    assert_eq!(shop.json(&["projections"])[0]["rebuild"]["partial"], true);
    shop.with(|store| async move { fold(&store, 10, 3).await });
    assert_eq!(json!(shop.json(&["rows", "counts"])), json!([row(0, 10), row(1, 10), row(2, 10)]));
    assert_eq!(json!(shop.json(&["projections"])), shown);
}
