//! Hostile text is shown as text.

use serde_json::json;

use crate::page::Page;
use crate::shop::{HOSTILE, Shop, place};
use crate::site::{OPERATOR, for_real, visit};

/// UI-2.
#[test]
fn hostile_names_payloads_and_errors_are_shown_as_text_and_never_run() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        let named = format!("order-{HOSTILE}");
        place(&shop.tidelock, &named, &json!({ HOSTILE: HOSTILE, "turned": "a\u{202e}b" })).await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/streams").await;
            page.sees("td", &named).await;
            page.click("//td//a[contains(., 'order-<img')]").await;
            page.sees("h1", &named).await;
            page.sees(".event-gist", "<script>").await;
            page.click("//details[contains(@class, 'event')]/summary").await;
            page.sees(".json-key", HOSTILE).await;
            page.sees(".json-line", "a\\u202eb").await;
            page.go("#/feed").await;
            page.sees(".event", "<script>").await;
            page.go("#/reactions/mail").await;
            page.sees(".error-text", HOSTILE).await;
            page.go("#/doctor").await;
            page.sees(".finding", "<script>").await;
            page.click("//article[contains(., 'order-2')]//button").await;
            page.sees("dialog", "<script>").await;
            nothing_ran(page).await;
        })
        .await;
    });
}

async fn nothing_ran(page: &Page) {
    assert_eq!(page.run("return window.hacked === undefined", vec![]).await, json!(true));
    assert_eq!(
        page.run(
            "return document.querySelectorAll('main img, main script, dialog img').length",
            vec![]
        )
        .await,
        json!(0)
    );
    assert_eq!(
        page.console().await,
        Vec::<String>::new(),
        "the content security policy had nothing to refuse"
    );
}
