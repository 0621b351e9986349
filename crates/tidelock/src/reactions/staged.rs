//! What a handler wants to be in the commit of its ack.

use tidelock_store::{ClashKind, Commit, CommitOutcome, Conflict, Part, Result, Settlement};

use super::Failure;
use super::decision::Decision;
use super::door::Door;
use crate::telemetry;
use crate::worker::{Settled, Task};

/// How often a decision is taken again before the handler is.
const TRIES: usize = 20;

/// Parts of a commit, and decisions whose events are part of it.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) commit: Commit,
    pub(crate) decisions: Vec<Decision>,
    /// The way that it takes.
    pub(crate) door: Door,
}

/// What became of a commit with staged parts.
#[derive(Debug)]
pub(crate) enum Landed {
    /// It is there, or it never will be because the lease was lost.
    Settled(Settled),
    /// A part of it did not hold: the handler has to look again.
    Refused(Failure),
}

impl Staged {
    pub(crate) fn is_empty(&self) -> bool {
        self.commit == Commit::new() && self.decisions.is_empty() && self.door.is_shut()
    }

    /// Lands it with this settlement. Decisions that others were quicker than are taken again; the handler is not.
    pub(crate) async fn land(mut self, task: &Task, settlement: Settlement) -> Result<Landed> {
        let settled = Settled::by(&settlement.exit);
        for attempts in 1..=TRIES {
            let commit = self.assemble(settlement.clone());
            if let Err(error) = commit.check() {
                return Ok(Landed::Refused(Failure::fatal(error)));
            }
            let conflict = match self.door.commit(task, commit).await? {
                CommitOutcome::Committed(_) => return Ok(Landed::Settled(settled)),
                CommitOutcome::Conflict(conflict) => conflict,
            };
            if conflict.has(ClashKind::LeaseLost) {
                return Ok(Landed::Settled(Settled::Lost));
            }
            if !self.is_up_to_decisions(&conflict) {
                return Ok(Landed::Refused(Failure::again(conflict)));
            }
            telemetry::reaction_contended(&task.token(), &conflict, attempts);
            if let Err(failure) = self.decide_again().await {
                return Ok(Landed::Refused(failure));
            }
        }
        Ok(Landed::Refused(Failure::again("others were quicker every time that the decision was taken")))
    }

    fn assemble(&self, settlement: Settlement) -> Commit {
        let mut commit = self.commit.clone().settle(settlement);
        self.decisions.iter().for_each(|decision| decision.add_to(&mut commit));
        commit
    }

    /// Whether everything that clashed was decided here, so that deciding again can help.
    fn is_up_to_decisions(&self, conflict: &Conflict) -> bool {
        let Commit { appends, writes, guards, .. } = &self.commit;
        let decided = |part: Part| match part {
            Part::Append(at) => at >= appends.len(),
            Part::Write(at) => at >= writes.len(),
            Part::Guard(at) => at >= guards.len(),
            _ => false,
        };
        self.door.can_be_tried_again() && conflict.clashes.iter().all(|clash| decided(clash.part))
    }

    async fn decide_again(&mut self) -> Result<(), Failure> {
        for decision in &mut self.decisions {
            decision.again().await?;
        }
        Ok(())
    }
}
