//! The guide to the HTTP API, run as written: its commands go to a shell, and to a server like the
//! one that it starts.

use serde_json::Value;
use tidelock_test_stage::{Block, Page, Shell, alike, comparable};

use crate::harness::Shop;
use crate::serve::Serving;

/// The address of the guide's server.
const ADDRESS: &str = "localhost:7171";
/// How the guide starts it.
const START: &str = "tidelock serve --store sqlite:shop.db --migrate --tokens tokens";

fn the_http_guide_shows_actual_responses(shop: &Shop) {
    // The guide starts with a new store.
    let shop = &shop.another();
    shop.ok(&["migrate"]);
    let (page, mut shell) = (Page::read("docs/guides/http-api.md"), Shell::new());
    let (mut server, mut tried) = (None, 0);
    for (block, answer) in page.commands() {
        match block.text.split_whitespace().next().unwrap_or_default() {
            "cat" => drop(shell.run(block)),
            "export" => shell.keep("AUTH", block),
            "tidelock" => {
                assert_eq!(block.text.trim(), START);
                let started = Serving::start(
                    shop,
                    &["--migrate", "--tokens", shell.folder().join("tokens").to_str().unwrap()],
                );
                shell.put(&started.address.to_string(), ADDRESS);
                server = Some(started);
            }
            _ => {
                see(&shell, block, answer.filter(|answer| answer.kind != "sh"));
                tried += 1;
            }
        }
    }
    assert!(server.is_some() && tried > 20, "only {tried} commands were tried");
}

/// Compares the actual response with the one shown.
fn see(shell: &Shell, block: &Block, answer: Option<&Block>) {
    let place = || format!("line {}: {}", block.line, block.text);
    match answer {
        None => assert_eq!(shell.ask(block), (204, String::new()), "{}", place()),
        Some(shown) if shown.kind == "json" => {
            let (status, body) = shell.ask(block);
            assert_eq!(status.to_string(), shown.about, "{}{body}", place());
            let parsed = |text: &str| {
                serde_json::from_str::<Value>(text)
                    .unwrap_or_else(|e| panic!("{}{text}: {e}", place()))
            };
            assert!(
                alike(&parsed(&shown.text), &parsed(&body)),
                "{}shown:\n{}seen:\n{body}",
                place(),
                shown.text
            );
        }
        Some(shown) if block.text.contains("/follow") => {
            let seen = shell.follow(block, shown.text.lines().count());
            assert_eq!(comparable(&seen.join("\n")), comparable(&shown.text), "{}", place());
        }
        Some(shown) => {
            assert_eq!(comparable(&shell.run(block)), comparable(&shown.text), "{}", place());
        }
    }
}

on_files_and_postgres!(the_http_guide_shows_actual_responses);
