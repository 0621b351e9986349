//! The doctor's buttons that change nothing: one copies what has to be done elsewhere, one looks
//! further.

use std::time::Duration;

use serde_json::json;
use tidelock::doctor::{Doctor, Thresholds};
use tidelock::limits::PAGE_SIZE;
use tidelock::prelude::*;

use crate::shop::place;
use crate::site::{OPERATOR, READER, for_real, visit_with};

/// UI-9. Readers may copy, too: it is their shell in which it is done.
#[test]
fn what_cannot_be_done_from_a_server_is_copied_as_a_command() {
    const COMMAND: &str = "tidelock close order-1 --archive FILE";
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        half_close(&tidelock, "order-1").await;
        visit_with(&tidelock, impatient(&tidelock, Thresholds::default()), async |page| {
            page.open_as(READER).await;
            page.go("#/doctor").await;
            page.sees(".finding code", COMMAND).await;
            page.permit("clipboard-write", false).await;
            page.click("//article[contains(., 'order-1')]//button[.='Copy the command']").await;
            page.sees(".toast", "does not let this page copy").await;
            page.permit("clipboard-write", true).await;
            page.permit("clipboard-read", true).await;
            page.click("//article[contains(., 'order-1')]//button[.='Copy the command']").await;
            page.sees(".toast", "The command is copied").await;
            page.run(
                "navigator.clipboard.readText().then((text) => { window.copied = text; })",
                vec![],
            )
            .await;
            let copied = "return window.copied === arguments[0]";
            page.until("the command is in the clipboard", copied, vec![json!(COMMAND)]).await;
        })
        .await;
    });
}

/// UI-9.
#[test]
fn whoever_looks_further_is_shown_what_was_beyond_the_bounds_and_stays_there() {
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        // The doctor looks at whole pages: so many, and one more.
        let letters: Vec<_> = (0..=PAGE_SIZE).collect();
        for some in letters.chunks(100) {
            let commit = some.iter().fold(Commit::new(), |commit, nth| commit.wake(letter(*nth)));
            tidelock.store().commit(commit).await.unwrap().committed().unwrap();
        }
        let near = Thresholds { scan: PAGE_SIZE, ..Thresholds::default() };
        visit_with(&tidelock, impatient(&tidelock, near), async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/doctor").await;
            page.sees(".finding", "there are more than the 1000 that were looked at").await;
            page.sees(".finding", "1000 items").await;
            page.click("//button[.='Look further']").await;
            page.sees(".finding", "1001 items").await;
            page.sees_no(".finding", "there are more than").await;
            page.run("document.querySelector('.findings').replaceChildren()", vec![]).await;
            page.click("//button[.='Examine again' and not(@disabled)]").await;
            page.sees(".finding", "1001 items").await;
        })
        .await;
    });
}

fn letter(nth: usize) -> Wake {
    Wake::to_mark(
        ItemRef::parse("post", &format!("letter-{nth:04}")).unwrap(),
        Mark::new(1).unwrap(),
    )
}

/// A doctor for whom nothing waits too short to count.
fn impatient(tidelock: &Tidelock, bounds: Thresholds) -> Doctor {
    Doctor::over(tidelock.store().clone()).within(Thresholds { patience: Duration::ZERO, ..bounds })
}

/// Begins to close the books of a stream, into an archive that takes nothing.
async fn half_close(tidelock: &Tidelock, stream: &str) {
    place(tidelock, stream, &json!({ "address": "Dock 1" })).await;
    let full = |_: Vec<tidelock::StoredEvent>| async { Err::<(), _>("the disk is full") };
    tidelock.archive_stream_to(&StreamName::new(stream).unwrap(), full).close().await.unwrap_err();
}
