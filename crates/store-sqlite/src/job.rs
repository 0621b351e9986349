//! A queued write: one caller's job, from the call to the answer.

use tidelock_store::{Result, StoreOperation};
use tokio::sync::oneshot;

use crate::commit::Transaction;
use crate::error::{GroupFailure, closed, spoils_the_group};

/// A write with any result type.
pub(crate) trait Job: Send {
    /// Whether its caller is gone.
    fn is_abandoned(&self) -> bool;
    /// Runs the job and keeps the answer until the transaction is durable. An error here rolls back
    /// the group.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<()>;
    /// Answers with the job's result, or with the group's failure.
    fn finish(self: Box<Self>, failure: Option<&GroupFailure>);
}

/// Creates a job and the receiver of its answer.
pub(crate) fn job<T: Send + 'static>(
    act: impl FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
) -> (Box<dyn Job>, oneshot::Receiver<Result<T>>) {
    let (reply, answer) = oneshot::channel();
    (Box::new(Call { act: Some(act), answer: None, reply }), answer)
}

struct Call<T, F> {
    act: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Transaction<'_>) -> Result<T> + Send,
{
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        let Some(act) = self.act.take() else { return Ok(()) };
        match act(transaction) {
            Err(error) if spoils_the_group(&error) => Err(error),
            answer => {
                self.answer = Some(answer);
                Ok(())
            }
        }
    }

    fn finish(self: Box<Self>, failure: Option<&GroupFailure>) {
        let answer = match (failure, self.answer) {
            // Even a refusal: an id used before may have been used by another job of the group,
            // whose write was rolled back.
            (Some(failure), _) => Err(failure.to_error()),
            (None, Some(answer)) => answer,
            (None, None) => Err(closed(StoreOperation::Commit)),
        };
        // The caller may be gone.
        let _ = self.reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind};

    use super::*;
    use crate::commit::WriterCache;

    /// LOG-5, COMMIT-6: the other job that used the id was rolled back, so the id is free.
    #[test]
    fn an_id_is_free_again_after_the_write_that_used_it_was_rolled_back() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let now = tidelock_store::Timestamp::from_micros(0).unwrap();
        let (mut job, mut answer) =
            job(|_| Err::<(), _>(StoreError::mismatch("used by a neighbour")));
        let mut cache = WriterCache::default();
        job.run(&mut Transaction { connection: &connection, cache: &mut cache, now, topics: None })
            .unwrap();
        let failure = StoreError::new(
            StoreErrorKind::Full,
            RetryAdvice::Later,
            StoreOperation::Commit,
            "no room",
        );
        job.finish(Some(&GroupFailure { failure, calls: 2 }));
        assert_eq!(answer.try_recv().unwrap().unwrap_err().advice(), RetryAdvice::Later);
    }
}
