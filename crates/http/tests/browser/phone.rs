//! On a phone nothing overflows; and screenshots of everything.

use serde_json::{Value, json};
use tidelock::prelude::*;

use crate::page::Page;
use crate::screens::SCREENS;
use crate::shop::{Shop, place};
use crate::site::{OPERATOR, for_real, visit};

/// UI-8.
#[test]
fn no_screen_is_wider_than_a_phone() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            for (theme, width, height) in
                [("light", 1280, 800), ("dark", 1280, 800), ("light", 390, 844)]
            {
                page.run(
                    "document.documentElement.dataset.theme = arguments[0]",
                    vec![json!(theme)],
                )
                .await;
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

/// UI-8: with the longest names that a store accepts, and long payloads, expanded.
#[test]
fn the_longest_names_and_long_json_fit_a_phone() {
    for_real(async {
        let shop = Shop::open("memory:").await;
        let long = Long::into(&shop.tidelock).await;
        visit(&shop.tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.wide(PHONE, 844).await;
            for (hash, (css, text), opened) in long.screens() {
                page.go(&hash).await;
                page.sees(css, &text).await;
                if let Some(xpath) = opened {
                    page.click(xpath).await;
                }
                fits(page, &hash, PHONE).await;
                page.paint(&format!("long-{}", &name(&hash)[..name(&hash).len().min(30)])).await;
            }
            for (hash, menu, asked) in long.questions() {
                page.go(&hash).await;
                page.click(&menu).await;
                page.paint(&format!("long-menu-{}", name(&hash).len())).await;
                fits(page, &menu, PHONE).await;
                page.click(&asked).await;
                page.sees("dialog .what", &long.word[..20]).await;
                fits(page, &asked, PHONE).await;
                page.paint(&format!("long-question-{}", name(&hash).len())).await;
                page.click("//dialog//button[.='Cancel']").await;
            }
        })
        .await;
    });
}

/// The width of a phone.
const PHONE: u32 = 390;

/// Subjects with the longest names, without a place to break, and JSON of that kind.
struct Long {
    word: String,
    stream: String,
    run: String,
}

impl Long {
    async fn into(tidelock: &Tidelock) -> Self {
        let word = "Wachstumsbeschleunigungsgesetz".repeat(7)[..190].to_owned();
        let (stream, run) = (format!("order-{word}"), word.clone());
        let deep =
            (0..20).fold(json!(word), |inner, level| json!({ format!("level {level}"): inner }));
        let data =
            json!({ "address": null, "text": word.repeat(20), &*word: [1, 2, 3], "deep": deep });
        place(tidelock, &stream, &data).await;
        tidelock.scope::<Value>(ScopeKind::SESSION, &word).patch(&data).await.unwrap();
        let start = tidelock.start("checkout", &run, &word).version(1);
        start.attribute("customer", &word[..100]).await.unwrap();
        let claim = tidelock.claims().by(&word[..60]).idempotency(&word);
        assert!(matches!(claim.claim::<Value>().await.unwrap(), IdempotencyClaim::Won(_)));
        Self { word, stream, run }
    }

    /// A screen, what it shows before it is measured, and what is expanded.
    fn screens(&self) -> Vec<(String, (&'static str, String), Option<&'static str>)> {
        let event = Some(
            "//details[contains(@class, 'event')][contains(., 'level 0') or contains(., 'Wachs')]/summary",
        );
        let word = &self.word;
        vec![
            ("#/streams".into(), ("td", self.stream.clone()), None),
            (format!("#/streams/{}", self.stream), ("h1", word.clone()), event),
            ("#/feed".into(), (".event", word.clone()), event),
            ("#/correlations/request-1".into(), (".fall-row", word.clone()), None),
            ("#/reactions/mail".into(), ("td", word.clone()), None),
            ("#/runs".into(), ("td", self.run.clone()), None),
            (format!("#/runs/{}", self.run), (".fall-row", "charge".into()), None),
            ("#/leases".into(), ("td", word.clone()), None),
            ("#/scopes".into(), ("td", word.clone()), None),
            (format!("#/scopes/session/{word}"), (".json-line", word.clone()), None),
            ("#/claims".into(), ("td", word.clone()), None),
            ("#/doctor".into(), (".finding", word.clone()), None),
        ]
    }

    /// Dialogs: the screen, the menu, and the button.
    fn questions(&self) -> [(String, String, String); 2] {
        let press = |what: &str| format!("//tr[contains(., '{}')]//{what}", self.word);
        ["#/reactions/mail", "#/leases"]
            .map(|hash| (hash.to_owned(), press("summary[.='More']"), press("button[.='Defer']")))
    }
}

/// Nothing makes the page wider than the screen, and nothing is cut off, except what can be
/// scrolled, like JSON.
async fn fits(page: &Page, hash: &str, width: u32) {
    let reach = page.run("return document.documentElement.scrollWidth", vec![]).await;
    assert!(
        reach.as_u64() <= Some(u64::from(width)),
        "{hash} is {reach} wide on a screen of {width}"
    );
    let beyond = page.run(BEYOND_THE_EDGE, vec![]).await;
    assert_eq!(beyond, json!([]), "{hash} on a screen of {width}");
}

/// Elements beyond the right edge that can neither be scrolled nor end in an ellipsis.
const BEYOND_THE_EDGE: &str = "
    const shows = (it) => it.checkVisibility() && !it.closest('.json, .tabs, thead, .event-gist, .clip, svg *');
    const holds = (it) => it.clientWidth === 0 || it.matches('input, select, textarea, svg') || it.scrollWidth <= it.clientWidth + 1;
    const hangs = (it) => it.getBoundingClientRect().right > innerWidth + 1 || !holds(it);
    const all = [...document.querySelectorAll('main *, dialog *')].filter((it) => shows(it) && hangs(it));
    return all.map((it) => `${it.localName}.${it.getAttribute('class')}: ${it.textContent.slice(0, 40)}`)";

fn name(hash: &str) -> String {
    let name: String = hash.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "overview".to_owned() } else { name.to_owned() }
}
