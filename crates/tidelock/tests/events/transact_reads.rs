//! What a unit of work reads: refusals are compared at the commit like values, and its own writes
//! are visible to it.

use std::sync::atomic::{AtomicU32, Ordering};

use tidelock::ErrorKind;
use tidelock::prelude::*;

use crate::harness::{Ground, on_every_store};
use crate::shop::{Counter, Stepped, Stock, receive};

on_every_store!(
    an_exceeded_quota_is_compared_at_the_commit,
    a_second_draw_that_is_refused_is_compared_at_the_commit,
    a_taken_singleton_is_compared_at_the_commit,
    a_refused_mutation_is_compared_at_the_commit,
    a_scope_that_is_gone_is_compared_at_the_commit,
    a_refused_decision_is_compared_at_the_commit,
    a_decision_without_events_is_compared_at_the_commit,
    a_unit_of_work_reads_its_own_writes,
    additions_and_values_of_one_unit_of_work_are_merged,
    a_handle_of_another_store_is_refused,
);

/// Counts the runs of a closure; the first one is overtaken.
#[derive(Default)]
struct Runs(AtomicU32);

impl Runs {
    fn is_first(&self) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst) == 0
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// TX-3.
async fn an_exceeded_quota_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let grant = other.quota("q", 2).take(2).await.unwrap().granted().unwrap();
    let (quota, runs) = (tidelock.quota("q", 2), Runs::default());
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        if !tx.take(&quota, 1).await?.is_granted() {
            if runs.is_first() {
                other.quota("q", 2).refund(&grant).await?;
            }
            tx.put("sold-out", &true)?;
        }
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!(get(&tidelock, "sold-out").await, None, "there were free units at the commit");
    assert_eq!((runs.count(), quota.usage().await.unwrap().used), (1, 1));
}

/// TX-3. The first draw of the same unit of work is staged already.
async fn a_second_draw_that_is_refused_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let grant = other.quota("q", 2).take(1).await.unwrap().granted().unwrap();
    let (quota, runs) = (tidelock.quota("q", 2), Runs::default());
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.take(&quota, 1).await?.granted()?;
        if !tx.take(&quota, 1).await?.is_granted() && runs.is_first() {
            other.quota("q", 2).refund(&grant).await?;
        }
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!((runs.count(), quota.usage().await.unwrap().used), (1, 2), "both are free then");
}

/// TX-3.
async fn a_taken_singleton_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let held = other.singleton("s").claim::<String>().await.unwrap().granted().unwrap();
    let held = std::sync::Mutex::new(Some(held));
    let (singleton, runs) = (tidelock.singleton("s"), Runs::default());
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        if !tx.claim(&singleton, "here").await?.is_granted() {
            assert!(runs.is_first(), "it is free the second time");
            let held = held.lock().unwrap().take().unwrap();
            held.release().await?;
            tx.put("taken", &true)?;
        }
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!(get(&tidelock, "taken").await, None);
    assert!(!other.singleton("s").take("there").await.unwrap().is_granted());
}

/// TX-3.
async fn a_refused_mutation_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let (stock, runs) = (tidelock.scope::<i64>(ScopeKind::USER, "stock"), Runs::default());
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        let sold = tx.try_mutate(&stock, |left| match left {
            0 => Err("sold out"),
            _ => {
                *left -= 1;
                Ok(())
            }
        });
        if sold.await.is_err() {
            if runs.is_first() {
                other.scope::<i64>(ScopeKind::USER, "stock").set(&5).await?;
            }
            tx.put("sold-out", &true)?;
        }
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!((get(&tidelock, "sold-out").await, stock.get().await.unwrap()), (None, 4));
}

/// TX-3.
async fn a_scope_that_is_gone_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let (cart, runs) = (tidelock.scope::<i64>(ScopeKind::SESSION, "cart"), Runs::default());
    cart.set(&1).await.unwrap();
    cart.delete().await.unwrap();
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        if let Err(gone) = tx.mutate(&cart, |units| *units += 1).await {
            assert_eq!(gone.kind(), ErrorKind::Gone);
            if runs.is_first() {
                other.scope::<i64>(ScopeKind::SESSION, "cart").create(7).await?;
            }
            tx.put("gone", &true)?;
        }
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!((get(&tidelock, "gone").await, cart.get().await.unwrap()), (None, 8));
}

/// TX-3.
async fn a_refused_decision_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let (tea, runs) = (tidelock.aggregate::<Stock>("tea"), Runs::default());
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        if tx.execute(&tea, |stock: &Stock| stock.reserve(1, "a")).await.is_err() {
            if runs.is_first() {
                other.aggregate::<Stock>("tea").execute(receive(1)).await?;
            }
            tx.put("sold-out", &true)?;
        }
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!(get(&tidelock, "sold-out").await, None);
    assert_eq!(tea.load().await.unwrap().orders, ["a"]);
}

/// TX-4.
async fn a_decision_without_events_is_compared_at_the_commit(ground: Ground) {
    let (tidelock, other) = (ground.open().await, ground.open().await);
    let (tea, runs) = (tidelock.aggregate::<Stock>("tea"), Runs::default());
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.execute(&tea, |stock: &Stock| Ok::<_, String>(stock.reserve(1, "a").ok())).await?;
        if runs.is_first() {
            other.aggregate::<Stock>("tea").execute(receive(1)).await?;
        }
        tx.put("asked", &true)
    });
    unit.await.unwrap();
    assert_eq!((runs.count(), tea.load().await.unwrap().orders.len()), (1, 1));
}

/// TX-8.
async fn a_unit_of_work_reads_its_own_writes(ground: Ground) {
    let tidelock = ground.open().await;
    let before = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.put("kept", &1)?;
        tx.add("count", 40, ..)
    });
    before.await.unwrap();
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.put("new", &7)?;
        assert_eq!(tx.get::<i64>("new").await?, Some(7));
        tx.put("new", &8)?;
        assert_eq!(tx.get::<i64>("new").await?, Some(8));
        tx.delete("kept")?;
        assert_eq!(tx.get::<i64>("kept").await?, None);
        tx.add("count", 2, ..)?;
        assert_eq!(tx.get::<i64>("count").await?, Some(42));
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!(get(&tidelock, "new").await, Some(8));
    assert_eq!(get(&tidelock, "kept").await, None);
    assert_eq!(get(&tidelock, "count").await, Some(42));
}

/// TX-8.
async fn additions_and_values_of_one_unit_of_work_are_merged(ground: Ground) {
    let tidelock = ground.open().await;
    let walk = tidelock.aggregate::<Counter>("walk");
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.add("calls", 1, ..=3)?;
        tx.add("calls", 2, ..=3)?;
        tx.put("last", &"a")?;
        tx.put("last", &"b")?;
        tx.append(&walk, Stepped {})?;
        tx.append(&walk, Stepped {})?;
        assert_eq!(tx.put("calls", &1).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.add("last", 1, ..).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(tx.add("calls", -1, 0..).unwrap_err().kind(), ErrorKind::Invalid);
        Ok(())
    });
    unit.await.unwrap();
    assert_eq!(get(&tidelock, "calls").await, Some(3));
    assert_eq!(walk.load().await.unwrap().steps, 2);
    let over = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        tx.add("calls", 1, ..=5)?; // 4
        tx.add("calls", 1, ..=4)?; // would be 5
        Ok(())
    });
    assert_eq!(over.await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(get(&tidelock, "calls").await, Some(3), "within the bounds of both");
}

/// TX-9.
async fn a_handle_of_another_store_is_refused(ground: Ground) {
    let tidelock = ground.open().await;
    let other = Tidelock::open("memory:").await.unwrap();
    let (tea, cart) = (other.aggregate::<Stock>("tea"), other.scope::<i64>(ScopeKind::USER, "a"));
    let (quota, singleton) = (other.quota("q", 1), other.singleton("s"));
    let unit = tidelock.transact(async |tx: Tx| -> tidelock::Result<()> {
        let decided = tx.execute(&tea, receive(1)).await.map_err(tidelock::Error::from);
        let refusals = [
            decided.unwrap_err(),
            tx.load(&tea).await.unwrap_err(),
            tx.append(&tea, crate::shop::StockEvent::Received { units: 1 }).unwrap_err(),
            tx.mutate(&cart, |units| *units += 1).await.unwrap_err(),
            tx.take(&quota, 1).await.unwrap_err(),
            tx.claim(&singleton, "a").await.unwrap_err(),
        ];
        for refused in refusals {
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
            assert!(refused.to_string().contains("another store"), "{refused}");
        }
        Ok(())
    });
    unit.await.unwrap();
}

async fn get(tidelock: &Tidelock, key: &str) -> Option<i64> {
    let value = tidelock.transact(async |tx: Tx| tx.get::<serde_json::Value>(key).await);
    value.await.unwrap().map(|value| value.as_i64().unwrap_or(1))
}
