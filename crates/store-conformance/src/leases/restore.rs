//! Restores: items that are created as they were in another store.

use tidelock_store::{
    Commit, Fence, Item, ItemFilter, LeaseHolder, Priority, SettleKind, Store, StoreErrorKind,
    Timestamp, Wake, When, limits,
};

use crate::case::{World, cases};
use crate::items::{idle, item_now, items, now, secs};
use crate::sample::{commit, item, lane, lease, lease_one, mark, refused_whole, wake, worker};

cases! { "leases::restore":
    "LEASE-12" a_restored_item_is_as_it_was,
    "LEASE-7 LEASE-12" restored_items_are_leased_in_the_order_of_their_own_times,
    "LEASE-3 LEASE-12" a_restored_hold_and_a_restored_block_keep_an_item_back,
    "LEASE-6 LEASE-12" a_restored_item_goes_on_counting,
    "LEASE-3 LEASE-12" a_wake_of_the_same_commit_comes_after_the_restore,
    "COMMIT-2 LEASE-12" an_item_that_is_there_is_not_restored_over,
    "LEASE-12" an_item_that_no_store_could_have_had_is_not_restored,
}

fn long_ago(seconds: u64) -> Timestamp {
    "2001-01-01T00:00:00Z".parse::<Timestamp>().unwrap().plus(secs(seconds))
}

async fn restore(store: &dyn Store, restored: impl IntoIterator<Item = Item>) {
    commit(store, restored.into_iter().fold(Commit::new(), Commit::restore)).await;
}

async fn a_restored_item_is_as_it_was(world: World) {
    let restored = Item {
        lane: lane("slow"),
        priority: Priority::new(7).unwrap(),
        at: mark(2),
        mark: mark(9),
        due: Some(long_ago(5)),
        hold: Some(long_ago(3)),
        attempts: 4,
        failures: 3,
        expiries: 1,
        blocked: true,
        error: Some("no address".to_owned()),
        ..idle("a")
    };
    let nothing = idle("b");
    restore(&*world.store, [restored.clone(), nothing.clone()]).await;
    assert_eq!(items(&*world.store, ItemFilter::default()).await, [restored, nothing]);
}

async fn restored_items_are_leased_in_the_order_of_their_own_times(world: World) {
    // By due time, by hold where that is later, then by key; and none of it in the order of keys.
    let due = |key: &str, due, hold: Option<u64>| Item {
        due: Some(long_ago(due)),
        hold: hold.map(long_ago),
        ..idle(key)
    };
    let all = [
        due("a", 40, None),
        due("b", 10, Some(30)),
        due("c", 20, None),
        due("d", 5, None),
        due("e", 20, None),
    ];
    restore(&*world.store, all).await;
    wake(&*world.store, "0", 1).await;
    let leases = lease(&*world.store, "w", 10).await;
    let order: Vec<_> = leases.iter().map(|lease| lease.item.key.as_str()).collect();
    assert_eq!(order, ["d", "c", "e", "b", "a", "0"]);
}

async fn a_restored_hold_and_a_restored_block_keep_an_item_back(world: World) {
    let later = now(&*world.store).await.plus(secs(10));
    let held = Item { due: Some(long_ago(0)), hold: Some(later), ..idle("held") };
    let blocked = Item { due: Some(long_ago(0)), blocked: true, ..idle("blocked") };
    restore(&*world.store, [held, blocked]).await;
    assert_eq!(lease(&*world.store, "w", 10).await, []);
    world.advance(secs(10)).await;
    assert_eq!(lease_one(&*world.store, "w").await.item, item("held"));
}

async fn a_restored_item_goes_on_counting(world: World) {
    let tried = Item { due: Some(long_ago(0)), attempts: 4, failures: 2, expiries: 1, ..idle("a") };
    restore(&*world.store, [tried]).await;
    let lease = lease_one(&*world.store, "w").await;
    assert_eq!((lease.attempts, lease.failures, lease.expiries), (5, 2, 1));
    assert_eq!(lease.fence, Fence::FIRST, "it was never leased here");
}

async fn a_wake_of_the_same_commit_comes_after_the_restore(world: World) {
    let restored = Item { at: mark(2), mark: mark(2), ..idle("a") };
    let sooner = now(&*world.store).await.plus(secs(10));
    let both = Commit::new().wake(Wake::at(item("a"), When::At(sooner))).restore(restored.clone());
    commit(&*world.store, both).await;
    assert_eq!(item_now(&*world.store, "a").await, Item { due: Some(sooner), ..restored });
}

async fn an_item_that_is_there_is_not_restored_over(world: World) {
    wake(&*world.store, "b", 3).await;
    let both = Commit::new().restore(idle("a")).restore(idle("b"));
    let conflict = refused_whole(&*world.store, both).await;
    assert_eq!(conflict.to_string(), "item \"b\" of queue \"q\": expected no item, found one");
    restore(&*world.store, [idle("a")]).await;
}

async fn an_item_that_no_store_could_have_had_is_not_restored(world: World) {
    let moment = long_ago(0);
    let holder = LeaseHolder { worker: worker("w"), since: moment, deadline: moment };
    let odd = [
        Item { fence: Some(Fence::FIRST), ..idle("a") },
        Item { holder: Some(holder), ..idle("a") },
        Item { settled: Some(SettleKind::Ack), ..idle("a") },
        Item { at: mark(2), mark: mark(1), ..idle("a") },
        Item { attempts: u32::MAX, ..idle("a") },
        Item { error: Some("x".repeat(limits::ERROR_CHARS + 2)), ..idle("a") },
        Item { error: Some("\0".to_owned()), ..idle("a") },
    ];
    for item in odd {
        let refused = world.store.commit(Commit::new().restore(item)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused}");
    }
    let twice = Commit::new().restore(idle("a")).restore(idle("a"));
    assert_eq!(world.store.commit(twice).await.unwrap_err().kind(), StoreErrorKind::Invalid);
    assert_eq!(items(&*world.store, ItemFilter::default()).await, []);
}
