//! On a phone nothing hangs over the edge; and, for people, pictures of everything.

use serde_json::json;

use crate::page::Page;
use crate::screens::SCREENS;
use crate::shop::Shop;
use crate::site::{OPERATOR, for_real, visit};

/// UI-8.
#[test]
fn no_screen_is_wider_than_a_phone() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            for (theme, width, height) in [("light", 1280, 800), ("dark", 1280, 800), ("light", 390, 844)] {
                page.run("document.documentElement.dataset.theme = arguments[0]", vec![json!(theme)]).await;
                page.wide(width, height).await;
                for (hash, facts) in SCREENS {
                    page.go(hash).await;
                    for (css, text) in *facts {
                        page.sees(css, text).await;
                    }
                    fits(page, hash, width).await;
                    page.paint(&format!("{}-{width}-{theme}", name(hash))).await;
                }
            }
        })
        .await;
    });
}

async fn fits(page: &Page, hash: &str, width: u32) {
    let reach = page.run("return document.documentElement.scrollWidth", vec![]).await;
    assert!(reach.as_u64() <= Some(u64::from(width)), "{hash} is {reach} wide on a screen of {width}");
}

fn name(hash: &str) -> String {
    let name: String = hash.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "overview".to_owned() } else { name.to_owned() }
}
