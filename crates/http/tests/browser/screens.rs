//! Each screen, with real data, on every store.

use crate::page::Page;
use crate::shop::Shop;
use crate::site::{OPERATOR, for_real, visit};

/// UI-3, in memory.
#[test]
fn every_screen_shows_what_is_in_memory() {
    for_real(look_around("memory:"));
}

/// UI-3, on a file.
#[test]
fn every_screen_shows_what_is_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for_real(look_around(&format!("sqlite:{}", folder.path().join("shop.db").display())));
}

/// UI-3, on PostgreSQL.
#[test]
fn every_screen_shows_what_is_in_a_database() {
    let url = tidelock_test_postgres::shared_database().unwrap();
    for_real(look_around(&format!("{url}?schema=browser_{}", std::process::id())));
}

async fn look_around(url: &str) {
    let shop = Shop::open(url).await;
    visit(&shop.tidelock, async |page| {
        page.open_as(OPERATOR).await;
        for (hash, facts) in SCREENS {
            page.go(hash).await;
            for (css, text) in *facts {
                page.sees(css, text).await;
            }
            assert_eq!(
                page.console().await,
                Vec::<String>::new(),
                "{hash}: the browser logs nothing"
            );
        }
        travel(page).await;
    })
    .await;
}

/// The texts of each screen.
pub(crate) const SCREENS: &[(&str, &[(&str, &str)])] = &[
    (
        "#/",
        &[("h1", "Overview"), (".stat", "Position"), (".chart-card", "Events"), (".pulse", "live")],
    ),
    ("#/streams", &[("td", "stock-sku-7"), ("td", "order-1"), ("td", "mail-order-1")]),
    (
        "#/streams/stock-sku-7",
        &[("h1", "stock-sku-7"), (".event", "reserved"), (".event", "order-3")],
    ),
    ("#/feed", &[(".event", "placed"), (".event", "mailed")]),
    (
        "#/correlations/request-1",
        &[
            (".fall-row", "placed"),
            (".fall-row", "mailed"),
            (".fall-row", "order-1, done"),
            (".fall-row", "order-2: an order without an address"),
            (".fall-row", "run checkout-1, open"),
            (".fall-row", "charge"),
            (".fall-row", "wait for the signal approved"),
        ],
    ),
    ("#/reactions", &[("td", "mail")]),
    (
        "#/reactions/mail",
        &[("td", "order-2"), (".badge", "blocked"), (".error-text", "an order without an address")],
    ),
    ("#/runs", &[("td", "checkout-1"), ("td", "checkout@1")]),
    (
        "#/runs/checkout-1",
        &[
            (".fall-row", "charge"),
            (".fall-row", "approval"),
            (".run-status", "approved"),
            ("dd", "ada"),
        ],
    ),
    (
        "#/leases?queue=post",
        &[("td", "parcel-1"), (".badge", "held"), ("td", "postman"), ("time", "in 9 min")],
    ),
    ("#/scopes", &[("td", "s-4711"), ("td", "450")]),
    ("#/scopes/session/s-4711", &[(".json-line", "items"), (".json-line", "450")]),
    ("#/claims", &[("td", "lock/till"), ("td", "teller-1"), (".badge", "held")]),
    (
        "#/doctor",
        &[
            (".finding", "an order without an address"),
            (".finding button", "Unblock"),
            (".banner", "attention"),
        ],
    ),
    ("#/audit", &[("h1", "Audit")]),
];

/// The state of an aggregate at each of its versions.
async fn travel(page: &Page) {
    page.go("#/streams/stock-sku-7").await;
    page.sees("h1", "stock-sku-7").await;
    page.click("//button[.='State' and not(@aria-disabled)]").await;
    page.sees(".travel output", "version 4").await;
    page.sees(".travel .json-line", "left: 3").await;
    page.click("//button[.='◀']").await;
    page.sees(".travel output", "version 3").await;
    page.sees(".travel .json-line.changed", "left: 5").await;
}
