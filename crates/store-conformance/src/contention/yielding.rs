//! Cooperative yielding: tasks that share a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock_store::{Bounds, Commit, RecordWrite, Store};

use crate::case::{World, cases};
use crate::sample::{commit, key};

cases! { "contention::yielding":
    "COMMIT-7" a_task_that_calls_on_and_on_lets_the_others_of_its_thread_go_first,
}

/// More calls than any task should be able to make in a row.
const ON_AND_ON: usize = 2_000;

async fn a_task_that_calls_on_and_on_lets_the_others_of_its_thread_go_first(world: World) {
    let store = world.another().await;
    let calls = std::thread::spawn(move || calls_before_another_task_runs(&store));
    let calls = calls.join().expect("the thread ends");
    assert!(calls < ON_AND_ON, "the other task waited for all of {calls} calls");
}

/// On one thread: how often one task can call before another one runs.
fn calls_before_another_task_runs(store: &Arc<dyn Store>) -> usize {
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be started");
    let had_its_turn = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let turn = had_its_turn.clone();
        tokio::spawn(async move { turn.store(true, Ordering::SeqCst) });
        for calls in 0..ON_AND_ON {
            if had_its_turn.load(Ordering::SeqCst) {
                return calls;
            }
            commit(&**store, Commit::new().write(RecordWrite::add(&key("n"), 1, Bounds::NONE)))
                .await;
        }
        ON_AND_ON
    })
}
