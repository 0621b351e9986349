//! Recorder: writes the function's entries, one commit at a time, under the lease's fence and at an
//! expected version.

use std::sync::Arc;

use tidelock_store::{Commit, ExpectedVersion, Result, Version};

use super::{After, Driver};
use crate::reactions::HandlerError;
use crate::runs::activation::{Activation, Batch, Landing, LandingEnd};
use crate::runs::keys;
use crate::staging::{DECISION_ATTEMPTS, Sender, Tried, too_slow};
use crate::worker::is_loss;

/// The outcome of a commit.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Committed; the history has this version.
    Landed(Version),
    /// The history has moved: a signal came.
    Moved,
    /// The history has moved, and the step with the staged writes has to run again.
    MustRestage,
    /// The staged writes were refused.
    Refused(HandlerError),
    /// The lease is lost.
    Lost,
}

/// Commits a batch, and returns it with the outcome.
pub(super) async fn send(
    activation: Arc<Activation>,
    version: Version,
    mut batch: Batch,
) -> Result<(Batch, Sent)> {
    let entries =
        batch.entries.iter().chain(batch.landing.iter().map(|landing| &landing.entry)).cloned();
    let own = Commit::new()
        .append(&keys::stream(activation.run()), ExpectedVersion::Exact(version), entries)
        .fenced_by(activation.task.token());
    let behind = version.plus(own.appends[0].events.len() as u64);
    let sent = match &mut batch.landing {
        None => plain(&activation, own, behind).await?,
        Some(landing) => land(&activation, &own, behind, landing).await?,
    };
    Ok((batch, sent))
}

async fn plain(activation: &Activation, own: Commit, behind: Version) -> Result<Sent> {
    Ok(match activation.task.commit(own).await?.committed() {
        Ok(_) => Sent::Landed(behind),
        Err(conflict) if is_loss(&conflict) => Sent::Lost,
        Err(_) => Sent::Moved,
    })
}

async fn land(
    activation: &Activation,
    own: &Commit,
    behind: Version,
    landing: &mut Landing,
) -> Result<Sent> {
    for attempts in 1..=DECISION_ATTEMPTS {
        return Ok(
            match landing.staged.attempt(Sender::Task(&activation.task), own, attempts).await? {
                Tried::Landed => Sent::Landed(behind),
                Tried::Lost => Sent::Lost,
                Tried::Refused(failure) => Sent::Refused(failure),
                Tried::Moved(_) if landing.staged.can_be_tried_again() => Sent::Moved,
                Tried::Moved(_) => Sent::MustRestage,
                Tried::Stale => continue,
            },
        );
    }
    Ok(Sent::Refused(too_slow()))
}

impl Driver {
    /// Applies the outcome of a batch.
    pub(super) async fn on_result(&mut self, mut batch: Batch, sent: Sent) -> Result<After> {
        match sent {
            Sent::Lost => return Ok(After::Lost),
            Sent::Landed(version) => {
                self.version = version;
                self.landed(batch);
            }
            Sent::Moved => {
                self.catch_up().await?;
                return Ok(self.again(batch));
            }
            Sent::MustRestage => {
                self.refuse(&mut batch, LandingEnd::Restage);
                self.catch_up().await?;
                return Ok(self.again(batch));
            }
            Sent::Refused(failure) => {
                self.refuse(&mut batch, LandingEnd::Refused(failure));
                return Ok(self.again(batch));
            }
        }
        Ok(After::Done)
    }

    fn landed(&self, batch: Batch) {
        let mut state = self.activation.state();
        state.queue.durable = batch.newest;
        state.advance();
        state.wake_all();
        drop(state);
        if let Some(landing) = batch.landing {
            // An operation that no longer waits has been dropped.
            let _answered = landing.reply.send(LandingEnd::Landed);
        }
    }

    fn refuse(&self, batch: &mut Batch, end: LandingEnd) {
        if let Some(landing) = batch.landing.take() {
            self.activation.state().revoke_end(landing.at);
            let _answered = landing.reply.send(end);
        }
    }

    /// Sends the rest again, unless another process has ended the run.
    fn again(&self, batch: Batch) -> After {
        match (batch.entries.is_empty() && batch.landing.is_none(), self.is_ended_elsewhere()) {
            (false, false) => After::Resend(batch),
            (true, false) => {
                let mut state = self.activation.state();
                state.queue.durable = batch.newest;
                After::Done
            }
            (_, true) => After::Done,
        }
    }
}
