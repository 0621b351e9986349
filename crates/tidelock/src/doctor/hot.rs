//! Contention: streams and locks that many callers want at once. Waiting for them is slow, not
//! stuck, so these are warnings.
//!
//! Nothing is scanned. Streams: the newest events of the feed show which stream each commit wrote
//! to. Locks: the store keeps a wait queue per contended lock, which is removed when it is empty.
//! Records have [their own check](super::hot_records).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidelock_store::{
    FeedQuery, FeedStart, Result, StoreExt, StoredEvent, StreamName, Timestamp, limits,
};

use super::display::span;
use super::examination::Examination;
use super::finding::{Finding, FindingKind, Findings};
use super::subject::Subject;
use crate::claims::ContendedLocks;
use crate::reactions::is_reserved;

/// How far back the feed is read.
const WINDOW: Duration = Duration::from_secs(10);
/// Fewer commits than this in that time are not contention.
const CONTENDED: usize = 200;

pub(super) async fn check(exam: &Examination, findings: &mut Findings) -> Result<()> {
    // The newest events, at most one page.
    let newest = FeedQuery::from(FeedStart::Last(limits::PAGE_SIZE));
    let newest = exam.store.full_page(newest).await?.events;
    let recent = newest.iter().filter(|event| exam.now.since(event.recorded_at) <= WINDOW);
    let written = CommitTimes::count(recent);
    written.hot().for_each(|finding| findings.add(finding));
    ContendedLocks::all(&*exam.store)
        .await?
        .into_iter()
        .map(contended)
        .for_each(|finding| findings.add(finding));
    Ok(())
}

/// Commit times by stream. Events with one commit time were committed together and did not contend.
#[derive(Debug, Default)]
struct CommitTimes {
    streams: BTreeMap<StreamName, BTreeSet<Timestamp>>,
    all: usize,
}

impl CommitTimes {
    fn count<'a>(events: impl Iterator<Item = &'a StoredEvent>) -> Self {
        let mut written = Self::default();
        for event in events.filter(|event| !is_reserved(event.stream.as_str())) {
            let moments = written.streams.entry(event.stream.clone()).or_default();
            written.all += usize::from(moments.insert(event.recorded_at));
        }
        written
    }

    /// Streams that receive most of the commits.
    fn hot(&self) -> impl Iterator<Item = Finding> {
        let most = self
            .streams
            .iter()
            .filter(|(_, moments)| moments.len() >= CONTENDED && moments.len() * 2 > self.all);
        most.filter_map(|(stream, moments)| finding(stream, moments, self.all))
    }
}

fn finding(stream: &StreamName, moments: &BTreeSet<Timestamp>, all: usize) -> Option<Finding> {
    let (first, last, count) = (moments.first()?, moments.last()?, moments.len());
    let what = format!(
        "{count} of the last {all} commits wrote to it, within {}: they contend with each other",
        span(last.since(*first))
    );
    let finding = Finding::warning(FindingKind::Hot, Subject::Stream(stream.clone()), what);
    Some(finding.since(*first).advice(
        "spread it over several streams, or declare which of its events commute; see docs/guides/events.md",
    ))
}

/// A lock with waiters.
fn contended(locks: ContendedLocks) -> Finding {
    let ContendedLocks { key, waiting, holder } = locks;
    let (has, since) = match holder {
        Some((by, since)) => (format!("held by {by:?}"), since),
        None => ("not held at the moment".to_owned(), None),
    };
    let what = format!("{waiting} waiting for it; {has}");
    Finding::warning(FindingKind::Hot, Subject::Claim(key), what).since(since).advice(
        "hold it for a shorter time, or use a finer lock: one for each resource that needs exclusive access",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tidelock_store::{
        Clock, ExpectedVersion, MemoryStore, NewEvent, Store, StoreExt, StreamName, Timestamp,
    };

    use super::*;
    use crate::doctor::Doctor;

    /// A clock that advances at every reading.
    #[derive(Debug, Default)]
    struct TickingClock(AtomicU64);

    impl Clock for TickingClock {
        fn wall(&self) -> Timestamp {
            Timestamp::from_micros(1_893_456_000_000_000)
                .expect("it is in this century")
                .plus(self.elapsed())
        }

        fn elapsed(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    /// The hot findings after `to_one` commits to one stream and `to_others` to others.
    async fn hot(to_one: usize, to_others: usize) -> Vec<String> {
        let store: Arc<dyn Store> =
            Arc::new(MemoryStore::with_clock(Arc::new(TickingClock::default())));
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
        assert!(diagnosis.is_healthy(), "contention is a warning");
        let hot = diagnosis.findings.iter().filter(|finding| finding.kind == FindingKind::Hot);
        hot.map(|finding| format!("{}: {}", finding.subject, finding.what)).collect()
    }

    /// CMD-5.
    #[tokio::test]
    async fn a_stream_that_most_commits_go_to_is_hot() {
        let found = hot(CONTENDED, 50).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("stream \"till\": 200 of the last 250 commits wrote to it"),
            "{found:?}"
        );
    }

    #[tokio::test]
    async fn a_few_commits_or_one_stream_among_many_are_not_contention() {
        assert!(hot(CONTENDED / 2, 0).await.is_empty());
        assert!(hot(CONTENDED, 2 * CONTENDED).await.is_empty());
    }
}
