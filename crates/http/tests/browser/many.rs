//! A list of many is read a page at a time.

use serde_json::json;
use tidelock::prelude::*;

use crate::site::{OPERATOR, for_real, visit};

/// How many there are; another number can be asked for with `TIDELOCK_STREAMS`.
const STREAMS: usize = 5_000;
const AT_ONCE: usize = 100;

/// UI-6.
#[test]
fn a_list_of_thousands_is_asked_for_and_shown_a_page_at_a_time() {
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        for first in (0..streams()).step_by(AT_ONCE) {
            let commit = (first..first + AT_ONCE).fold(Commit::new(), |commit, nth| {
                let stream = StreamName::new(format!("parcel-{nth:06}")).unwrap();
                commit.append(
                    &stream,
                    ExpectedVersion::NoStream,
                    [NewEvent::of("sent", &json!(nth)).unwrap()],
                )
            });
            tidelock.store().commit(commit).await.unwrap().committed().unwrap();
        }
        visit(&tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/streams").await;
            page.sees("td", "parcel-000049").await;
            page.sees(".pager", "50 streams · page 1").await;
            page.click("//button[.='Next']").await;
            page.sees("td", "parcel-000099").await;
            page.sees_no("td", "parcel-000049").await;
            page.click("//button[.='Previous']").await;
            page.sees("td", "parcel-000049").await;
            page.write("input[name=prefix]", "parcel-0049").await;
            page.sees("td", "parcel-004949").await;
            page.sees_no("td", "parcel-000049").await;
            let rows = "return document.querySelectorAll('tbody tr').length";
            assert_eq!(page.run(rows, vec![]).await, json!(50), "never more than a page is kept");
            let largest = "return Math.max(...performance.getEntriesByType('resource').filter((it) => it.name.includes('/v1/streams')).map((it) => it.decodedBodySize))";
            let largest = page.run(largest, vec![]).await.as_u64().unwrap();
            assert!(largest < 30_000, "an answer of {largest} bytes is more than a page");
            let slowest = "return Math.max(...performance.getEntriesByType('resource').filter((it) => it.name.includes('/v1/streams')).map((it) => it.duration))";
            eprintln!("{} streams: the slowest page took {} ms", streams(), page.run(slowest, vec![]).await);
        })
        .await;
    });
}

fn streams() -> usize {
    std::env::var("TIDELOCK_STREAMS").map_or(STREAMS, |many| many.parse().unwrap())
}
