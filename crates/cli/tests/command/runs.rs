//! Runs, looked after from outside.

use serde_json::json;
use tidelock::prelude::*;

use crate::ground::Shop;

on_files_and_postgres!(runs_are_listed_shown_signalled_and_ended);

fn runs_are_listed_shown_signalled_and_ended(shop: &Shop) {
    shop.with(|store| async move {
        let runs = Tidelock::over(store).runs();
        for id in ["checkout-1", "checkout-2"] {
            runs.start("checkout", id, &json!(7)).version(1).attribute("shop", id).await.unwrap();
        }
    });
    let ids: Vec<_> = shop.json(&["runs"]).iter().map(|run| run["run"].clone()).collect();
    assert_eq!(ids, ["checkout-2", "checkout-1"]);
    assert_eq!(shop.json(&["runs", "--attribute", "shop=checkout-1"]).len(), 1);
    assert_eq!(shop.json(&["runs", "--state", "failed"]).len(), 0);
    assert!(shop.ok(&["runs", "checkout-1"]).contains("due for a worker"));
    assert!(
        shop.ok(&["signal", "checkout-1", "approve", "{\"by\":\"joe\"}", "--id", "1"])
            .contains("was sent signal")
    );
    assert!(shop.ok(&["cancel", "checkout-1"]).contains("was asked to cancel"));
    assert_eq!(shop.run(&["cancel", "checkout-2", "--terminate"]).code, 2, "it asks first");
    shop.ok(&["cancel", "checkout-2", "--terminate", "-y", "--reason", "no stock"]);
    assert_eq!(shop.json(&["runs", "--state", "terminated"])[0]["run"], json!("checkout-2"));
    assert!(shop.ok(&["runs", "checkout-2"]).contains("no stock"));
    for args in [
        &["retry", "checkout-2"][..],
        &["cancel", "checkout-2"],
        &["runs", "checkout-9"],
        &["resolve", "checkout-1", "pay", "--rerun"],
    ] {
        let refused = shop.run(args);
        assert_eq!(refused.code, 4, "{args:?}: {refused:?}");
    }
    assert_eq!(shop.run(&["signal", "checkout-1", "approve", "{not json"]).code, 2);
}
