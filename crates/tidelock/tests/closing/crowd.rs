//! Closing a stream under concurrent appends, on slow stores, and against raw closes.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock::closing::{CloseError, discard};
use tidelock::doctor::{Doctor, Thresholds};
use tidelock::prelude::*;
use tidelock::store::{
    Append, Commit, HeadQuery, NewEvent, Result, RetryAdvice, Store, StoreError, StoreErrorKind,
    StoreExt, StoreOperation, StoredEvent, StreamName, StreamState,
};
use tidelock_test_stage::{
    DyingStore, Interceptor, Observed, PATIENCE, Running, TestStore, Wrapped, brisk, in_memory,
    on_every_store,
};

use crate::account::{Account, Shelf, paid_into};

on_every_store!(
    a_close_wins_against_a_writer_that_is_always_quicker,
    a_close_behind_a_writer_that_is_always_quicker_waits_for_reactions_after_the_tombstone,
    a_window_of_a_closed_stream_is_refused,
);

/// Appends an event before each commit of the wrapped caller; a bounded number, so that the test
/// ends.
#[derive(Debug)]
struct Quicker {
    store: Arc<dyn Store>,
    landed: AtomicU64,
    left: AtomicU64,
}

impl Quicker {
    fn than(store: &Arc<dyn Store>) -> Arc<Wrapped<Self>> {
        let quicker =
            Self { store: store.clone(), landed: AtomicU64::new(0), left: AtomicU64::new(100) };
        Wrapped::new(store.clone(), quicker)
    }

    async fn append(&self) -> Result<()> {
        let too_many = || {
            StoreError::new(
                StoreErrorKind::Unavailable,
                RetryAdvice::Never,
                StoreOperation::Commit,
                "it never comes to an end",
            )
        };
        let left = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).map_err(|_| too_many())?;
        let paid = NewEvent::of("paid", &serde_json::json!({ "amount": 1 }))?;
        let stream = StreamName::new("account-7")?;
        if self
            .store
            .append(&stream, ExpectedVersion::Exists, vec![paid])
            .await?
            .committed()
            .is_ok()
        {
            self.landed.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Interceptor for Quicker {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if operation == StoreOperation::Commit {
            self.append().await?;
        }
        call.await
    }
}

/// Schedule 108. CLOSE-7.
async fn a_close_wins_against_a_writer_that_is_always_quicker(stage: TestStore) {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    paid_into(&tidelock, 3).await;
    let quicker = Quicker::than(tidelock.store());
    let account = Tidelock::over(quicker.clone()).aggregate::<Account>("7");
    let closed = account.archive_to(shelf.archive()).close().await.unwrap();
    let landed = 3 + quicker.landed.load(Ordering::SeqCst);
    assert_eq!(closed.through.get(), landed);
    assert_eq!(
        shelf.versions(),
        (1..=landed).collect::<Vec<_>>(),
        "every event that was acknowledged"
    );
}

/// Schedule 108. CLOSE-2, CLOSE-7: events between the last read and the tombstone are handled
/// before they are removed.
async fn a_close_behind_a_writer_that_is_always_quicker_waits_for_reactions_after_the_tombstone(
    stage: TestStore,
) {
    let (tidelock, shelf, seen) = (stage.tidelock().await, Shelf::default(), Observed::default());
    paid_into(&tidelock, 3).await;
    let noted = seen.clone();
    let follows = on_any().in_streams("account-");
    let running = Running::start(tidelock.app().worker(brisk("teller")).reaction(
        "mail",
        follows,
        move |event: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note(event.version.to_string());
                Ok(())
            }
        },
    ));
    seen.until(3).await;
    let quicker = Quicker::than(tidelock.store());
    let account = Tidelock::over(quicker.clone()).aggregate::<Account>("7");
    let closed = account.archive_to(shelf.archive()).within(PATIENCE).close().await.unwrap();
    let all: Vec<String> = (1..=closed.through.get()).map(|version| version.to_string()).collect();
    assert_eq!(seen.lines(), all);
    assert_eq!(shelf.versions().len(), all.len());
    running.stop().await;
}

/// Schedules 32 and 108. CLOSE-4, CLOSE-7: a caller that dies at every call, with a writer that is
/// always faster.
#[test]
fn a_close_under_appends_is_finished_after_a_death_at_any_call_with_every_event_archived() {
    for last_words in [false, true] {
        let mut deaths = 0;
        for calls in 0..200 {
            let (sender, died) = std::sync::mpsc::channel();
            in_memory(|stage| async move {
                sender.send(dies_at(&stage, calls, last_words).await).unwrap();
            });
            if !died.recv().unwrap() {
                break;
            }
            deaths += 1;
        }
        assert!(
            (15..200).contains(&deaths),
            "died {deaths} times, so the schedule was not what it says"
        );
    }
}

/// Lets one caller die at its nth call, and another finish; returns whether the first needed as
/// many calls.
async fn dies_at(stage: &TestStore, calls: i64, last_words: bool) -> bool {
    let (tidelock, shelf) = (stage.tidelock().await, Shelf::default());
    paid_into(&tidelock, 3).await;
    let quicker = Quicker::than(tidelock.store());
    let mortal = DyingStore::over(quicker.clone(), calls, last_words);
    let books =
        |tidelock: &Tidelock| tidelock.aggregate::<Account>("7").archive_to(shelf.archive());
    let died = books(&Tidelock::over(mortal.clone())).close().await;
    if !mortal.is_dead() {
        died.unwrap();
        return false;
    }
    let heir = Tidelock::over(quicker.clone());
    while let Err(error) = books(&heir).close().await {
        assert!(matches!(error, CloseError::Busy { .. }), "{calls} calls, {last_words}: {error}");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let landed = 3 + quicker.landed.load(Ordering::SeqCst);
    assert_eq!(shelf.distinct(), (1..=landed).collect::<Vec<_>>(), "{calls} calls, {last_words}");
    let page = tidelock.store().heads(HeadQuery::prefix("account-7")).await.unwrap();
    assert_eq!((page.heads[0].state.version().unwrap().get(), page.heads[0].count), (landed, 0));
    true
}

/// CLOSE-7.
async fn a_window_of_a_closed_stream_is_refused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let account = paid_into(&tidelock, 3).await;
    let shut = Append::closing(account.stream().unwrap(), ExpectedVersion::Exists);
    tidelock.store().commit(Commit::new().with_append(shut)).await.unwrap().committed().unwrap();
    let quicker = Quicker::than(tidelock.store());
    let window =
        Tidelock::over(quicker).aggregate::<Account>("7").archive_to(discard).keep_last(1).await;
    let told = window.unwrap_err().to_string();
    assert!(told.contains("closed"), "{told}");
    let head = tidelock.store().head(account.stream().unwrap()).await.unwrap();
    assert!(
        matches!(head.state, StreamState::Closed(_)) && head.count == 3,
        "nothing was taken away"
    );
}

/// Delays every call. Only in simulated time.
#[derive(Debug)]
struct Slow;

impl Interceptor for Slow {
    async fn call<T: Send>(
        &self,
        _: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        tokio::time::sleep(Duration::from_secs(4)).await;
        call.await
    }
}

/// Schedule 108. CLOSE-7: on a store where each call takes a quarter of the lease, in simulated
/// time.
#[test]
fn a_close_that_takes_longer_than_its_lease_keeps_it_and_the_doctor_finds_nothing() {
    in_memory(|stage| async move {
        let tidelock = stage.tidelock().await;
        paid_into(&tidelock, 3).await;
        let (store, seen) = (tidelock.store().clone(), Observed::default());
        let noted = seen.clone();
        let examined = move |_: Vec<StoredEvent>| {
            let (store, noted) = (store.clone(), noted.clone());
            async move {
                let bounds = Thresholds { stuck_after: Duration::ZERO, ..Thresholds::default() };
                let diagnosis = Doctor::over(store).within(bounds).examine().await?;
                noted.note(format!("{}", diagnosis.is_healthy()));
                Ok::<_, StoreError>(())
            }
        };
        let slow = Tidelock::over(Wrapped::new(tidelock.store().clone(), Slow));
        slow.aggregate::<Account>("7").archive_to(examined).close().await.unwrap();
        assert_eq!(seen.lines(), ["true"]);
    });
}
