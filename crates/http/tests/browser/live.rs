//! Changes are shown live.

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::store::{Commit, ItemRef, Mark, Wake};

use crate::shop::{Shop, place};
use crate::site::{OPERATOR, for_real, visit};

/// UI-4.
#[test]
fn events_states_and_lists_change_on_the_page_when_they_change_in_the_store() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/streams/order-1").await;
            page.sees(".button[aria-pressed=true]", "Following").await;
            place(&shop.tidelock, "order-1", &json!({ "address": "Dock 77" })).await;
            page.sees(".event.arrived", "Dock 77").await;

            page.go("#/feed").await;
            page.sees(".event", "Dock 77").await;
            place(&shop.tidelock, "order-3", &json!({ "address": "Dock 88" })).await;
            page.sees(".event.arrived", "Dock 88").await;

            page.go("#/scopes/session/s-4711").await;
            page.sees(".json-line", "cents: 450").await;
            shop.tidelock
                .scope::<Value>(ScopeKind::SESSION, "s-4711")
                .increment("cents", 50)
                .await
                .unwrap();
            page.sees(".json-line.changed", "cents: 500").await;

            page.go("#/runs").await;
            page.sees("td", "checkout-1").await;
            shop.tidelock.start("checkout", "checkout-2", "jam").version(1).await.unwrap();
            page.sees("td", "checkout-2").await;
        })
        .await;
    });
}

/// UI-4: a menu stays open although its row changes.
#[test]
fn an_open_menu_stays_open_when_its_row_changes() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/leases?queue=post").await;
            page.click("//tr[contains(., 'parcel-1')]//summary[.='More']").await;
            page.sees("button", "Defer").await;
            let more =
                Wake::to_mark(ItemRef::parse("post", "parcel-1").unwrap(), Mark::new(8).unwrap());
            shop.tidelock
                .store()
                .commit(Commit::new().wake(more))
                .await
                .unwrap()
                .committed()
                .unwrap();
            page.sees("td", "0 / 8").await;
            let is_open = "return document.querySelector('details.more').open";
            assert_eq!(page.run(is_open, vec![]).await, json!(true));

            page.go("#/scopes/session/s-4711").await;
            page.click("//summary[contains(., 'items')]").await;
            page.sees(".json-line", "0: \"tea\"").await;
            shop.tidelock
                .scope::<Value>(ScopeKind::SESSION, "s-4711")
                .increment("cents", 7)
                .await
                .unwrap();
            page.sees(".json-line.changed", "cents: 457").await;
            page.sees(".json-line", "0: \"tea\"").await;
        })
        .await;
    });
}
