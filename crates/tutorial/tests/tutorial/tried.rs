//! Runs every command of the page, against the final shop, and compares the answers.

use std::time::Instant;

use tidelock_test_stage::{Block, PATIENCE, Page, Shell, TestStore, comparable};

use crate::shop::Shop;

/// The shop's address on the page.
const ADDRESS: &str = "localhost:3000";
/// The command with which the page starts it on a server.
const ON_POSTGRES: &str = "SHOP_STORE=postgres://";
/// Marks an answer that needs a moment.
const LATER: &str = "# a moment later";

#[test]
fn everything_that_the_tutorial_shows_is_seen() {
    play(&TestStore::sqlite());
}

#[test]
fn everything_that_the_tutorial_shows_is_seen_on_postgresql_too() {
    play(&TestStore::postgres());
}

fn play(stage: &TestStore) {
    let page = Page::read("docs/tutorial.md");
    let (mut shop, mut tried) = (None::<Shop>, 0);
    for (block, answer) in page.commands() {
        match block.text.lines().next().unwrap_or_default() {
            "cargo run" => {
                shop.take().into_iter().for_each(Shop::close);
                shop = Some(Shop::open(&stage.url().unwrap()));
            }
            line if line.starts_with(ON_POSTGRES) => {
                shop = Some(Shop::open(&TestStore::postgres().url().unwrap()))
            }
            "pkill -9 -x shop" => drop(shop.take()),
            line if line.starts_with("cargo ") || line.starts_with("tidelock ") => {}
            _ => {
                let shop = shop
                    .as_ref()
                    .unwrap_or_else(|| panic!("line {}: the shop is closed", block.line));
                let answer = answer.filter(|answer| answer.kind == "text");
                see(
                    block,
                    answer.unwrap_or_else(|| panic!("line {}: no answer", block.line)),
                    shop,
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 10, "only {tried} commands were tried");
}

/// Runs a command until it answers what the page shows; once, unless the page says that it takes a
/// moment.
fn see(command: &Block, answer: &Block, shop: &Shop) {
    let (begun, wanted, mut shell) = (Instant::now(), comparable(&answer.text), Shell::new());
    shell.put(&shop.address, ADDRESS);
    loop {
        let seen = comparable(&shell.run(command));
        let is_late = begun.elapsed() > PATIENCE || !command.text.contains(LATER);
        if seen == wanted || is_late {
            assert_eq!(seen, wanted, "line {}: {}", command.line, command.text);
            return;
        }
    }
}
