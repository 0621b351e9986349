//! Renewals: how a lease is kept, and how its holder learns that it is lost.

use std::time::Duration;

use tidelock_store::{
    Adjustment, Item, ItemFilter, Lease, LeaseHolder, LeaseToken, Renewal, Settlement,
};

use crate::case::{World, cases};
use crate::items::{every_exit, held, item_now, leased, now, secs, settle};
use crate::sample::{LEASE, item, lease, lease_one, mark, wake, worker};

cases! { "leases::renew":
    "LEASE-4" a_renewal_extends_the_lease_from_now,
    "LEASE-4" a_renewal_never_shortens_the_lease,
    "LEASE-4" a_renewed_lease_outlives_its_first_deadline,
    "LEASE-4" a_renewal_changes_nothing_but_the_deadline,
    "LEASE-4 LEASE-6" an_expired_lease_that_was_not_taken_over_is_revived,
    "LEASE-4" a_renewal_after_a_takeover_says_that_the_lease_is_lost,
    "LEASE-4" a_renewal_after_a_settlement_says_that_the_lease_is_lost,
    "LEASE-4" a_renewal_after_a_reset_says_that_the_lease_is_lost,
    "LEASE-4" a_renewal_of_an_item_that_is_not_there_is_lost,
    "LEASE-4" a_renewal_under_a_fence_never_granted_is_lost,
    "LEASE-4" each_token_gets_its_own_answer_in_order,
}

async fn renew(world: &World, token: LeaseToken, duration: Duration) -> Renewal {
    let mut renewals = world.store.renew(&[token], duration).await.unwrap();
    assert_eq!(renewals.len(), 1);
    renewals.remove(0)
}

/// The answer to the holder of a lost lease, for the item as it is now.
async fn lost_to(world: &World) -> Renewal {
    Renewal::Lost(Some(Box::new(item_now(&*world.store, "a").await)))
}

async fn a_renewal_extends_the_lease_from_now(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    world.advance(secs(20)).await;
    let renewed = renew(&world, lease.token(), secs(60)).await;
    assert_eq!(renewed, Renewal::Renewed(now(&*world.store).await.plus(secs(60))));
}

async fn a_renewal_never_shortens_the_lease(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    world.advance(secs(5)).await;
    assert_eq!(renew(&world, lease.token(), secs(1)).await, Renewal::Renewed(lease.deadline));
    assert_eq!(item_now(&*world.store, "a").await.holder.unwrap().deadline, lease.deadline);
}

async fn a_renewed_lease_outlives_its_first_deadline(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    world.advance(secs(20)).await;
    renew(&world, first.token(), LEASE).await;
    world.advance(secs(20)).await;
    assert_eq!(lease(&*world.store, "v", 1).await, [], "past the first deadline");
    world.advance(secs(10)).await;
    lease_one(&*world.store, "v").await;
}

async fn a_renewal_changes_nothing_but_the_deadline(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    wake(&*world.store, "a", 2).await;
    let before = item_now(&*world.store, "a").await;
    world.advance(secs(5)).await;
    renew(&world, lease.token(), secs(60)).await;

    let since = before.holder.as_ref().unwrap().since;
    let deadline = now(&*world.store).await.plus(secs(60));
    let holder = Some(LeaseHolder { worker: worker("w"), since, deadline });
    assert_eq!(item_now(&*world.store, "a").await, Item { holder, ..before });
}

async fn an_expired_lease_that_was_not_taken_over_is_revived(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    let start = now(&*world.store).await;
    world.advance(LEASE + secs(100)).await;
    let deadline = now(&*world.store).await.plus(LEASE);
    assert_eq!(renew(&world, first.token(), LEASE).await, Renewal::Renewed(deadline));
    assert_eq!(lease(&*world.store, "v", 1).await, [], "it stands again");
    let expected = held(&Lease { deadline, ..first }, "w", start);
    assert_eq!(item_now(&*world.store, "a").await, expected, "and did not count as an expiry");
}

/// Schedule 19.
async fn a_renewal_after_a_takeover_says_that_the_lease_is_lost(world: World) {
    let first = leased(&*world.store, "a", 1).await;
    world.advance(LEASE).await;
    let second = lease_one(&*world.store, "v").await;
    let start = now(&*world.store).await;

    let renewed = renew(&world, first.token(), secs(100)).await;

    let theirs = held(&second, "v", start);
    assert_eq!(renewed, Renewal::Lost(Some(Box::new(theirs.clone()))));
    assert_eq!(item_now(&*world.store, "a").await, theirs, "the new lease is not touched");
}

async fn a_renewal_after_a_settlement_says_that_the_lease_is_lost(world: World) {
    for nth in 0..5 {
        let lease = leased(&*world.store, "a", 1).await;
        settle(&*world.store, every_exit(&lease)[nth].clone()).await;
        assert_eq!(renew(&world, lease.token(), LEASE).await, lost_to(&world).await, "exit {nth}");
        // Resets the item for the next round.
        world.store.adjust(ItemFilter::default(), Adjustment::Reset { to: mark(0) }).await.unwrap();
    }
}

async fn a_renewal_after_a_reset_says_that_the_lease_is_lost(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    world.store.adjust(ItemFilter::default(), Adjustment::Reset { to: mark(0) }).await.unwrap();
    assert_eq!(renew(&world, lease.token(), LEASE).await, lost_to(&world).await);
}

async fn a_renewal_of_an_item_that_is_not_there_is_lost(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    let unknown = LeaseToken { item: item("b"), fence: lease.fence };
    assert_eq!(renew(&world, unknown, LEASE).await, Renewal::Lost(None));
}

async fn a_renewal_under_a_fence_never_granted_is_lost(world: World) {
    let lease = leased(&*world.store, "a", 1).await;
    let before = item_now(&*world.store, "a").await;
    let invented = LeaseToken { fence: lease.fence.plus(1), ..lease.token() };
    assert_eq!(renew(&world, invented, secs(100)).await, lost_to(&world).await);
    assert_eq!(item_now(&*world.store, "a").await, before);
}

async fn each_token_gets_its_own_answer_in_order(world: World) {
    let (a, b) = (leased(&*world.store, "a", 1).await, leased(&*world.store, "b", 1).await);
    settle(&*world.store, Settlement::ack(a.token(), mark(1))).await;
    let unknown = LeaseToken { item: item("c"), fence: a.fence };
    world.advance(secs(1)).await;

    let tokens = [unknown, b.token(), a.token()];
    let renewals = world.another().await.renew(&tokens, LEASE).await.unwrap();

    let renewed = Renewal::Renewed(now(&*world.store).await.plus(LEASE));
    assert_eq!(renewals, [Renewal::Lost(None), renewed, lost_to(&world).await]);
}
