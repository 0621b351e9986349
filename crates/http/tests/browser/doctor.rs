//! The doctor's buttons that change nothing: one copies a command, one examines more.

use std::time::Duration;

use serde_json::json;
use tidelock::doctor::{Doctor, Thresholds};
use tidelock::prelude::*;
use tidelock::store::limits::PAGE_SIZE;
use tidelock::store::{Commit, ItemRef, Mark, StreamName, Wake};

use crate::shop::place;
use crate::site::{OPERATOR, READER, for_real, visit_with};

/// UI-9. Readers can copy, too: the command runs in their own shell.
#[test]
fn a_remedy_outside_the_server_is_copied_as_a_command() {
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
            page.sees(".toast", "does not allow copying").await;
            page.permit("clipboard-write", true).await;
            page.permit("clipboard-read", true).await;
            page.click("//article[contains(., 'order-1')]//button[.='Copy the command']").await;
            page.sees(".toast", "Copied").await;
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
fn examining_more_shows_findings_beyond_the_limit_and_keeps_it() {
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        // The doctor examines whole pages: one page, and one item more.
        let letters: Vec<_> = (0..=PAGE_SIZE).collect();
        for some in letters.chunks(100) {
            let commit = some.iter().fold(Commit::new(), |commit, nth| commit.wake(letter(*nth)));
            tidelock.store().commit(commit).await.unwrap().committed().unwrap();
        }
        let near = Thresholds { scan: PAGE_SIZE, ..Thresholds::default() };
        visit_with(&tidelock, impatient(&tidelock, near), async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/doctor").await;
            page.sees(".finding", "there are more than the 1000 that were checked").await;
            page.sees(".finding", "1000 items").await;
            page.click("//button[.='Examine more']").await;
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

/// A doctor with these thresholds, and no minimum age.
fn impatient(tidelock: &Tidelock, bounds: Thresholds) -> Doctor {
    Doctor::over(tidelock.store().clone())
        .within(Thresholds { stuck_after: Duration::ZERO, ..bounds })
}

/// Starts to close a stream, with an archive that fails.
async fn half_close(tidelock: &Tidelock, stream: &str) {
    place(tidelock, stream, &json!({ "address": "Dock 1" })).await;
    let full = |_: Vec<tidelock::store::StoredEvent>| async { Err::<(), _>("the disk is full") };
    tidelock.archive_stream_to(&StreamName::new(stream).unwrap(), full).close().await.unwrap_err();
}
