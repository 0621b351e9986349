//! Long lists are read one page at a time.

use serde_json::json;
use tidelock::When;
use tidelock::prelude::*;
use tidelock::store::{Commit, ItemRef, NewEvent, StreamName, Wake};

use crate::site::{OPERATOR, for_real, visit};

/// The number of streams; `TIDELOCK_STREAMS` overrides it.
const STREAMS: usize = 5_000;
const AT_ONCE: usize = 100;

/// UI-6.
#[test]
fn a_list_of_thousands_is_requested_one_page_at_a_time() {
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
            assert_eq!(page.run(rows, vec![]).await, json!(50), "at most one page is kept");
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

/// Rows of each kind: more than any list keeps.
const OF_EACH: usize = 420;
/// The maximum number of rows of a table, and of lines of an event list.
const ROWS: usize = 50;
const EVENTS: usize = 300;

/// A list, the selector of its rows, how many of them are kept at most, and the button that loads
/// more.
const LISTS: &[(&str, &str, usize, &str)] = &[
    ("#/streams", "tbody tr:not(.skeleton)", ROWS, "Next"),
    ("#/leases", "tbody tr:not(.skeleton)", ROWS, "Next"),
    ("#/reactions/mail", "tbody tr:not(.skeleton)", ROWS, "Next"),
    ("#/runs", "tbody tr:not(.skeleton)", ROWS, "Next"),
    ("#/scopes", "tbody tr:not(.skeleton)", ROWS, "Next"),
    ("#/claims", "tbody tr:not(.skeleton)", 2 * ROWS, "Next"),
    ("#/audit", "tbody tr:not(.skeleton)", ROWS, "Next"),
    ("#/feed?after=0", ".event", EVENTS, "Load more"),
    ("#/streams/long", ".event", EVENTS, "Load more"),
];

/// UI-6. Every list, to its end: what each request asks for and returns, and what the page keeps.
#[test]
fn every_list_requests_and_keeps_one_page_at_a_time() {
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        crowd(&tidelock).await;
        visit(&tidelock, async |page| {
            page.open_as(OPERATOR).await;
            for (list, rows, most, further) in LISTS {
                page.run("performance.clearResourceTimings(); performance.setResourceTimingBufferSize(10000)", vec![]).await;
                page.go(list).await;
                let shown = format!("return document.querySelectorAll('{rows}').length");
                page.until("the first page is there", &format!("{shown} > 0"), vec![]).await;
                let mut pages = 1;
                let next = format!("return [...document.querySelectorAll('.pager button')].find((it) => it.textContent === '{further}' && !it.disabled && !it.hidden) !== undefined");
                while page.run(&next, vec![]).await == json!(true) {
                    let before = page.run(READ, vec![]).await.as_u64().unwrap();
                    page.click(&format!("//button[.='{further}' and not(@disabled) and not(@hidden)]")).await;
                    page.until("another page was read", &format!("{READ} > {before}"), vec![]).await;
                    page.until("it is shown", "return document.querySelector('[aria-busy=true]') === null", vec![]).await;
                    let kept = page.run(&shown, vec![]).await.as_u64().unwrap();
                    assert!(kept <= *most as u64, "{list}: {kept} rows are kept after {pages} pages");
                    pages += 1;
                    let requested = page.run(REQUESTED, vec![]).await.as_u64().unwrap();
                    assert!(requested <= pages as u64, "{list}: {requested} pages were requested, and {pages} shown");
                    assert!(pages < 50, "{list}: it does not end");
                }
                // The feed also receives events while it is followed.
                let all = format!("{shown} === {most}");
                match list.starts_with("#/feed") {
                    true => page.until("as many are there as are kept", &all, vec![]).await,
                    false => assert!(pages >= OF_EACH / 100, "{list}: only {pages} pages of {OF_EACH}"),
                }
                let asked = page.run(ASKED, vec![]).await;
                for (url, bytes) in asked.as_array().unwrap().iter().map(|it| (it[0].as_str().unwrap(), it[1].as_u64().unwrap())) {
                    let limit: usize = url.split("limit=").nth(1).map_or(usize::MAX, |it| it.split('&').next().unwrap().parse().unwrap());
                    assert!(limit <= 100, "{list}: {url} asks for more than a page");
                    assert!(bytes < 60_000, "{list}: {url} brought {bytes} bytes");
                }
            }
        })
        .await;
    });
}

/// The maximum number of entries in the timeline of a run.
const ENTRIES: usize = 2_000;

/// UI-6. A timeline is read page by page too, up to its bound.
#[test]
fn the_timeline_of_a_run_is_bounded() {
    for_real(async {
        let tidelock = Tidelock::open("memory:").await.unwrap();
        let run = tidelock.start("checkout", "long", &()).version(1).await.unwrap();
        for nth in 0..ENTRIES + 100 {
            run.signal("noted", &nth).await.unwrap();
        }
        visit(&tidelock, async |page| {
            page.open_as(OPERATOR).await;
            page.go("#/runs/long").await;
            page.sees(".note", "The first 2,000 entries").await;
            let asked = page.run(HISTORY, vec![]).await;
            let pages: Vec<u64> = serde_json::from_value(asked).unwrap();
            assert!(pages.iter().all(|limit| *limit <= 200), "{pages:?}");
            assert_eq!(pages.iter().sum::<u64>(), ENTRIES as u64, "and none later");
        })
        .await;
    });
}

/// How many entries each request of a history asked for.
const HISTORY: &str = "return performance.getEntriesByType('resource').filter((it) => it.name.includes('/history?')).map((it) => Number(new URL(it.name).searchParams.get('limit')))";

/// How many pages of lists were read.
const READ: &str = "return performance.getEntriesByType('resource').filter((it) => it.name.includes('limit=')).length";

/// How many different pages of one list were requested: of the one that was requested most, because
/// a request of the screen before can end late, and the screen of claims has two lists.
const REQUESTED: &str = "const pages = new Map(); for (const { name } of performance.getEntriesByType('resource').filter((it) => it.name.includes('limit='))) { const list = new URL(name).pathname; pages.set(list, (pages.get(list) ?? new Set()).add(name)); } return Math.max(...[...pages.values()].map((it) => it.size))";

/// The requests of lists, and the size of their responses.
const ASKED: &str = "return performance.getEntriesByType('resource').filter((it) => /\\/v1\\/(streams|leases|reactions\\/|runs|scopes|claims|quotas|audit|events)/.test(it.name) && !/follow|live/.test(it.name) && !/streams\\/[^/?]+$/.test(it.name)).map((it) => [it.name, it.decodedBodySize])";

/// Creates many of everything that is listed.
async fn crowd(tidelock: &Tidelock) {
    let store = tidelock.store();
    for first in (0..OF_EACH).step_by(AT_ONCE) {
        let commit = (first..OF_EACH.min(first + AT_ONCE)).fold(Commit::new(), |commit, nth| {
            let stream = StreamName::new(format!("parcel-{nth:06}")).unwrap();
            let wake = |queue: &str| {
                Wake::at(ItemRef::parse(queue, &format!("item-{nth:06}")).unwrap(), When::NOW)
            };
            commit
                .append(
                    &stream,
                    ExpectedVersion::NoStream,
                    [NewEvent::of("sent", &json!(nth)).unwrap()],
                )
                .wake(wake("post"))
                .wake(wake("~reaction/mail"))
        });
        store.commit(commit).await.unwrap().committed().unwrap();
        let events = (first..OF_EACH.min(first + AT_ONCE))
            .map(|nth| NewEvent::of("noted", &json!(nth)).unwrap());
        let (long, audit) = (StreamName::new("long").unwrap(), StreamName::new("~audit").unwrap());
        let asked = (0..AT_ONCE).map(|nth| {
            let said = json!({ "who": "ada", "what": "POST /v1/leases/unblock", "on": format!("/v1/{nth}"), "parameters": null });
            NewEvent::of("asked", &said).unwrap()
        });
        let both = Commit::new().append(&long, ExpectedVersion::Any, events).append(
            &audit,
            ExpectedVersion::Any,
            asked,
        );
        store.commit(both).await.unwrap().committed().unwrap();
    }
    for nth in 0..OF_EACH {
        let id = format!("thing-{nth:06}");
        tidelock.start("checkout", &id, &json!(nth)).version(1).await.unwrap();
        tidelock.scope::<serde_json::Value>(ScopeKind::USER, &id).set(&json!(nth)).await.unwrap();
        let claim = tidelock.claims().idempotency(&id).claim::<serde_json::Value>().await.unwrap();
        let IdempotencyClaim::Won(won) = claim else { panic!("it is free") };
        won.complete(&json!(nth)).await.unwrap();
    }
}
