//! Limits of one commit, and meaningless commits.

use tidelock_store::{
    AfterTrim, Append, Bounds, Commit, CommitId, ExpectedRevision, ExpectedVersion, NewEvent,
    RawJson, RecordWrite, Settlement, StoreExt, Wake, limits,
};

use super::{assert_invalid, assert_over};
use crate::case::{World, cases};
use crate::sample::{
    commit, event, events, everything, exact, failed, item, json, key, lease_one, mark, stream,
    value, version, wake,
};

cases! { "limits::commits":
    "LIMIT-1 LOG-4" a_payload_of_full_size_is_kept_and_one_byte_more_is_refused,
    "LIMIT-1 LOG-4" metadata_of_full_size_is_kept_and_one_byte_more_is_refused,
    "LIMIT-1" a_value_of_full_size_is_kept_and_one_byte_more_is_refused,
    "LIMIT-1 LOG-2" a_commit_holds_so_many_events_and_no_more,
    "LIMIT-1" the_events_of_all_appends_count_together,
    "LIMIT-1" a_commit_holds_so_many_parts_and_no_more,
    "LIMIT-1" the_parts_of_all_kinds_count_together,
    "LIMIT-1" a_commit_holds_so_many_bytes_and_no_more,
    "LIMIT-1" a_commit_of_nothing_is_refused,
    "LIMIT-1" an_append_of_nothing_is_refused,
    "LIMIT-1" a_stream_appended_to_twice_in_one_commit_is_refused,
    "LIMIT-1" a_record_written_twice_in_one_commit_is_refused,
    "LIMIT-1" an_item_settled_twice_in_one_commit_is_refused,
    "LIMIT-1" a_stream_trimmed_twice_in_one_commit_is_refused,
    "LIMIT-1 REC-4" bounds_that_hold_no_number_are_refused,
    "LIMIT-1 LEASE-3" a_wake_with_neither_mark_nor_time_is_refused,
    "LIMIT-1" one_bad_part_spoils_a_commit_of_good_ones,
}

/// A JSON string of that many bytes, quotes included.
fn text(bytes: usize) -> RawJson {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

/// A JSON object of that many bytes.
fn object(bytes: usize) -> RawJson {
    json(&format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8)))
}

fn append(new: NewEvent) -> Commit {
    Commit::new().append(&stream("s"), ExpectedVersion::Any, [new])
}

fn put(name: &str, value: RawJson) -> RecordWrite {
    RecordWrite::put(&key(name), ExpectedRevision::Any, value)
}

async fn a_payload_of_full_size_is_kept_and_one_byte_more_is_refused(world: World) {
    let (store, limit) = (&*world.store, limits::PAYLOAD_BYTES);
    let full = NewEvent { payload: text(limit), ..event(1) };
    commit(store, append(full.clone())).await;
    assert_eq!(store.read_whole_stream(&stream("s")).await.unwrap()[0].payload, full.payload);
    assert_over(
        &failed(store, append(NewEvent { payload: text(limit + 1), ..event(1) })).await,
        limit,
    );
}

async fn metadata_of_full_size_is_kept_and_one_byte_more_is_refused(world: World) {
    let (store, limit) = (&*world.store, limits::METADATA_BYTES);
    commit(store, append(event(1).with_metadata(object(limit)))).await;
    assert_eq!(store.read_whole_stream(&stream("s")).await.unwrap()[0].metadata, object(limit));
    assert_over(&failed(store, append(event(1).with_metadata(object(limit + 1)))).await, limit);
}

async fn a_value_of_full_size_is_kept_and_one_byte_more_is_refused(world: World) {
    let (store, limit) = (&*world.store, limits::VALUE_BYTES);
    commit(store, Commit::new().write(put("k", text(limit)))).await;
    assert_eq!(store.get_one(&key("k")).await.unwrap().live().unwrap().value, text(limit));
    assert_over(&failed(store, Commit::new().write(put("k", text(limit + 1)))).await, limit);
}

async fn a_commit_holds_so_many_events_and_no_more(world: World) {
    let (store, limit) = (&*world.store, limits::EVENTS_PER_COMMIT as u64);
    let many = |count| Commit::new().append(&stream("s"), ExpectedVersion::Any, events(count));
    assert_eq!(commit(store, many(limit)).await.appends[0].version, version(limit));
    assert_eq!(store.read_whole_stream(&stream("s")).await.unwrap().len() as u64, limit);
    assert_over(&failed(store, many(limit + 1)).await, limit);
}

async fn the_events_of_all_appends_count_together(world: World) {
    let (store, half) = (&*world.store, limits::EVENTS_PER_COMMIT as u64 / 2);
    let both = |count| {
        Commit::new().append(&stream("a"), ExpectedVersion::Any, events(half)).append(
            &stream("b"),
            ExpectedVersion::Any,
            events(count),
        )
    };
    assert_over(&failed(store, both(half + 1)).await, limits::EVENTS_PER_COMMIT);
    commit(store, both(half)).await;
}

async fn a_commit_holds_so_many_parts_and_no_more(world: World) {
    let (store, limit) = (&*world.store, limits::PARTS_PER_COMMIT);
    let many = |count| {
        (0..count).fold(Commit::new(), |commit, number| {
            commit.write(put(&format!("{number:04}"), value(1)))
        })
    };
    assert_over(&failed(store, many(limit + 1)).await, limit);
    assert_eq!(commit(store, many(limit)).await.writes.len(), limit);
    assert_eq!(everything(store).await.records.len(), limit);
}

async fn the_parts_of_all_kinds_count_together(world: World) {
    let (store, limit) = (&*world.store, limits::PARTS_PER_COMMIT);
    let closed = Append::new(&stream("closed"), ExpectedVersion::NoStream, events(1)).and_close();
    commit(store, Commit::new().with_append(closed)).await;
    wake(store, "i", 1).await;
    let token = lease_one(store, "anna").await.token();
    let six = || {
        append(event(1))
            .write(put("k", value(1)))
            .wake(Wake::to_mark(item("j"), mark(1)))
            .settle(Settlement::ack(token.clone(), mark(1)))
            .fenced_by(token.clone())
            .trim(&stream("closed"), version(1), AfterTrim::StayClosed)
    };
    let with_guards = |count| {
        (0..count)
            .fold(six(), |commit, _| commit.guard_record(&key("none"), ExpectedRevision::Absent))
    };
    assert_over(&failed(store, with_guards(limit - 5)).await, limit);
    commit(store, with_guards(limit - 6)).await;
}

async fn a_commit_holds_so_many_bytes_and_no_more(world: World) {
    let (store, limit) = (&*world.store, limits::COMMIT_BYTES);
    let full = |count: usize| {
        (0..count).fold(Commit::new(), |commit, number| {
            commit.write(put(&number.to_string(), text(limits::VALUE_BYTES)))
        })
    };
    let count = limit / limits::VALUE_BYTES;
    assert_over(&failed(store, full(count).write(put("one more", value(1)))).await, limit);
    assert_over(
        &failed(store, full(count).append(&stream("s"), ExpectedVersion::Any, [event(1)])).await,
        limit,
    );
    assert_eq!(commit(store, full(count)).await.writes.len(), count);
}

async fn a_commit_of_nothing_is_refused(world: World) {
    let store = &*world.store;
    assert_invalid(&failed(store, Commit::new()).await, "nothing");
    assert_invalid(&failed(store, Commit::new().with_id(CommitId::fresh())).await, "nothing");
}

async fn an_append_of_nothing_is_refused(world: World) {
    let store = &*world.store;
    let nothing = || Commit::new().append(&stream("empty"), ExpectedVersion::Any, []);
    assert_invalid(&failed(store, nothing()).await, "empty");
    assert_invalid(&failed(store, nothing().write(put("k", value(1)))).await, "empty");
}

async fn a_stream_appended_to_twice_in_one_commit_is_refused(world: World) {
    let twice = Commit::new()
        .append(&stream("twice"), ExpectedVersion::NoStream, [event(1)])
        .append(&stream("once"), ExpectedVersion::NoStream, [event(2)])
        .append(&stream("twice"), exact(1), [event(3)]);
    assert_invalid(&failed(&*world.store, twice).await, "\"twice\"");
}

async fn a_record_written_twice_in_one_commit_is_refused(world: World) {
    let add = RecordWrite::add(&key("twice"), 1, Bounds::NONE);
    let twice = Commit::new().write(put("twice", value(1))).write(put("once", value(1))).write(add);
    assert_invalid(&failed(&*world.store, twice).await, "\"twice\"");
}

async fn an_item_settled_twice_in_one_commit_is_refused(world: World) {
    let store = &*world.store;
    wake(store, "twice", 2).await;
    let token = lease_one(store, "anna").await.token();
    let twice = Commit::new()
        .settle(Settlement::ack(token.clone(), mark(1)))
        .settle(Settlement::release(token));
    assert_invalid(&failed(store, twice).await, "\"twice\"");
}

async fn a_stream_trimmed_twice_in_one_commit_is_refused(world: World) {
    let store = &*world.store;
    let closed = Append::new(&stream("twice"), ExpectedVersion::NoStream, events(2)).and_close();
    commit(store, Commit::new().with_append(closed)).await;
    let trim = |commit: Commit, through| {
        commit.trim(&stream("twice"), version(through), AfterTrim::StayClosed)
    };
    assert_invalid(&failed(store, trim(trim(Commit::new(), 1), 2)).await, "\"twice\"");
}

async fn bounds_that_hold_no_number_are_refused(world: World) {
    let store = &*world.store;
    let add =
        |min, max| Commit::new().write(RecordWrite::add(&key("n"), 1, Bounds::between(min, max)));
    assert_invalid(&failed(store, add(3, 2)).await, "bounds from 3 to 2");
    assert_invalid(&failed(store, add(i64::MAX, i64::MIN)).await, "bounds");
    commit(store, add(1, 1)).await;
}

async fn a_wake_with_neither_mark_nor_time_is_refused(world: World) {
    let nothing = Wake { mark: None, ..Wake::to_mark(item("i"), mark(1)) };
    assert_invalid(&failed(&*world.store, Commit::new().wake(nothing)).await, "\"i\"");
}

async fn one_bad_part_spoils_a_commit_of_good_ones(world: World) {
    let store = &*world.store;
    let good =
        || append(event(1)).write(put("k", value(1))).wake(Wake::to_mark(item("i"), mark(1)));
    let nothing = Wake { mark: None, ..Wake::to_mark(item("j"), mark(1)) };
    let impossible = RecordWrite::add(&key("n"), 1, Bounds::between(3, 2));
    failed(store, good().wake(nothing)).await;
    failed(store, good().write(impossible)).await;
    failed(store, good().append(&stream("empty"), ExpectedVersion::Any, [])).await;
    failed(store, good().write(put("big", text(limits::VALUE_BYTES + 1)))).await;
    commit(store, good()).await;
}
