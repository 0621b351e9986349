//! Things that everybody wants at once. What waits for one of them is not stuck, only slow; so
//! these are notices.
//!
//! Nothing is scanned for them. Streams: the newest events of the feed say who writes where. Locks:
//! whoever waits for one stands in a line that is kept in the store, and is gone when nobody does.
//! Of a record that many write to, a store keeps nothing but its newest revision; that contention
//! is counted by the processes that meet it, in their metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidelock_store::{
    FeedQuery, FeedStart, Result, StoreExt, StoredEvent, StreamName, Timestamp, limits,
};

use super::check::Check;
use super::diagnosis::Findings;
use super::display::span;
use super::finding::{Finding, FindingKind, Severity};
use super::remedy::Remedy;
use super::subject::Subject;
use crate::claims::ContendedLocks;
use crate::reactions::is_reserved;

/// How far back is looked.
const LATELY: Duration = Duration::from_secs(10);
/// Fewer commits than this, in that time, are no crowd.
const CROWD: usize = 200;

pub(super) async fn look(exam: &Check, findings: &mut Findings) -> Result<()> {
    let newest = newest(exam).await?;
    let lately = newest.iter().filter(|event| exam.now.since(event.recorded_at) <= LATELY);
    let written = Written::count(lately);
    written.hot().for_each(|finding| findings.add(finding));
    ContendedLocks::all(&*exam.store)
        .await?
        .into_iter()
        .map(in_line)
        .for_each(|finding| findings.add(finding));
    Ok(())
}

/// The newest events, at most a page of them.
async fn newest(exam: &Check) -> Result<Vec<StoredEvent>> {
    Ok(exam.store.full_page(FeedQuery::from(FeedStart::Last(limits::PAGE_SIZE))).await?.events)
}

/// The moments at which commits wrote, by stream. What was committed at one moment was committed
/// together, and met nobody.
#[derive(Debug, Default)]
struct Written {
    streams: BTreeMap<StreamName, BTreeSet<Timestamp>>,
    all: usize,
}

impl Written {
    fn count<'a>(events: impl Iterator<Item = &'a StoredEvent>) -> Self {
        let mut written = Self::default();
        for event in events.filter(|event| !is_reserved(event.stream.as_str())) {
            let moments = written.streams.entry(event.stream.clone()).or_default();
            written.all += usize::from(moments.insert(event.recorded_at));
        }
        written
    }

    /// Streams that most commits go to.
    fn hot(&self) -> impl Iterator<Item = Finding> {
        let most = self
            .streams
            .iter()
            .filter(|(_, moments)| moments.len() >= CROWD && moments.len() * 2 > self.all);
        most.filter_map(|(stream, moments)| finding(stream, moments, self.all))
    }
}

fn finding(stream: &StreamName, moments: &BTreeSet<Timestamp>, all: usize) -> Option<Finding> {
    let (first, last, count) = (moments.first()?, moments.last()?, moments.len());
    Some(Finding {
        kind: FindingKind::Hot,
        severity: Severity::Warning,
        subject: Subject::Stream(stream.clone()),
        since: Some(*first),
        what: format!(
            "{count} of the last {all} commits wrote to it, within {}: they wait for each other",
            span(last.since(*first))
        ),
        remedy: Remedy::advice(
            "spread it over several streams, or say which of its events commute; see docs/guides/events.md",
        ),
    })
}

/// A lock that others wait for.
fn in_line(crowd: ContendedLocks) -> Finding {
    let ContendedLocks { key, waiting, holder } = crowd;
    let (has, since) = match holder {
        Some((by, since)) => (format!("{by:?} has it"), since),
        None => ("nobody has it at the moment".to_owned(), None),
    };
    Finding {
        kind: FindingKind::Hot,
        severity: Severity::Warning,
        subject: Subject::Claim(key),
        since,
        what: format!("{waiting} in line for it; {has}"),
        remedy: Remedy::advice(
            "hold it for less, or lock less with it: one lock for each thing that only one may be at",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tidelock_store::{Clock, MemoryStore, Store};

    use super::*;
    use crate::doctor::Doctor;
    use crate::prelude::*;

    /// A clock on which some time passes between any two looks.
    #[derive(Debug, Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn wall(&self) -> Timestamp {
            Timestamp::from_micros(1_893_456_000_000_000)
                .expect("it is in this century")
                .plus(self.elapsed())
        }

        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    /// What is hot once so many commits went to one stream, and so many to others.
    async fn hot(to_one: usize, to_others: usize) -> Vec<String> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(Arc::new(Ticking::default())));
        let streams = (0..to_others).map(|nth| format!("order-{nth}"));
        for stream in streams.chain(std::iter::repeat_n("till".to_owned(), to_one)) {
            let (stream, event) =
                (StreamName::new(stream).unwrap(), NewEvent::of("noted", &1).unwrap());
            store
                .append(&stream, ExpectedVersion::Any, vec![event])
                .await
                .unwrap()
                .committed()
                .unwrap();
        }
        let diagnosis = Doctor::over(store).examine().await.unwrap();
        assert!(diagnosis.is_healthy(), "to be slow is not to be ill");
        let hot = diagnosis.findings.iter().filter(|finding| finding.kind == FindingKind::Hot);
        hot.map(|finding| format!("{}: {}", finding.subject, finding.what)).collect()
    }

    /// CMD-5.
    #[tokio::test]
    async fn a_stream_that_most_commits_go_to_is_hot() {
        let found = hot(CROWD, 50).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("stream \"till\": 200 of the last 250 commits wrote to it"),
            "{found:?}"
        );
    }

    #[tokio::test]
    async fn a_few_commits_or_one_stream_among_many_are_no_crowd() {
        assert!(hot(CROWD / 2, 0).await.is_empty());
        assert!(hot(CROWD, 2 * CROWD).await.is_empty());
    }
}
