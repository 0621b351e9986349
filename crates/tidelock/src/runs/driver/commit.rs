//! Recorder: writes the function's entries, one commit at a time, under the lease's fence and at an
//! expected version.

use std::sync::Arc;

use tidelock_store::{Commit, ExpectedVersion, Result, Version};

use super::{After, Driver};
use crate::handler_error::HandlerError;
use crate::runs::activation::{Activation, LandingOutcome, Outgoing};
use crate::runs::keys;
use crate::staging::{DECISION_ATTEMPTS, Sender, Staged, Tried, too_slow};
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
    mut outgoing: Outgoing,
) -> Result<(Outgoing, Sent)> {
    let batch = &outgoing.batch;
    let entries =
        batch.entries.iter().chain(batch.landing.iter().map(|landing| &landing.entry)).cloned();
    let own = Commit::new()
        .append(&keys::stream(activation.run()), ExpectedVersion::Exact(version), entries)
        .fenced_by(activation.task.token());
    let behind = version.plus(own.appends[0].events.len() as u64);
    let sent = match &mut outgoing.writes {
        None => plain(&activation, own, behind).await?,
        Some(writes) => land(&activation, &own, behind, &mut writes.staged).await?,
    };
    Ok((outgoing, sent))
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
    staged: &mut Staged,
) -> Result<Sent> {
    for attempts in 1..=DECISION_ATTEMPTS {
        return Ok(match staged.attempt(Sender::Task(&activation.task), own, attempts).await? {
            Tried::Landed(_) => Sent::Landed(behind),
            Tried::Lost(_) => Sent::Lost,
            Tried::Refused(failure) => Sent::Refused(failure),
            Tried::Moved(_) if staged.can_be_tried_again() => Sent::Moved,
            Tried::Moved(_) => Sent::MustRestage,
            Tried::Stale => continue,
        });
    }
    Ok(Sent::Refused(too_slow()))
}

impl Driver {
    /// Applies the outcome of a commit.
    pub(super) async fn on_result(&mut self, mut outgoing: Outgoing, sent: Sent) -> Result<After> {
        match sent {
            Sent::Lost => Ok(After::Lost),
            Sent::Landed(version) => {
                self.version = version;
                self.activation.replay(|replay| replay.committed(&outgoing.batch));
                outgoing.answer(LandingOutcome::Committed);
                Ok(After::Done)
            }
            Sent::Moved => {
                self.catch_up().await?;
                Ok(self.again(outgoing))
            }
            Sent::MustRestage => {
                self.refuse(&mut outgoing, LandingOutcome::Restage);
                self.catch_up().await?;
                Ok(self.again(outgoing))
            }
            Sent::Refused(failure) => {
                self.refuse(&mut outgoing, LandingOutcome::Refused(failure));
                Ok(self.again(outgoing))
            }
        }
    }

    fn refuse(&self, outgoing: &mut Outgoing, outcome: LandingOutcome) {
        if let Some(landing) = outgoing.batch.landing.take() {
            self.activation.replay(|replay| replay.landing_failed(&landing));
        }
        outgoing.answer(outcome);
    }

    /// Sends the rest again, unless another process has ended the run.
    fn again(&self, outgoing: Outgoing) -> After {
        let batch = &outgoing.batch;
        if self.is_ended_elsewhere() {
            return After::Done;
        }
        if batch.entries.is_empty() && batch.landing.is_none() {
            self.activation.replay(|replay| replay.committed(batch));
            return After::Done;
        }
        After::Resend(outgoing)
    }
}
