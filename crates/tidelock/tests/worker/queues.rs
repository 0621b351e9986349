//! Queues for workers of any kind, which know only a key and a fence.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::queues::{ItemState, LeasedItem, Queue, SettleOutcome};
use tidelock::store::{
    ItemRef, LeaseToken, Renewal, Result, Settle, Settlement, Store, StoreExt, StoreOperation,
};
use tidelock_test_stage::{Interceptor, PATIENCE, TestStore, Wrapped, on_every_store, until};
use tokio::sync::Semaphore;

const MINUTE: Duration = Duration::from_secs(60);
/// Expires immediately.
const INSTANT: Duration = Duration::from_millis(5);

async fn mail(stage: &TestStore) -> Queue {
    stage.tidelock().await.queue("mail")
}

async fn take(queue: &Queue) -> Vec<LeasedItem> {
    queue.lease("w").duration(MINUTE).limit(10).await.unwrap()
}

fn ack(lease: LeaseToken) -> Settlement {
    Settlement { lease, done: None, exit: Settle::Ack { defer: None, forget: None } }
}

fn data(taken: &LeasedItem) -> Option<Value> {
    taken.data.as_ref().map(|data| data.to().unwrap())
}

async fn state(store: &dyn Store, key: &str) -> ItemState {
    let item = store.item(&ItemRef::parse("mail", key).unwrap()).await.unwrap().unwrap();
    ItemState::of(&item, store.now().await.unwrap())
}

/// QUEUE-1.
async fn an_item_is_enqueued_once_and_leased_with_its_data(stage: TestStore) {
    let (here, there) = (mail(&stage).await, mail(&stage).await);
    here.enqueue("ada").data(&json!({ "text": "old" })).await.unwrap();
    here.enqueue("ada").data(&json!({ "text": "new" })).await.unwrap();
    let taken = take(&there).await;
    let [one] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((one.lease.item.key.as_str(), data(one)), ("ada", Some(json!({ "text": "new" }))));
    assert!(take(&here).await.is_empty(), "one has it");
    here.enqueue("ada").await.unwrap();
    let token = here.token("ada", one.lease.fence).unwrap();
    assert_eq!(here.settle(vec![ack(token)]).await.unwrap(), [SettleOutcome::Settled]);
    let again = take(&there).await;
    assert_eq!(
        (again.len(), data(&again[0])),
        (1, data(one)),
        "it was enqueued while it was leased"
    );
    there.settle(vec![ack(again[0].lease.token())]).await.unwrap();
    assert!(take(&here).await.is_empty());
}

/// QUEUE-5. An empty id identifies no operation.
async fn an_operation_with_an_empty_id_enqueues_nothing(stage: TestStore) {
    let mail = mail(&stage).await;
    let refused = mail.enqueue("ada").operation_id("").await.unwrap_err();
    assert!(refused.to_string().contains("the id of the operation is empty"), "{refused}");
    assert!(take(&mail).await.is_empty());
}

/// QUEUE-5. It was settled in the meantime, and nothing is woken.
async fn an_item_is_enqueued_once_per_operation(stage: TestStore) {
    let (here, there) = (mail(&stage).await, mail(&stage).await);
    let put = |queue: &Queue, id: &str, text: &str| {
        queue.enqueue("ada").data(&json!({ "text": text })).operation_id(id)
    };
    let first = put(&here, "a", "hi").await.unwrap();
    let token = take(&there).await[0].lease.token();
    there.settle(vec![ack(token)]).await.unwrap();
    assert_eq!(put(&there, "a", "hi").await.unwrap(), first);
    assert!(take(&here).await.is_empty());
    put(&there, "b", "hi").await.unwrap();
    let token = take(&here).await[0].lease.token();
    there.settle(vec![ack(token)]).await.unwrap();
    put(&there, "a", "ho").await.unwrap();
    assert_eq!(take(&here).await.len(), 1, "what is put in is another");
}

/// QUEUE-2.
async fn each_lease_is_settled_for_itself(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let queue = tidelock.queue("mail");
    for key in ["a", "b", "c"] {
        queue.enqueue(key).await.unwrap();
    }
    let slow = queue.lease("slow").duration(INSTANT).limit(1).await.unwrap().remove(0).lease;
    let key = slow.item.key.as_str();
    until("its lease has run out", async || {
        state(&**tidelock.store(), key).await == ItemState::Expired
    })
    .await;
    let quick: Vec<_> = take(&queue).await.into_iter().map(|taken| taken.lease).collect();
    assert_eq!(quick.len(), 3);
    let renewed = queue.renew(&[slow.token(), quick[0].token()], MINUTE).await.unwrap();
    assert!(matches!(&renewed[..], [Renewal::Lost(Some(_)), Renewal::Renewed(_)]), "{renewed:?}");
    let [first, second, third] = &quick[..] else { panic!("{quick:?}") };
    let settled = queue
        .settle(vec![
            Settlement::retry(first.token(), MINUTE, "later"),
            ack(slow.token()),
            Settlement::block(second.token(), "never"),
        ])
        .await
        .unwrap();
    assert!(
        matches!(
            &settled[..],
            [SettleOutcome::Settled, SettleOutcome::Lost(Some(_)), SettleOutcome::Settled]
        ),
        "{settled:?}"
    );
    assert_eq!(queue.settle(vec![ack(slow.token())]).await.unwrap().len(), 1);
    let store = &**tidelock.store();
    assert_eq!(state(store, first.item.key.as_str()).await, ItemState::Waiting);
    assert_eq!(state(store, second.item.key.as_str()).await, ItemState::Blocked);
    assert_eq!(
        state(store, third.item.key.as_str()).await,
        ItemState::Held,
        "it is still the third's"
    );
}

/// QUEUE-3.
async fn a_waiting_worker_gets_an_item_enqueued_later(stage: TestStore) {
    let (here, there) = (mail(&stage).await, mail(&stage).await);
    assert!(here.lease("w").within(INSTANT).await.unwrap().is_empty());
    let waiting = tokio::spawn(async move { here.lease("w").within(PATIENCE).await });
    there.enqueue("ada").data(&7).await.unwrap();
    let taken = waiting.await.unwrap().unwrap();
    assert_eq!(data(&taken[0]), Some(json!(7)));
}

/// Lets leases be granted, and delays their replies until it is allowed.
#[derive(Debug)]
struct SlowAnswers {
    granted: Arc<Semaphore>,
    allowed: Arc<Semaphore>,
}

impl Interceptor for SlowAnswers {
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await;
        if operation == StoreOperation::Lease {
            self.granted.add_permits(1);
            self.allowed.acquire().await.unwrap().forget();
        }
        answer
    }
}

/// QUEUE-3: neither while it waits, nor after the store has granted it.
async fn a_cancelled_wait_leaves_no_lease(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    tidelock.queue("mail").enqueue("ada").await.unwrap();
    let (granted, allowed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let between = SlowAnswers { granted: granted.clone(), allowed: allowed.clone() };
    let slow = Tidelock::over(Wrapped::new(tidelock.store().clone(), between));
    let asking =
        tokio::spawn(async move { slow.queue("mail").lease("gone").duration(MINUTE).await });
    granted.acquire().await.unwrap().forget();
    assert_eq!(state(&**tidelock.store(), "ada").await, ItemState::Held);
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    allowed.add_permits(1);
    until("it was given back", async || state(&**tidelock.store(), "ada").await == ItemState::Due)
        .await;
    assert_eq!(take(&tidelock.queue("mail")).await.len(), 1);
}

/// QUEUE-4.
async fn reserved_and_other_queues_are_left_unchanged(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for name in ["~reaction/mail", "~", "", "a\nb"] {
        let queue = tidelock.queue(name);
        queue.enqueue("a").await.expect_err(name);
        queue.lease("w").await.expect_err(name);
    }
    let (mail, post) = (tidelock.queue("mail"), tidelock.queue("post"));
    mail.enqueue("a").await.unwrap();
    let lease = take(&mail).await.remove(0).lease;
    post.settle(vec![ack(lease.token())]).await.expect_err("it is another queue's");
    post.renew(&[lease.token()], MINUTE).await.expect_err("it is another queue's");
    mail.enqueue("").await.expect_err("it names nothing");
    mail.lease("w").limit(0).await.expect_err("nothing was asked for");
}

on_every_store!(
    an_item_is_enqueued_once_and_leased_with_its_data,
    an_operation_with_an_empty_id_enqueues_nothing,
    an_item_is_enqueued_once_per_operation,
    each_lease_is_settled_for_itself,
    a_waiting_worker_gets_an_item_enqueued_later,
    a_cancelled_wait_leaves_no_lease,
    reserved_and_other_queues_are_left_unchanged,
);
