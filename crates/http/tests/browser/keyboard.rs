//! Everything can be reached without a mouse.

use serde_json::{Value, json};

use crate::page::Page;
use crate::shop::Shop;
use crate::site::{OPERATOR, for_real, visit};

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';
const ESCAPE: char = '\u{e00c}';
const DOWN: char = '\u{e015}';

/// UI-7.
#[test]
fn the_page_is_walked_through_with_the_keyboard_alone() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.sees("h1", "Overview").await;
            page.run("document.activeElement.blur()", vec![]).await;

            page.press(&[TAB]).await;
            assert_eq!(focus(page).await, json!("Skip to the content"));
            page.press(&[ENTER]).await;
            assert_eq!(page.run("return document.activeElement.id", vec![]).await, json!("main"));

            page.press(&['?']).await;
            page.sees("dialog h2", "Keyboard").await;
            page.press(&[ESCAPE]).await;
            page.sees_no("dialog h2", "Keyboard").await;

            page.press(&['g', 's']).await;
            page.sees("td", "order-1").await;
            page.press(&['/']).await;
            page.press(&['o', 'r', 'd', 'e', 'r', '-']).await;
            page.sees_no("td", "stock-sku-7").await;
            page.press(&[TAB]).await;
            assert_eq!(focus(page).await, json!("order-1"), "one row can be reached with Tab");
            page.press(&[DOWN]).await;
            assert_eq!(focus(page).await, json!("order-2"), "and the next with an arrow");
            page.press(&[ENTER]).await;
            page.sees("h1", "order-2").await;

            page.press(&['g', 'r']).await;
            page.sees("td a", "mail").await;
            page.until("every control has a name", NAMELESS, vec![]).await;
        })
        .await;
    });
}

async fn focus(page: &Page) -> Value {
    page.run("return document.activeElement.textContent", vec![]).await
}

/// Whether every control has an accessible name.
const NAMELESS: &str = "return [...document.querySelectorAll('a, button, input, select, textarea')].every((it) => \
    (it.textContent.trim() || it.getAttribute('aria-label') || it.labels?.length) !== 0 && \
    !!(it.textContent.trim() || it.getAttribute('aria-label') || it.labels?.length))";
