//! Roles: who can read, who can act, and what the others are told.

use crate::shop::Shop;
use crate::site::{OPERATOR, READER, for_real, visit, visit_mounted};

/// UI-5: a token is asked for once, kept for the tab, and never shown.
#[test]
fn a_token_is_asked_for_once_and_a_low_role_is_told_why() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open().await;
            page.write("dialog input[name=token]", "an unknown token, long enough").await;
            page.click("//dialog//button[.='Sign in']").await;
            page.sees("dialog", "unknown to the server").await;
            page.write("dialog input[name=token]", READER).await;
            page.click("//dialog//button[.='Sign in']").await;
            page.sees(".bar", "grafana · reader").await;
            page.go("#/reactions/mail").await;
            page.click("//tr[contains(., 'order-2')]//button[.='Unblock' and @aria-disabled]")
                .await;
            page.sees(".toast", "needs the role operator; grafana is reader").await;
            page.click("//button[contains(., 'grafana')]").await;
            page.write("dialog input[name=token]", OPERATOR).await;
            page.click("//dialog//button[.='Sign in']").await;
            page.sees(".bar", "alice · operator").await;
            page.open().await;
            page.sees(".bar", "alice · operator").await;
            assert!(!page.text().await.contains(OPERATOR));
        })
        .await;
    });
}

/// UI-1 and UI-5: it works under any prefix; a read-only server hides nothing, and says why a
/// button is off.
#[test]
fn a_page_that_is_mounted_somewhere_without_tokens_says_why_its_buttons_are_off() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit_mounted(&shop.tidelock, async |page| {
            page.open().await;
            page.sees(".bar", "read-only").await;
            page.go("#/doctor").await;
            page.click("//article[contains(., 'order-2')]//button[@aria-disabled]").await;
            page.sees(".toast", "read-only").await;
        })
        .await;
    });
}
