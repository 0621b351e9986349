//! Durable scopes with concurrent writers in several processes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tidelock::store::{Commit, NewEvent, StoreExt, StreamName, ViolationKind};
use tidelock_test_stage::{TestStore, on_every_store};
use tokio::task::JoinSet;

use crate::basket::{Basket, put, revision, shared};

on_every_store!(
    writers_of_twelve_processes_all_land,
    a_mutation_is_retried_on_the_new_state,
    a_starving_caller_gets_an_error_at_its_deadline,
    a_scope_that_was_deleted_and_made_again_is_not_taken_for_the_old_one,
    a_revision_that_the_caller_named_is_not_retried,
    other_parts_land_with_the_mutation_or_not_at_all,
);

/// SCOPE-5. Schedules 54 and 93: each has its own connections, and all start at once, on a scope
/// that does not exist.
async fn writers_of_twelve_processes_all_land(stage: TestStore) {
    const WRITERS: usize = 12;
    const MUTATIONS: i64 = 4;
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let scope = shared(&stage.tidelock().await);
        writers.spawn(async move {
            let mut sums = Vec::new();
            for nth in 0..MUTATIONS {
                scope.push("items", format!("{writer}-{nth}")).await.unwrap();
                sums.push(scope.increment("total", 1).await.unwrap().value);
            }
            sums
        });
    }
    let mut sums = writers.join_all().await.concat();
    sums.sort_unstable();
    let all = i64::try_from(WRITERS).unwrap() * MUTATIONS;
    assert_eq!(sums, (1..=all).collect::<Vec<_>>(), "each was told its own sum");
    let mut items = shared(&stage.tidelock().await).get().await.unwrap().items;
    items.sort_unstable();
    items.dedup();
    assert_eq!(items.len(), sums.len(), "none is lost and none is there twice");
}

/// A mutator that is overtaken by another mutation on its first so many calls.
async fn overtaken<R>(
    scope: &Scope<Basket>,
    times: u32,
    meanwhile: impl AsyncFn(u32) + Copy,
    answer: impl Fn(&mut Basket) -> R + Copy,
) -> Result<(R, u32), ScopeError> {
    let calls = AtomicU32::new(0);
    let mutate = |mut basket: Basket| {
        let nth = calls.fetch_add(1, Ordering::SeqCst);
        async move {
            if nth < times {
                meanwhile(nth).await;
            }
            let answer = answer(&mut basket);
            Ok::<_, Infallible>((basket, answer))
        }
    };
    let mutated = scope.mutate_async(mutate).await?;
    assert_eq!(mutated.attempts, calls.load(Ordering::SeqCst));
    Ok((mutated.value, mutated.attempts))
}

/// SCOPE-5.
async fn a_mutation_is_retried_on_the_new_state(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    let rival = &there;
    let meanwhile = async |nth: u32| put(rival, &nth.to_string()).await;
    let add = |basket: &mut Basket| {
        basket.items.push("mine".to_owned());
        basket.items.len()
    };
    let (length, attempts) = overtaken(&here, 3, meanwhile, add).await.unwrap();
    assert_eq!((length, attempts), (4, 4), "the answer is of the invocation that counted");
    assert_eq!(there.get().await.unwrap().items, ["0", "1", "2", "mine"]);
}

/// SCOPE-5. Schedule 54: within its deadline every caller makes progress, or gets an error.
async fn a_starving_caller_gets_an_error_at_its_deadline(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    let here = here.within(Duration::from_secs(1));
    let rival = &there;
    let meanwhile = async |nth: u32| put(rival, &nth.to_string()).await;
    let error = overtaken(&here, u32::MAX, meanwhile, |basket| basket.total = 1).await.unwrap_err();
    match error {
        ScopeError::Contended { attempts, .. } => assert!(attempts > 1, "{attempts}"),
        // Its deadline can also pass in the middle of a mutator.
        ScopeError::TimedOut { .. } => {}
        other => panic!("{other}"),
    }
    assert_eq!(there.get().await.unwrap().total, 0, "and it changes nothing");
}

/// SCOPE-5. Schedule 55: revisions keep increasing, so that an old one never recurs.
async fn a_scope_that_was_deleted_and_made_again_is_not_taken_for_the_old_one(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    put(&here, "old").await;
    let first = revision(&there).await.unwrap();
    let rival = &there;
    let meanwhile = async |_: u32| {
        rival.delete().await.unwrap();
        rival.create(Basket { items: vec!["new".to_owned()], ..Basket::default() }).await.unwrap();
    };
    let add = |basket: &mut Basket| basket.items.push("mine".to_owned());
    overtaken(&here, 1, meanwhile, add).await.unwrap();
    assert_eq!(there.get().await.unwrap().items, ["new", "mine"]);
    assert_eq!(revision(&there).await, Some(first + 3));
}

/// SCOPE-5.
async fn a_revision_that_the_caller_named_is_not_retried(stage: TestStore) {
    let (here, there) = (shared(&stage.tidelock().await), shared(&stage.tidelock().await));
    let first = here.increment("total", 1).await.unwrap().revision().unwrap();
    let second = here.at_revision(first).increment("total", 1).await.unwrap().revision().unwrap();
    there.increment("total", 1).await.unwrap();
    let called = AtomicU32::new(0);
    let error = here
        .at_revision(second)
        .mutate(|_| called.fetch_add(1, Ordering::SeqCst))
        .await
        .unwrap_err();
    let found = second.get() + 1;
    assert_eq!(
        error.to_string(),
        format!("scope basket/shared: expected revision {second}, found {found}")
    );
    assert_eq!(called.load(Ordering::SeqCst), 0);
    let rival = there.clone();
    let third = here.load().await.unwrap().revision.unwrap();
    let late = |mut basket: Basket| {
        let rival = rival.clone();
        async move {
            rival.increment("total", 1).await.unwrap();
            basket.total = 100;
            Ok::<_, Infallible>((basket, ()))
        }
    };
    let error = here.at_revision(third).mutate_async(late).await.unwrap_err();
    assert!(matches!(error, ScopeError::Moved { .. }), "{error}");
    assert_eq!(there.get().await.unwrap().total, 4);
}

/// SCOPE-14.
async fn other_parts_land_with_the_mutation_or_not_at_all(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let scope = shared(&tidelock);
    let stream = StreamName::new("sale-1").unwrap();
    let sold = || {
        let event = NewEvent::of("sold", &1).unwrap();
        Commit::new().append(&stream, ExpectedVersion::NoStream, [event])
    };
    scope.mutation().also(sold()).increment("total", 1).await.unwrap();
    let error = scope.mutation().also(sold()).increment("total", 1).await.unwrap_err();
    assert!(
        matches!(&error, ScopeError::Part(conflict) if conflict.has(ViolationKind::Taken)),
        "{error}"
    );
    assert_eq!(scope.get().await.unwrap().total, 1);
    assert_eq!(tidelock.store().read_whole_stream(&stream).await.unwrap().len(), 1);
    let local = crate::basket::in_memory();
    local
        .mutation()
        .also(sold())
        .increment("total", 1)
        .await
        .expect_err("there is no store to put it in");
}
