//! Units of work over every pattern.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::runs::RunState;
use tidelock::store::StoreExt;
use tidelock::{Error, ErrorKind};
use tokio::task::JoinSet;

use crate::harness::{Ground, on_every_store};
use crate::shop::{Counter, No, Stepped, Stock, receive, step};

on_every_store!(
    everything_that_is_staged_lands_together,
    an_error_of_the_closure_is_returned_and_nothing_is_written,
    concurrent_transactions_lose_no_update,
    a_changed_read_runs_the_closure_again,
    a_changed_decision_is_taken_again_without_the_closure,
    a_decision_that_refuses_the_second_time_reaches_the_closure,
    a_quota_is_never_overdrawn,
    several_draws_on_one_quota_add_up,
    draws_that_add_up_are_judged_at_the_commit,
    a_singleton_is_taken_by_one_transaction,
    a_second_claim_of_a_singleton_is_refused_at_once,
    a_lock_that_was_lost_fences_the_commit,
    a_compound_that_was_lost_fences_the_commit,
    attempts_that_are_used_up_are_a_contended_error,
    a_second_mutation_of_a_scope_sees_the_first,
    an_unchanged_scope_is_not_written,
    a_reservation_that_was_refunded_fences_the_commit,
    a_claim_with_an_operation_id_is_refused,
    a_kept_clone_is_refused_after_the_closure_has_returned,
);

type Basket = Vec<String>;

fn basket(tidelock: &Tidelock) -> Scope<Basket> {
    tidelock.scope(ScopeKind::SESSION, "alice")
}

/// TX-1.
async fn everything_that_is_staged_lands_together(ground: Ground) {
    let tidelock = ground.open().await;
    let (tea, orders) = (tidelock.aggregate::<Stock>("tea"), tidelock.aggregate::<Counter>("o"));
    tea.execute(receive(3)).await.unwrap();
    basket(&tidelock).set(&vec!["tea".into()]).await.unwrap();
    let claims = tidelock.claims();
    let (daily, first) = (claims.quota("orders", 2), claims.singleton("first"));
    let IdempotencyClaim::Won(won) = claims.idempotency("order-7").claim::<i64>().await.unwrap()
    else {
        panic!("it is free")
    };
    let Outcome::Granted(lock) = claims.lock("till").acquire().await.unwrap() else {
        panic!("it is free")
    };
    let scope = basket(&tidelock);
    let bought = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<usize> {
            let items = tx.mutate(&scope, std::mem::take).await?;
            tx.execute(&tea, |stock: &Stock| stock.reserve(2, "a")).await?;
            tx.append(&orders, Stepped {})?;
            tx.take(&daily, 1).await?.granted()?;
            assert!(matches!(tx.claim(&first, "a").await?, Outcome::Granted(())));
            tx.put("orders/7", &items)?;
            tx.add("sold", 2, ..=10)?;
            tx.enqueue_item(
                tx.tidelock().queue("mail").enqueue("order-7").data(&json!({ "to": "a" })),
            )?;
            tx.start("delivery", "order-7", &()).version(1).await?;
            tx.complete(&won, &7)?;
            tx.fence(&lock)?;
            Ok(items.len())
        })
        .await
        .unwrap();
    assert_eq!(bought, 1);
    assert_eq!(basket(&tidelock).get().await.unwrap(), Basket::new());
    assert_eq!(tea.load().await.unwrap().left, 1);
    assert_eq!(orders.load().await.unwrap().steps, 1);
    assert_eq!(daily.usage().await.unwrap().used, 1);
    assert!(matches!(first.take("b").await.unwrap(), Outcome::Refused(_)));
    let mail = tidelock.queue("mail").lease("worker").await.unwrap();
    assert_eq!(mail[0].data.as_ref().unwrap().as_str(), r#"{"to":"a"}"#);
    let delivery = tidelock.runs().run("order-7").get().await.unwrap();
    assert_eq!(delivery.state, RunState::Open);
    let claim = claims.idempotency("order-7").claim::<i64>().await.unwrap();
    assert!(matches!(claim, IdempotencyClaim::Done(7)), "{claim:?}");
}

/// TX-2.
async fn an_error_of_the_closure_is_returned_and_nothing_is_written(ground: Ground) {
    let tidelock = ground.open().await;
    let (tea, scope) = (tidelock.aggregate::<Stock>("tea"), basket(&tidelock));
    let before = tidelock.store().feed_end().await.unwrap();
    let refused = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<()> {
            tx.mutate(&scope, |basket| basket.push("tea".into())).await?;
            tx.put("orders/7", &1)?;
            tx.execute(&tea, |stock: &Stock| stock.reserve(1, "a")).await?;
            Ok(())
        })
        .await
        .unwrap_err();
    assert_eq!(refused.refusal::<No>(), Some(&No::OnlySoMany(0)));
    assert_eq!(scope.load().await.unwrap().revision, None);
    assert_eq!(tidelock.store().feed_end().await.unwrap(), before);
    let read = tidelock.transact(async |tx: Tx| tx.get::<i64>("orders/7").await);
    assert_eq!(read.await.unwrap(), None);
}

/// TX-3. From two processes at once.
async fn concurrent_transactions_lose_no_update(ground: Ground) {
    let mut tasks = JoinSet::new();
    for nth in 0..8 {
        let tidelock = ground.open().await;
        tasks.spawn(async move {
            let scope = tidelock.scope::<i64>(ScopeKind::custom("count"), "all");
            let retry = Retry::attempts(u32::MAX).within(Duration::from_secs(120));
            for _ in 0..5 {
                let counted = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
                    let count: i64 = tx.get("count").await?.unwrap_or_default();
                    tx.put("count", &(count + 1))?;
                    tx.mutate(&scope, |count| *count += nth).await
                });
                counted.retry(retry).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let tidelock = ground.open().await;
    let count = tidelock.transact(async |tx: Tx| tx.get::<i64>("count").await).await.unwrap();
    let sum = tidelock.scope::<i64>(ScopeKind::custom("count"), "all").get().await.unwrap();
    assert_eq!((count, sum), (Some(40), 5 * 28));
}

/// TX-3.
async fn a_changed_read_runs_the_closure_again(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (tea, calls) = (here.aggregate::<Stock>("tea"), AtomicU32::new(0));
    tea.execute(receive(1)).await.unwrap();
    let left = here
        .transact(async |tx: Tx| -> tidelock::Result<i64> {
            let left = tx.load(&tea).await?.left;
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                there.aggregate::<Stock>("tea").execute(receive(1)).await?;
            }
            tx.put("left", &left)?;
            Ok(left)
        })
        .await
        .unwrap();
    assert_eq!((left, calls.into_inner()), (2, 2));
}

/// TX-4.
async fn a_changed_decision_is_taken_again_without_the_closure(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (orders, calls) = (here.aggregate::<Counter>("orders"), AtomicU32::new(0));
    here.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.execute(&orders, step).await?;
        calls.fetch_add(1, Ordering::SeqCst);
        there.aggregate::<Counter>("orders").execute(step).await?;
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!((orders.load().await.unwrap().steps, calls.into_inner()), (2, 1));
}

/// TX-4.
async fn a_decision_that_refuses_the_second_time_reaches_the_closure(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (tea, calls) = (here.aggregate::<Stock>("tea"), AtomicU32::new(0));
    tea.execute(receive(1)).await.unwrap();
    let sold = here
        .transact(async |tx: Tx| -> tidelock::Result<bool> {
            let reserved = tx.execute(&tea, |stock: &Stock| stock.reserve(1, "a")).await;
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let other = there.aggregate::<Stock>("tea");
                other.execute(|stock| stock.reserve(1, "b")).await?;
            }
            Ok(reserved.is_ok())
        })
        .await
        .unwrap();
    assert_eq!((sold, calls.into_inner()), (false, 2));
}

/// TX-5. From two processes at once.
async fn a_quota_is_never_overdrawn(ground: Ground) {
    let mut tasks = JoinSet::new();
    for nth in 0..12 {
        let tidelock = ground.open().await;
        tasks.spawn(async move {
            let quota = tidelock.claims().quota("seats", 5);
            let retry = Retry::attempts(u32::MAX).within(Duration::from_secs(120));
            let taken = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
                tx.take(&quota, 1).await?.granted()?;
                tx.put(format!("seat/{nth}"), &nth)
            });
            match taken.retry(retry).await {
                Ok(()) => 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Exceeded, "{error}");
                    0
                }
            }
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<i64>(), 5);
    let quota = ground.open().await.claims().quota("seats", 5);
    assert_eq!(quota.usage().await.unwrap().used, 5);
}

/// TX-5. Also if the calls are concurrent.
async fn several_draws_on_one_quota_add_up(ground: Ground) {
    let tidelock = ground.open().await;
    let seats = tidelock.quota("seats", 5);
    let (grants, exceeded) = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<_> {
            let (one, two) = tokio::join!(tx.take(&seats, 1), tx.take(&seats, 2));
            let exceeded = tx.take(&seats, 3).await?.granted().unwrap_err();
            Ok(([one?.granted()?, two?.granted()?, tx.take(&seats, 1).await?.granted()?], exceeded))
        })
        .await
        .unwrap();
    assert_eq!((exceeded.used, exceeded.requested, exceeded.limit), (3, 3, 5));
    assert_eq!(seats.usage().await.unwrap().used, 4);
    for (grant, left) in grants.iter().zip([3, 1, 0]) {
        seats.refund(grant).await.unwrap();
        assert_eq!(seats.usage().await.unwrap().used, left);
    }
}

/// TX-5. When the commit is made, another process has taken what was left.
async fn draws_that_add_up_are_judged_at_the_commit(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (ours, theirs) = (here.quota("seats", 5), there.quota("seats", 5));
    let calls = AtomicU32::new(0);
    let granted = here
        .transact(async |tx: Tx| -> tidelock::Result<_> {
            let (one, two) = (tx.take(&ours, 2).await?, tx.take(&ours, 3).await?);
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                theirs.take(3).await?.granted()?;
            }
            Ok((one.is_granted(), two.is_granted()))
        })
        .await
        .unwrap();
    assert_eq!((granted, calls.into_inner()), ((true, false), 2));
    assert_eq!(theirs.usage().await.unwrap().used, 5);
}

/// TX-5.
async fn a_second_claim_of_a_singleton_is_refused_at_once(ground: Ground) {
    let tidelock = ground.open().await;
    let prize = tidelock.singleton("prize");
    let claimed = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.claim(&prize, "first").await?.granted()?;
        let twice = tx.claim(&prize, "second").await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::Invalid, "{twice}");
        Ok(())
    });
    claimed.await.unwrap();
    let taken = prize.take("third").await.unwrap().granted().unwrap_err();
    assert_eq!(taken.details::<String>().unwrap().as_deref(), Some("first"));
}

/// TX-5.
async fn a_singleton_is_taken_by_one_transaction(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let (ours, theirs) = (here.claims().singleton("prize"), there.claims().singleton("prize"));
    let calls = AtomicU32::new(0);
    let taken = here
        .transact(async |tx: Tx| -> tidelock::Result<bool> {
            let outcome = tx.claim(&ours, "here").await?;
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let first = theirs.take("there").await?;
                assert!(matches!(first, Outcome::Granted(())));
            }
            Ok(matches!(outcome, Outcome::Refused(_)))
        })
        .await
        .unwrap();
    assert_eq!((taken, calls.into_inner()), (true, 2));
}

/// TX-6.
async fn a_lock_that_was_lost_fences_the_commit(ground: Ground) {
    let tidelock = ground.open().await;
    let lock = tidelock.claims().lock("till");
    let Outcome::Granted(held) = lock.acquire().await.unwrap() else { panic!("it is free") };
    let attached = lock.attach(held.fence());
    drop(held.detach());
    attached.release().await.unwrap();
    let calls = AtomicU32::new(0);
    let lost = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<()> {
            calls.fetch_add(1, Ordering::SeqCst);
            tx.fence(&attached)?;
            tx.put("till", &1)
        })
        .await
        .unwrap_err();
    assert_eq!((lost.kind(), calls.into_inner()), (ErrorKind::LeaseLost, 1), "{lost}");
    let till = tidelock.transact(async |tx: Tx| tx.get::<i64>("till").await);
    assert_eq!(till.await.unwrap(), None);
}

/// TX-6.
async fn a_compound_that_was_lost_fences_the_commit(ground: Ground) {
    let tidelock = ground.open().await;
    let (till, seats) = (tidelock.lock("till"), tidelock.quota("seats", 5));
    let both = tidelock.claim_all().lock(&till).quota(&seats, 1);
    let held = both.claim().await.unwrap().granted().unwrap();
    let open = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.fence(&held)?;
        tx.put("till", &1)
    });
    open.await.unwrap();
    let (_, fence) = held.fences().next().unwrap();
    till.attach(fence).release().await.unwrap();
    let calls = AtomicU32::new(0);
    let lost = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        calls.fetch_add(1, Ordering::SeqCst);
        tx.fence(&held)?;
        tx.put("till", &2)
    });
    let lost = lost.await.unwrap_err();
    assert_eq!((lost.kind(), calls.into_inner()), (ErrorKind::LeaseLost, 1), "{lost}");
    let till = tidelock.transact(async |tx: Tx| tx.get::<i64>("till").await);
    assert_eq!(till.await.unwrap(), Some(1));
}

/// TX-3.
async fn attempts_that_are_used_up_are_a_contended_error(ground: Ground) {
    let (here, there) = (ground.open().await, ground.open().await);
    let contended = here
        .transact(async |tx: Tx| -> tidelock::Result<()> {
            let count: i64 = tx.get("count").await?.unwrap_or_default();
            there.transact(async |tx: Tx| tx.add("count", 1, ..)).await?;
            tx.put("count", &(count + 1))
        })
        .retry(Retry::attempts(3).backoff(Backoff::none()))
        .await
        .unwrap_err();
    assert_eq!(contended.kind(), ErrorKind::Contended, "{contended}");
    assert!(contended.is_retryable() && !contended.outcome_unknown());
    let count = here.transact(async |tx: Tx| tx.get::<i64>("count").await).await.unwrap();
    assert_eq!(count, Some(3), "only the others counted");
}

/// TX-1.
async fn a_second_mutation_of_a_scope_sees_the_first(ground: Ground) {
    let tidelock = ground.open().await;
    let scope = basket(&tidelock);
    let length = tidelock
        .transact(async |tx: Tx| -> tidelock::Result<usize> {
            tx.mutate(&scope, |basket| basket.push("tea".into())).await?;
            tx.mutate(&scope, |basket| {
                basket.push("jam".into());
                basket.len()
            })
            .await
        })
        .await
        .unwrap();
    assert_eq!((length, scope.get().await.unwrap()), (2, vec!["tea".into(), "jam".into()]));
    let memory = Scope::in_memory(ScopeKind::SESSION, "alice", Basket::new());
    let refused = tidelock.transact(async |tx: Tx| tx.mutate(&memory, |basket| basket.len()).await);
    let refused: Error = refused.await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}

/// TX-1.
async fn an_unchanged_scope_is_not_written(ground: Ground) {
    let tidelock = ground.open().await;
    let scope = basket(&tidelock);
    let length = tidelock.transact(async |tx: Tx| -> tidelock::Result<usize> {
        tx.put("length", &0)?;
        tx.mutate(&scope, |basket| basket.len()).await
    });
    assert_eq!(length.await.unwrap(), 0);
    assert_eq!(scope.load().await.unwrap().revision, None);
}

/// TX-6.
async fn a_reservation_that_was_refunded_fences_the_commit(ground: Ground) {
    let tidelock = ground.open().await;
    let quota = tidelock.claims().quota("seats", 5);
    let reserved = quota.reserve(1, Duration::from_secs(60)).await.unwrap().granted().unwrap();
    reserved.refund().await.unwrap();
    let calls = AtomicU32::new(0);
    let lost = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        calls.fetch_add(1, Ordering::SeqCst);
        tx.put("seat", &1)?;
        tx.confirm(&reserved)
    });
    let lost = lost.await.unwrap_err();
    assert_eq!((lost.kind(), calls.into_inner()), (ErrorKind::LeaseLost, 1), "{lost}");
    assert_eq!(quota.usage().await.unwrap().used, 0);
}

/// TX-5.
async fn a_claim_with_an_operation_id_is_refused(ground: Ground) {
    let tidelock = ground.open().await;
    let claims = tidelock.claims().operation_id("once");
    let (quota, singleton) = (claims.quota("seats", 5), claims.singleton("first"));
    let taken = tidelock.transact(async |tx: Tx| tx.take(&quota, 1).await.map(drop));
    assert_eq!(taken.await.unwrap_err().kind(), ErrorKind::Invalid);
    let claimed = tidelock.transact(async |tx: Tx| tx.claim(&singleton, "a").await.map(drop));
    assert_eq!(claimed.await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// TX-7.
async fn a_kept_clone_is_refused_after_the_closure_has_returned(ground: Ground) {
    let tidelock = ground.open().await;
    let kept = Arc::new(std::sync::Mutex::new(None));
    tidelock
        .transact(async |tx: Tx| -> tidelock::Result<()> {
            *kept.lock().unwrap() = Some(tx.clone());
            tx.put("a", &1)
        })
        .await
        .unwrap();
    let kept = kept.lock().unwrap().take().unwrap();
    let error = kept.put("b", &1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("the transaction is over"), "{error}");
    let started: Error = kept.start("w", "r", &()).version(1).await.unwrap_err().into();
    let signalled: Error = kept.signal("r", "go", &()).await.unwrap_err().into();
    assert_eq!((started.kind(), signalled.kind()), (ErrorKind::Invalid, ErrorKind::Invalid));
    assert!(tidelock.runs().run("r").get().await.is_err(), "nothing was started");
}
