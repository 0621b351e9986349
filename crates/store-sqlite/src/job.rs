//! One caller's write, from the call to the answer.

use tidelock_store::{Result, StoreOperation};
use tokio::sync::oneshot;

use crate::commit::Transaction;
use crate::error::{GroupFailure, closed, spoils_the_group};

/// A write, whatever it gives back.
pub(crate) trait Job: Send {
    /// Whether its caller has gone away.
    fn is_abandoned(&self) -> bool;
    /// Does it, and keeps the answer until the transaction is durable. An error here undoes the
    /// group.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<()>;
    /// Answers: with what it did, or with what happened to the group.
    fn finish(self: Box<Self>, failure: Option<&GroupFailure>);
}

/// A job, and where its answer will come.
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
            // A refusal too: an id that was used before may have been used by a neighbour, whose
            // write was undone.
            (Some(failure), _) => Err(failure.to_error()),
            (None, Some(answer)) => answer,
            (None, None) => Err(closed(StoreOperation::Commit)),
        };
        // A caller that does not wait any more need not be told.
        let _ = self.reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind};

    use super::*;
    use crate::commit::WriterCache;

    /// LOG-5, COMMIT-6: the neighbour that had used the id was undone, so the id is free.
    #[test]
    fn a_mismatch_with_a_write_that_was_undone_is_not_for_ever() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let now = tidelock_store::Timestamp::from_micros(0).unwrap();
        let (mut job, mut answer) =
            job(|_| Err::<(), _>(StoreError::mismatch("used by a neighbour")));
        let mut memo = WriterCache::default();
        job.run(&mut Transaction { connection: &connection, memo: &mut memo, now, topics: None })
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
