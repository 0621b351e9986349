//! Deduplication of appends: a retry gets the first attempt's result, and anything else is a
//! mismatch.

use std::slice;

use tidelock_store::{
    AfterTrim, Append, Appended, Commit, EventType, ExpectedRevision, ExpectedVersion, NewEvent,
    Part, RecordWrite, Store, StoreError, StoreErrorKind, StoreExt, StreamQuery, StreamState,
    ViolationReason,
};

use crate::case::{World, cases};
use crate::sample::{
    commit, event, events, everything, exact, failed, json, key, refused_whole, stream, value,
    version, violation,
};

cases! { "log::dedupe":
    "LOG-5" an_append_sent_again_gives_the_first_ones_result,
    "LOG-5" a_retry_is_known_though_others_have_appended_since,
    "LOG-5 LOG-8" a_retry_is_known_though_the_stream_was_closed_since,
    "LOG-5" a_retry_over_another_handle_is_known,
    "LOG-5" some_events_of_an_earlier_append_in_a_row_are_known,
    "LOG-5" two_earlier_appends_sent_as_one_are_known,
    "LOG-5" json_that_differs_in_spaces_and_order_of_keys_is_the_same,
    "LOG-5" an_event_sent_again_in_another_trace_is_the_same,
    "LOG-5" the_same_id_with_other_content_is_a_mismatch,
    "LOG-5" numbers_that_differ_beyond_64_bits_are_a_mismatch,
    "LOG-5 LOG-8" a_close_that_did_not_come_with_known_events_is_a_mismatch,
    "LOG-5 LOG-8" a_close_that_was_undone_is_not_done_again_by_a_retry,
    "LOG-5" the_same_id_on_another_stream_is_a_mismatch,
    "LOG-5" a_batch_of_known_and_new_events_is_a_mismatch,
    "LOG-5" known_events_in_another_order_are_a_mismatch,
    "LOG-5" known_events_that_are_not_in_a_row_are_a_mismatch,
    "LOG-5 LOG-9" an_event_that_was_trimmed_is_not_known_any_more,
    "LOG-5 LOG-9" a_batch_of_which_some_was_trimmed_is_a_mismatch,
    "LOG-5" beside_a_known_append_the_rest_of_a_commit_is_written,
    "LOG-5 COMMIT-1" beside_a_known_append_the_rest_of_a_commit_is_still_judged,
    "LOG-5 COMMIT-1" a_mismatch_takes_the_whole_commit_with_it,
}

/// Appends these events to the stream "s" that is not there yet.
async fn first_try(store: &dyn Store, events: &[NewEvent]) -> Appended {
    append(store, ExpectedVersion::NoStream, events).await
}

async fn append(store: &dyn Store, expected: ExpectedVersion, events: &[NewEvent]) -> Appended {
    let mut done =
        commit(store, Commit::new().append(&stream("s"), expected, events.to_vec())).await;
    done.appends.pop().unwrap()
}

/// Sends them again, and checks that nothing was written.
async fn again(store: &dyn Store, expected: ExpectedVersion, events: &[NewEvent]) -> Appended {
    let before = everything(store).await;
    let appended = append(store, expected, events).await;
    assert_eq!(everything(store).await, before, "a retry writes nothing");
    appended
}

async fn mismatch(store: &dyn Store, events: impl IntoIterator<Item = NewEvent>) -> StoreError {
    let error =
        failed(store, Commit::new().append(&stream("s"), ExpectedVersion::Any, events)).await;
    assert_eq!(error.kind(), StoreErrorKind::IdempotencyMismatch, "{error}");
    error
}

fn replayed(first: &Appended) -> Appended {
    Appended { replayed: true, ..first.clone() }
}

/// Schedule 6.
async fn an_append_sent_again_gives_the_first_ones_result(world: World) {
    let (store, batch) = (&*world.store, events(3));
    let first = first_try(store, &batch).await;
    for expected in [ExpectedVersion::NoStream, ExpectedVersion::Any, exact(7)] {
        assert_eq!(again(store, expected, &batch).await, replayed(&first));
    }
}

async fn a_retry_is_known_though_others_have_appended_since(world: World) {
    let (store, batch) = (&*world.store, events(2));
    let first = first_try(store, &batch).await;
    append(store, exact(2), &events(5)).await;
    assert_eq!(again(store, ExpectedVersion::NoStream, &batch).await, replayed(&first));
}

async fn a_retry_is_known_though_the_stream_was_closed_since(world: World) {
    let (store, batch) = (&*world.store, events(2));
    let first = first_try(store, &batch).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(2)))).await;
    assert_eq!(again(store, ExpectedVersion::NoStream, &batch).await, replayed(&first));
}

async fn a_retry_over_another_handle_is_known(world: World) {
    let batch = events(2);
    let first = first_try(&*world.store, &batch).await;
    let other = world.another().await;
    assert_eq!(again(&*other, ExpectedVersion::NoStream, &batch).await, replayed(&first));
}

async fn some_events_of_an_earlier_append_in_a_row_are_known(world: World) {
    let (store, batch) = (&*world.store, events(4));
    first_try(store, &batch).await;
    let there = store.read_whole_stream(&stream("s")).await.unwrap();
    for range in [0..1, 1..3, 3..4] {
        let part = &there[range.clone()];
        let expected = Appended {
            stream: stream("s"),
            version: part.last().unwrap().version,
            positions: Some((part[0].position, part.last().unwrap().position)),
            replayed: true,
        };
        assert_eq!(again(store, ExpectedVersion::NoStream, &batch[range]).await, expected);
    }
}

async fn two_earlier_appends_sent_as_one_are_known(world: World) {
    let (store, batch) = (&*world.store, events(4));
    let first = first_try(store, &batch[..2]).await;
    let second = append(store, exact(2), &batch[2..]).await;
    let positions = Some((first.positions.unwrap().0, second.positions.unwrap().1));
    let both = Appended { stream: stream("s"), version: version(4), positions, replayed: true };
    assert_eq!(again(store, ExpectedVersion::NoStream, &batch).await, both);
}

async fn json_that_differs_in_spaces_and_order_of_keys_is_the_same(world: World) {
    let store = &*world.store;
    let mut new = event(1).with_metadata(json(r#"{"who":"anna","why":{"a":1,"b":2}}"#));
    new.payload = json(r#"{"a":1,"b":[true,null]}"#);
    let first = first_try(store, slice::from_ref(&new)).await;

    let mut same =
        new.with_metadata(json("{ \"why\": {\"b\": 2, \"a\": 1},\n \"who\": \"anna\" }"));
    same.payload = json(r#" { "b": [ true, null ], "a": 1 } "#);
    assert_eq!(again(store, ExpectedVersion::NoStream, &[same]).await, replayed(&first));
}

/// A retry comes from another request, and so from another trace.
async fn an_event_sent_again_in_another_trace_is_the_same(world: World) {
    let store = &*world.store;
    let traced = json(r#"{"who":"anna","traceparent":"00-1-2-01","tracestate":"a=1"}"#);
    let new = event(1).with_metadata(traced);
    let first = first_try(store, slice::from_ref(&new)).await;
    for metadata in [r#"{"traceparent":"00-3-4-01","who":"anna"}"#, r#"{ "who": "anna" }"#] {
        let same = new.clone().with_metadata(json(metadata));
        assert_eq!(again(store, ExpectedVersion::NoStream, &[same]).await, replayed(&first));
    }
    for metadata in [r#"{"traceparent":"00-1-2-01"}"#, r#"{"who":"bob","tracestate":"a=1"}"#] {
        mismatch(store, [new.clone().with_metadata(json(metadata))]).await;
    }
    let read = store.read_whole_stream(&stream("s")).await.unwrap();
    assert_eq!(read[0].metadata, new.metadata, "the first one's trace is kept");
}

/// Schedule 7.
async fn the_same_id_with_other_content_is_a_mismatch(world: World) {
    let (store, new) = (&*world.store, event(1));
    first_try(store, slice::from_ref(&new)).await;
    let others = [
        NewEvent { payload: json(r#"{"number":2}"#), ..new.clone() },
        NewEvent { payload: json(r#"{"number":1,"more":null}"#), ..new.clone() },
        NewEvent { event_type: EventType::new("Noted").unwrap(), ..new.clone() },
        NewEvent { metadata: json(r#"{"who":"anna"}"#), ..new.clone() },
    ];
    for other in others {
        let error = mismatch(store, [other]).await;
        assert!(error.to_string().contains(&new.id.to_string()), "{error}");
    }
}

async fn numbers_that_differ_beyond_64_bits_are_a_mismatch(world: World) {
    let store = &*world.store;
    let first = NewEvent::new(EventType::new("noted").unwrap(), json("123456789012345678901"));
    first_try(store, slice::from_ref(&first)).await;
    let other = NewEvent { payload: json("123456789012345678902"), ..first };
    mismatch(store, [other]).await;
}

async fn a_close_that_did_not_come_with_known_events_is_a_mismatch(world: World) {
    let store = &*world.store;
    let known = events(1);
    first_try(store, &known).await;
    let closing = Append::new(&stream("s"), exact(1), known).and_close();
    let refused = failed(store, Commit::new().with_append(closing.clone())).await;
    assert_eq!(refused.kind(), StoreErrorKind::IdempotencyMismatch);
    let trimming =
        Commit::new().with_append(closing).trim(&stream("s"), version(1), AfterTrim::Reopen);
    assert_eq!(failed(store, trimming).await.kind(), StoreErrorKind::IdempotencyMismatch);
}

async fn a_close_that_was_undone_is_not_done_again_by_a_retry(world: World) {
    let store = &*world.store;
    let known = events(2);
    first_try(store, &known[..1]).await;
    let closing = Append::new(&stream("s"), ExpectedVersion::Any, known[1..].to_vec()).and_close();
    let first =
        Commit::new().with_append(closing).trim(&stream("s"), version(1), AfterTrim::StayClosed);
    commit(store, first.clone()).await;
    let reopened = Commit::new().trim(&stream("s"), version(1), AfterTrim::Reopen);
    commit(store, reopened.append(&stream("s"), exact(2), events(1))).await;

    let refused = failed(store, first).await;

    assert_eq!(refused.kind(), StoreErrorKind::IdempotencyMismatch);
    let head = store.read_stream(StreamQuery::forward(&stream("s"))).await.unwrap();
    assert_eq!(head.state, StreamState::Open(version(3)));
}

/// Schedule 8: event ids are unique in the whole store, not in a stream.
async fn the_same_id_on_another_stream_is_a_mismatch(world: World) {
    let (store, new) = (&*world.store, event(1));
    commit(store, Commit::new().append(&stream("first"), ExpectedVersion::NoStream, [new.clone()]))
        .await;
    mismatch(store, [new]).await;
}

/// Schedule 9.
async fn a_batch_of_known_and_new_events_is_a_mismatch(world: World) {
    let (store, known) = (&*world.store, events(2));
    first_try(store, &known).await;
    let [one, two] = [&known[0], &known[1]].map(Clone::clone);
    mismatch(store, [one.clone(), two.clone(), event(3)]).await;
    mismatch(store, [event(3), one.clone(), two.clone()]).await;
    mismatch(store, [one, event(3), two]).await;
}

async fn known_events_in_another_order_are_a_mismatch(world: World) {
    let (store, mut batch) = (&*world.store, events(3));
    first_try(store, &batch).await;
    batch.reverse();
    mismatch(store, batch).await;
}

async fn known_events_that_are_not_in_a_row_are_a_mismatch(world: World) {
    let (store, mut batch) = (&*world.store, events(3));
    first_try(store, &batch).await;
    batch.remove(1);
    mismatch(store, batch).await;
}

async fn an_event_that_was_trimmed_is_not_known_any_more(world: World) {
    let (store, batch) = (&*world.store, events(2));
    first_try(store, &batch).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(2)))).await;
    commit(store, Commit::new().trim(&stream("s"), version(2), AfterTrim::Reopen)).await;

    let stale = Commit::new().append(&stream("s"), ExpectedVersion::NoStream, batch.clone());
    let reason = ViolationReason::Stream {
        stream: stream("s"),
        expected: ExpectedVersion::NoStream,
        found: StreamState::Open(version(2)),
    };
    assert_eq!(
        refused_whole(store, stale).await,
        violation(Part::Append(0), reason),
        "the expectation decides"
    );
    let new = append(store, exact(2), &batch).await;
    assert_eq!((new.version, new.replayed), (version(4), false));
}

async fn a_batch_of_which_some_was_trimmed_is_a_mismatch(world: World) {
    let (store, batch) = (&*world.store, events(2));
    first_try(store, &batch).await;
    commit(store, Commit::new().with_append(Append::closing(&stream("s"), exact(2)))).await;
    commit(store, Commit::new().trim(&stream("s"), version(1), AfterTrim::Reopen)).await;
    mismatch(store, batch).await;
}

async fn beside_a_known_append_the_rest_of_a_commit_is_written(world: World) {
    let (store, batch) = (&*world.store, events(2));
    let first = first_try(store, &batch).await;
    let more = Commit::new()
        .append(&stream("s"), ExpectedVersion::NoStream, batch)
        .append(&stream("new"), ExpectedVersion::NoStream, events(1))
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Absent, value(1)));
    let done = commit(store, more).await;

    assert_eq!(done.appends[0], replayed(&first));
    assert_eq!((done.appends[1].version, done.appends[1].replayed), (version(1), false));
    assert_eq!(store.get_one(&key("k")).await.unwrap().live().unwrap().value, value(1));
    assert_eq!(store.read_whole_stream(&stream("new")).await.unwrap().len(), 1);
}

async fn beside_a_known_append_the_rest_of_a_commit_is_still_judged(world: World) {
    let (store, batch) = (&*world.store, events(2));
    first_try(store, &batch).await;
    let more = Commit::new().append(&stream("s"), ExpectedVersion::NoStream, batch).append(
        &stream("new"),
        ExpectedVersion::Exists,
        events(1),
    );
    let reason = ViolationReason::Stream {
        stream: stream("new"),
        expected: ExpectedVersion::Exists,
        found: StreamState::Absent,
    };
    assert_eq!(refused_whole(store, more).await, violation(Part::Append(1), reason));
}

async fn a_mismatch_takes_the_whole_commit_with_it(world: World) {
    let (store, new) = (&*world.store, event(1));
    first_try(store, slice::from_ref(&new)).await;
    let both = Commit::new()
        .append(&stream("fine"), ExpectedVersion::NoStream, events(1))
        .append(&stream("other"), ExpectedVersion::NoStream, [new])
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Any, value(1)));
    assert_eq!(failed(store, both).await.kind(), StoreErrorKind::IdempotencyMismatch);
}
