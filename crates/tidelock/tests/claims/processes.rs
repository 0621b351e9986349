//! Claimants in real processes, which are killed at any point.

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::claims::{Compound, Lock, Quota};
use tidelock::prelude::*;
use tidelock::store::RecordKey;
use tidelock_test_stage::{Meeting, Role, TestStore, for_real, until};

/// How long the parent waits after a child was killed.
const LEASE: Duration = Duration::from_millis(300);
const LOCKS: usize = 5;

/// The child process; does nothing by itself.
#[tokio::test]
async fn a_child() {
    let Some(role) = Role::ours() else { return };
    let tidelock = Tidelock::open(&role.url).await.unwrap();
    match role.name.as_str() {
        "payer" => pay_and_wait(&tidelock, &role).await,
        "awarder" => award_and_wait(&tidelock, &role).await,
        _ => lock_on_and_on(&tidelock, &role).await,
    }
}

async fn pay_and_wait(tidelock: &Tidelock, role: &Role) {
    let claim = tidelock.claims().idempotency("pay:42").lease(LEASE);
    let IdempotencyClaim::Won(won) = claim.claim::<Value>().await.unwrap() else {
        panic!("there is no contention")
    };
    role.note(&format!("won {}", won.fence()));
    role.allowed("never").await;
}

/// A key, a lock and all of a quota.
fn award(tidelock: &Tidelock) -> Compound {
    let claims = tidelock.claims();
    let all = claims
        .claim_all()
        .idempotency(&claims.idempotency("award:1"))
        .lock(&claims.lock("child-7"));
    all.quota(&points(tidelock), 10).lease(LEASE)
}

fn points(tidelock: &Tidelock) -> Quota {
    tidelock.claims().quota("points", 10)
}

async fn award_and_wait(tidelock: &Tidelock, role: &Role) {
    let all = award(tidelock).claim().await.unwrap().granted().unwrap();
    role.note("won");
    role.allowed("never").await;
    drop(all);
}

fn part(tidelock: &Tidelock, nth: usize) -> Lock {
    tidelock.claims().lock("part").of(nth).lease(LEASE)
}

fn all_locks(tidelock: &Tidelock) -> Compound {
    let all = tidelock.claims().claim_all();
    (0..LOCKS).fold(all, |all, nth| all.lock(&part(tidelock, nth)))
}

async fn lock_on_and_on(tidelock: &Tidelock, role: &Role) {
    // What the child before it has sent may still take the locks, until its lease expires.
    let all = all_locks(tidelock).within(tidelock_test_stage::PATIENCE);
    for round in 0.. {
        let held = all.claim().await.unwrap().granted().unwrap();
        role.note(&format!("{} locked {round}", role.name));
        held.release().await.unwrap();
    }
}

/// Schedule 58. CLAIM-5: the key is not pending indefinitely, and not free before the lease has
/// expired.
async fn a_key_whose_claimant_was_killed_can_be_claimed_after_its_lease(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let meeting = Meeting::on(&stage, "processes::a_child");
    let child = meeting.start("payer");
    meeting.until_noted("won").await;
    child.kill().await;
    let claim = tidelock.claims().idempotency("pay:42");
    let receipt = std::sync::Mutex::new(None);
    until("the key is free", async || {
        if let IdempotencyClaim::Won(won) = claim.claim::<Value>().await.unwrap() {
            assert!(format!("won {}", won.fence()) > meeting.notes()[0], "with a higher fence");
            *receipt.lock().unwrap() = Some(won.complete(&json!("paid")).await.unwrap());
        }
        receipt.lock().unwrap().is_some()
    })
    .await;
    assert!(
        matches!(claim.claim::<Value>().await.unwrap(), IdempotencyClaim::Done(receipt) if receipt == "paid")
    );
}

/// Schedule 110. CLAIM-14: all parts become free at once, and a retry under the same key gets them.
async fn all_parts_of_a_killed_holder_become_free_together(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let meeting = Meeting::on(&stage, "processes::a_child");
    let child = meeting.start("awarder");
    meeting.until_noted("won").await;
    child.kill().await;
    let mut retried = crate::compound_lifecycle::won_again(&award(&tidelock)).await;
    retried.complete("awarded").await.unwrap();
    assert_eq!(points(&tidelock).usage().await.unwrap().used, 10, "charged once");
}

/// How many of the locks have a holder. Not by a listing, which may take several pages: a server
/// still carries out what a killed client has sent, so a commit may come between two of them.
async fn held_at_one_moment(tidelock: &Tidelock) -> usize {
    let record = |nth: usize| RecordKey::new(format!("~claim/{}", part(tidelock, nth).key()));
    let keys: Vec<_> = (0..LOCKS).map(|nth| record(nth).unwrap()).collect();
    let slots = tidelock.store().get(&keys).await.unwrap();
    slots.iter().filter(|slot| slot.live().is_some()).count()
}

/// Schedule 67. CLAIM-14: whenever it is killed, it holds all of them or none, and none
/// indefinitely.
async fn a_killed_holder_has_all_of_its_locks_or_none(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let meeting = Meeting::on(&stage, "processes::a_child");
    for nth in 0..4 {
        let name = format!("locker-{nth}");
        let child = meeting.start(&name);
        // Somewhere in its loop: how far it gets before the signal depends on the machine.
        meeting.until_noted(&format!("{name} locked {nth}")).await;
        child.kill().await;
        let held = held_at_one_moment(&tidelock).await;
        assert!(held == 0 || held == LOCKS, "{held} of {LOCKS}");
        let after = all_locks(&tidelock).within(tidelock_test_stage::PATIENCE);
        let taken = after.claim().await.unwrap().granted().unwrap();
        assert_eq!(held_at_one_moment(&tidelock).await, LOCKS, "all of them, seen as such");
        taken.release().await.unwrap();
    }
}

mod sqlite {
    use super::*;

    #[test]
    fn a_key_whose_claimant_was_killed_can_be_claimed_after_its_lease() {
        for_real(
            TestStore::sqlite(),
            super::a_key_whose_claimant_was_killed_can_be_claimed_after_its_lease,
        );
    }

    #[test]
    fn all_parts_of_a_killed_holder_become_free_together() {
        for_real(TestStore::sqlite(), super::all_parts_of_a_killed_holder_become_free_together);
    }

    #[test]
    fn a_killed_holder_has_all_of_its_locks_or_none() {
        for_real(TestStore::sqlite(), super::a_killed_holder_has_all_of_its_locks_or_none);
    }
}

mod postgres {
    use super::*;

    #[test]
    fn a_key_whose_claimant_was_killed_can_be_claimed_after_its_lease() {
        for_real(
            TestStore::postgres(),
            super::a_key_whose_claimant_was_killed_can_be_claimed_after_its_lease,
        );
    }

    #[test]
    fn all_parts_of_a_killed_holder_become_free_together() {
        for_real(TestStore::postgres(), super::all_parts_of_a_killed_holder_become_free_together);
    }

    #[test]
    fn a_killed_holder_has_all_of_its_locks_or_none() {
        for_real(TestStore::postgres(), super::a_killed_holder_has_all_of_its_locks_or_none);
    }
}
