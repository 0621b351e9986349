//! Requests that wait for something or acquire something: what happens on shutdown or disconnect.

use std::future::Future;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock::problem::Problem;
use tokio::sync::oneshot;

use crate::app_state::AppState;

/// Waits for this future, at most until the server shuts down.
pub(super) async fn unless_closing<T>(
    served: &AppState,
    work: impl Future<Output = T>,
) -> Result<T, Problem> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = served.setup.closing.cancelled() => Err(Problem::unavailable(
            "closing",
            "the server is shutting down: try again later",
        )),
    }
}

/// Runs this future to completion even if the client disconnects. A result that the client does not
/// get is undone.
pub(super) async fn unless_gone<T, F>(
    work: impl Future<Output = T> + Send + 'static,
    undo: impl FnOnce(T) -> F + Send + 'static,
) -> Result<T, Problem>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (give, have) = oneshot::channel();
    let undo = move |value| undo(value).boxed();
    tokio::spawn(async move {
        let won = Undoable { value: Some(work.await), undo: Some(Box::new(undo)) };
        // Without a receiver, dropping the result undoes it.
        let _had_or_taken_back = give.send(won);
    });
    let won: Undoable<T> = have.await.map_err(|_| died())?;
    won.keep().ok_or_else(died)
}

fn died() -> Problem {
    let detail = "the task of this request died; check the result, and try again";
    Problem::internal("died", detail)
}

/// A result that is undone unless it is kept.
struct Undoable<T> {
    value: Option<T>,
    undo: Option<Undo<T>>,
}

type Undo<T> = Box<dyn FnOnce(T) -> BoxFuture<'static, ()> + Send>;

impl<T> Undoable<T> {
    fn keep(mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Drop for Undoable<T> {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if let (Some(value), Some(undo)) = (self.value.take(), self.undo.take()) {
            runtime.spawn(undo(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn an_undelivered_result_is_undone() {
        let (go, back) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (going, returned) = (go.clone(), back.clone());
        let work = async move { going.acquire().await.unwrap().forget() };
        let asking =
            tokio::spawn(unless_gone(work, move |()| async move { returned.add_permits(1) }));
        tokio::task::yield_now().await;
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        go.add_permits(1);
        back.acquire().await.unwrap().forget();
    }

    #[tokio::test]
    async fn a_delivered_result_is_kept() {
        let kept = unless_gone(async { 7 }, |_| async { panic!("it was kept") }).await;
        assert_eq!(kept.unwrap(), 7);
    }
}
