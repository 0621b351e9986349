//! Limits of lease durations, of times ahead, and of leases per call.

use std::time::Duration;

use tidelock_store::{
    Adjustment, Bounds, Commit, ExpectedRevision, ItemFilter, Lease, LeaseRequest, LeaseToken,
    Mark, RecordWrite, Renewal, Settlement, Store, StoreError, Wake, When, limits,
};

use super::{assert_invalid, assert_over};
use crate::case::{World, cases};
use crate::items::INSTANT;
use crate::sample::{
    LEASE, commit, everything, failed, item, key, lease_one, mark, queue, value, wake, worker,
};

cases! { "limits::times":
    "LIMIT-1 LEASE-1" a_lease_of_no_time_is_refused,
    "LIMIT-1 LEASE-1" the_shortest_lease_is_a_microsecond,
    "LIMIT-1 LEASE-1" the_longest_lease_is_granted_and_no_longer_one,
    "LIMIT-1" so_many_leases_are_granted_by_one_call_and_no_more,
    "LIMIT-1" no_leases_cannot_be_asked_for,
    "LIMIT-1 LEASE-4" a_renewal_has_the_limits_of_a_lease,
    "LIMIT-1 LEASE-4" so_many_leases_are_renewed_by_one_call_and_no_more,
    "LIMIT-1 LEASE-3" a_due_time_lies_within_the_horizon,
    "LIMIT-1 REC-5" an_expiry_lies_within_the_horizon,
    "LIMIT-1 LEASE-8" a_hold_lies_within_the_horizon,
    "LIMIT-1 LEASE-10" an_adjusted_hold_lies_within_the_horizon,
    "LIMIT-1 LEASE-8" an_error_is_kept_up_to_its_limit_and_cut_there,
}

/// One step past a limit of time.
const MORE: Duration = INSTANT;

fn request(duration: Duration, limit: usize) -> LeaseRequest {
    LeaseRequest::new(&queue("q"), &worker("anna"), duration, limit)
}

/// Requests leases that must be refused, and checks that nothing was leased.
async fn not_leased(store: &dyn Store, request: LeaseRequest) -> StoreError {
    wake(store, "i", 1).await;
    let before = everything(store).await;
    let error = store.lease(request).await.expect_err("the request is an error");
    assert_eq!(everything(store).await, before);
    error
}

/// Requests a renewal that must be refused, and checks that nothing was renewed.
async fn not_renewed(store: &dyn Store, tokens: &[LeaseToken], duration: Duration) -> StoreError {
    let before = everything(store).await;
    let error = store.renew(tokens, duration).await.expect_err("the renewal is an error");
    assert_eq!(everything(store).await, before);
    error
}

/// Makes that many items due and leases them.
async fn many_leases(store: &dyn Store, count: usize) -> Vec<LeaseToken> {
    let wakes = (0..count).fold(Commit::new(), |commit, number| {
        commit.wake(Wake::to_mark(item(&number.to_string()), mark(1)))
    });
    commit(store, wakes).await;
    let leased = store.lease(request(LEASE, count)).await.unwrap().leases;
    assert_eq!(leased.len(), count);
    leased.iter().map(Lease::token).collect()
}

async fn a_lease_of_no_time_is_refused(world: World) {
    for duration in [Duration::ZERO, Duration::from_nanos(999)] {
        assert_invalid(&not_leased(&*world.store, request(duration, 1)).await, "no time");
    }
}

async fn the_shortest_lease_is_a_microsecond(world: World) {
    let store = &*world.store;
    wake(store, "i", 1).await;
    let leased = store.lease(request(MORE, 1)).await.unwrap().leases;
    let since = everything(store).await.items[0].holder.as_ref().unwrap().since;
    assert_eq!(leased[0].deadline, since.plus(MORE));
}

async fn the_longest_lease_is_granted_and_no_longer_one(world: World) {
    let (store, limit) = (&*world.store, limits::LEASE_DURATION);
    for duration in [limit + MORE, Duration::MAX] {
        assert_over(&not_leased(store, request(duration, 1)).await, limit.as_secs());
    }
    let leased = store.lease(request(limit, 1)).await.unwrap().leases;
    let since = everything(store).await.items[0].holder.as_ref().unwrap().since;
    assert_eq!(leased[0].deadline, since.plus(limit));
}

async fn so_many_leases_are_granted_by_one_call_and_no_more(world: World) {
    let (store, limit) = (&*world.store, limits::LEASES_PER_CALL);
    for count in [limit + 1, usize::MAX] {
        assert_over(&not_leased(store, request(LEASE, count)).await, limit);
    }
    commit(
        store,
        Commit::new().settle(Settlement::ack(lease_one(store, "bert").await.token(), mark(1))),
    )
    .await;
    many_leases(store, limit).await;
}

async fn no_leases_cannot_be_asked_for(world: World) {
    let store = &*world.store;
    assert_invalid(&not_leased(store, request(LEASE, 0)).await, "0 leases");
    assert_eq!(store.renew(&[], LEASE).await.unwrap(), [], "having nothing to renew is no mistake");
}

async fn a_renewal_has_the_limits_of_a_lease(world: World) {
    let (store, limit) = (&*world.store, limits::LEASE_DURATION);
    wake(store, "i", 1).await;
    let lease = lease_one(store, "anna").await;
    let tokens = [lease.token()];
    assert_invalid(&not_renewed(store, &tokens, Duration::ZERO).await, "no time");
    assert_over(&not_renewed(store, &tokens, limit + MORE).await, limit.as_secs());

    let since = everything(store).await.items[0].holder.as_ref().unwrap().since;
    let renewed = store.renew(&tokens, limit).await.unwrap();
    assert!(
        matches!(renewed[..], [Renewal::Renewed(until)] if until >= since.plus(limit)),
        "{renewed:?}"
    );
}

async fn so_many_leases_are_renewed_by_one_call_and_no_more(world: World) {
    let (store, limit) = (&*world.store, limits::LEASES_PER_CALL);
    let mut tokens = many_leases(store, limit).await;
    let renewed = store.renew(&tokens, LEASE * 2).await.unwrap();
    assert_eq!(
        renewed.iter().filter(|renewal| matches!(renewal, Renewal::Renewed(_))).count(),
        limit
    );
    tokens.push(tokens[0].clone());
    assert_over(&not_renewed(store, &tokens, LEASE * 3).await, limit);
}

async fn a_due_time_lies_within_the_horizon(world: World) {
    let (store, horizon) = (&*world.store, limits::HORIZON);
    let due = |when| Commit::new().wake(Wake::at(item("i"), when));
    for far in [horizon + MORE, Duration::MAX] {
        assert_over(&failed(store, due(When::In(far))).await, horizon.as_secs());
    }
    let at = commit(store, due(When::In(horizon))).await.at;
    assert_eq!(everything(store).await.items[0].due, Some(at.plus(horizon)));
}

async fn an_expiry_lies_within_the_horizon(world: World) {
    let (store, horizon) = (&*world.store, limits::HORIZON);
    let writes = [
        RecordWrite::put(&key("put"), ExpectedRevision::Absent, value(1)),
        RecordWrite::add(&key("add"), 1, Bounds::NONE),
    ];
    for write in writes {
        let expiring = |duration| Commit::new().write(write.clone().expiring(When::In(duration)));
        assert_over(&failed(store, expiring(horizon + MORE)).await, horizon.as_secs());
        let at = commit(store, expiring(horizon)).await.at;
        let records = everything(store).await.records;
        let written = records.iter().find(|record| record.key == write.key).unwrap();
        assert_eq!(written.expires_at, Some(at.plus(horizon)));
    }
}

/// The three settlements that hold an item back for this long.
fn holds(token: &LeaseToken, duration: Duration) -> [Settlement; 3] {
    let (until, token) = (When::In(duration), || token.clone());
    [
        Settlement::retry(token(), duration, "it broke"),
        Settlement::defer(token(), until),
        Settlement::ack_and_defer(token(), Mark::ZERO, until),
    ]
}

async fn a_hold_lies_within_the_horizon(world: World) {
    let (store, horizon) = (&*world.store, limits::HORIZON);
    for which in 0..3 {
        wake(store, &format!("{which}"), 1).await;
        let token = lease_one(store, "anna").await.token();
        let hold = |duration| Commit::new().settle(holds(&token, duration)[which].clone());
        assert_over(&failed(store, hold(horizon + MORE)).await, horizon.as_secs());
        let at = commit(store, hold(horizon)).await.at;
        assert_eq!(everything(store).await.items[which].hold, Some(at.plus(horizon)));
    }
}

async fn an_adjusted_hold_lies_within_the_horizon(world: World) {
    let (store, horizon) = (&*world.store, limits::HORIZON);
    wake(store, "i", 1).await;
    let before = everything(store).await;
    let defer = |duration| {
        store.adjust(ItemFilter::queue("q"), Adjustment::Defer { until: When::In(duration) })
    };
    assert_over(&defer(horizon + MORE).await.unwrap_err(), horizon.as_secs());
    assert_eq!(everything(store).await, before);
    assert_eq!(defer(horizon).await.unwrap().changed, 1);
}

async fn an_error_is_kept_up_to_its_limit_and_cut_there(world: World) {
    let (store, limit) = (&*world.store, limits::ERROR_CHARS);
    let full = "é".repeat(limit);
    for (name, error, whole) in [("a", full.clone(), true), ("b", full.clone() + "the rest", false)]
    {
        wake(store, name, 1).await;
        let token = lease_one(store, "anna").await.token();
        commit(store, Commit::new().settle(Settlement::block(token, error))).await;
        let items = everything(store).await.items;
        let kept =
            items.iter().find(|found| found.item == item(name)).unwrap().error.clone().unwrap();
        assert!(kept.starts_with(&full), "as much as fits is kept");
        assert_eq!(kept == full, whole, "and it can be seen whether all was kept");
        assert!(!kept.contains("rest"));
    }
}
