//! One caller's write, from the call to the answer.

use tidelock_store::{Operation, Result};
use tokio::sync::oneshot;

use crate::commit::Transaction;
use crate::error::{GroupFailure, closed, spoils_the_group};

/// A write, whatever it gives back.
pub(crate) trait Job: Send {
    /// Whether its caller has gone away.
    fn is_abandoned(&self) -> bool;
    /// Does it, and keeps the answer until the transaction is durable. An error here undoes the group.
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
            // What the caller did wrong is so whatever became of the others.
            (_, Some(Err(refusal))) => Err(refusal),
            (Some(failure), _) => Err(failure.to_error()),
            (None, Some(answer)) => answer,
            (None, None) => Err(closed(Operation::Commit)),
        };
        // A caller that does not wait any more need not be told.
        let _ = self.reply.send(answer);
    }
}
