//! Names, payloads and errors with terminal escape sequences.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::OnFailure;
use tidelock::prelude::*;
use tidelock::store::{NewEvent, RawJson, StoreExt, StreamName};

use crate::harness::{Shop, append, block, lines, wake};

on_files_and_postgres!(nothing_hostile_reaches_the_terminal, json_output_is_complete);

/// Changes the text direction, and hides characters.
const NAME: &str = "a\u{202e}b\u{2066}\u{200b}\u{feff}; $(touch /tmp/pwned) 'x'";
/// Clears the screen, sets the title, moves the cursor.
const TEXT: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}1A\r\nfake line\u{2028}\u{7f}";

fn hostile_shop(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, NAME, NAME, &[json!({ TEXT: TEXT })]).await;
        // A store keeps JSON as it was written, with line breaks.
        let spread = NewEvent::new(
            tidelock::store::EventType::new("spread").unwrap(),
            RawJson::parse("{\n  \"a\": 1.50,\n\t\"b\": [ ]\n}").unwrap(),
        );
        store
            .append(&StreamName::new(NAME).unwrap(), ExpectedVersion::Any, vec![spread])
            .await
            .unwrap()
            .committed()
            .unwrap();
        block(&*store, NAME, NAME, TEXT).await;
        let claim = Tidelock::over(store.clone())
            .claims()
            .idempotency(NAME)
            .on_failure(OnFailure::Remember);
        let IdempotencyClaim::Won(won) = claim.claim::<Value>().await.unwrap() else {
            panic!("it is free")
        };
        won.fail(TEXT).await.unwrap();
        wake(&*store, "looped", NAME, 1).await;
        for _ in 0..3 {
            crate::harness::lease(&*store, "looped", Duration::from_micros(1)).await;
        }
    });
}

/// Whether a character would deceive a terminal, or a reader.
fn deceives(c: char) -> bool {
    let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    turns || (c.is_control() && c != '\n')
}

const LOOKS: [&[&str]; 9] = [
    &["streams"],
    &["events", "--full"],
    &["events", NAME],
    &["leases", "--full"],
    &["doctor", "--stuck-after", "0s"],
    &["streams", NAME],
    &["claims"],
    &["unblock", "--queue", "*", "--dry-run"],
    &["export", "-"],
];

/// CMD-2.
fn nothing_hostile_reaches_the_terminal(shop: &Shop) {
    hostile_shop(shop);
    for args in LOOKS {
        for more in [&[][..], &["--json"]] {
            let said = shop.run(&[args, more].concat());
            let found = said.out.chars().chain(said.err.chars()).find(|c| deceives(*c));
            assert_eq!(found, None, "{args:?} {more:?}:\n{:?}\n{:?}", said.out, said.err);
            assert!(said.code <= 1, "{said:?}");
            assert!(!said.out.contains("\nfake line"), "{}", said.out);
        }
    }
    let missing = shop.run(&["events", "\u{202e}nowhere"]);
    assert!(missing.code == 4 && !missing.err.chars().any(deceives), "{missing:?}");
}

/// CMD-2.
fn json_output_is_complete(shop: &Shop) {
    hostile_shop(shop);
    let events = shop.json(&["events"]);
    assert_eq!(
        (&events[0]["stream"], &events[0]["payload"]),
        (&json!(NAME), &json!({ TEXT: TEXT }))
    );
    assert_eq!(events[1]["payload"], json!({ "a": 1.5, "b": [] }));
    assert!(shop.ok(&["events", "--json"]).contains("1.50"), "numbers stay as they were written");
    let blocked = shop.json(&["leases", "--state", "blocked"]);
    assert_eq!((&blocked[0]["key"], &blocked[0]["error"]), (&json!(NAME), &json!(TEXT)));
    let findings = lines(&shop.run(&["doctor", "--json"]).out);
    let blocked: Vec<&Value> =
        findings.iter().filter(|finding| finding["kind"] == "blocked").collect();
    assert!(
        blocked[0]["remedy"]["actions"][0]["command"]
            .as_str()
            .unwrap()
            .starts_with("tidelock unblock --queue $'"),
        "{blocked:?}"
    );
}
