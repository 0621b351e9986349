//! One round of a scenario: work and faults, the drain, and the audit.
//!
//! A round lasts for its minimum duration and until its minimums are reached, up to its maximum
//! duration. Then faults end, and committers and starters finish; what dead workers left open is
//! resolved; consumers drain the rest, reactors handle it, and runners drive open runs; and the
//! follower reads the feed to its end. After the last write the audit begins.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::ExpectedVersion;
use tidelock::store::{Commit, CommitId, NewEvent, Position, Store};
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::audit::audit;
use crate::caller::Caller;
use crate::evidence::Evidence;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::finding::Finding;
use crate::journal::Journal;
use crate::ledger::{Journals, Ledger};
use crate::minimums::Minimums;
use crate::plan::{
    BOOKER, CHANGER, CLAIMANT, CLOSER, COMMITTER, CONSUMER, FOLLOWER, REACTOR, RUNNER, STARTER,
    VICTIM,
};
use crate::progress::Progress;
use crate::reaction_audit::{self, ReactionAudit};
use crate::resolver;
use crate::rng::Rng;
use crate::scenarios::Scenario;
use crate::space::Space;
use crate::supervisor::Supervisor;
use crate::tally::Tally;
use crate::target::{Needs, Target};
use crate::workers::{Brief, Workers};

/// The name of the supervisor's own journal.
const SUPERVISOR: &str = "supervisor";
/// How long the supervisor waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The common parts of all rounds of a run.
pub(crate) struct Rounds<'a> {
    pub(crate) args: &'a Args,
    pub(crate) target: &'a Target,
    pub(crate) runtime: &'a Runtime,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) progress: &'a Progress,
}

/// The outcome of a round.
pub(crate) struct RoundOutcome {
    pub(crate) tally: Tally,
    pub(crate) findings: Vec<Finding>,
}

impl Rounds<'_> {
    /// Runs a scenario once, with the journals in this folder.
    pub(crate) fn run_round(
        &self,
        scenario: &Scenario,
        seed: u64,
        folder: &Path,
    ) -> Result<RoundOutcome, Failure> {
        let mut supervisor = self.set(scenario, seed, folder)?;
        for slot in scenario.plan(self.args.workers) {
            supervisor.start(slot)?;
        }
        if !supervisor.workers.wait_until(Workers::is_ready) {
            return Err(Failure::Setup("the workers do not get the store open".to_owned()));
        }
        let begun = Instant::now();
        while !self.is_over(scenario, &supervisor, begun.elapsed())? {
            (scenario.injure)(&mut supervisor)?;
        }
        let evidence = self.tidy_up(&mut supervisor)?;
        Ok(self.judge(scenario, &evidence, supervisor.faults, supervisor.findings))
    }

    fn set(
        &self,
        scenario: &Scenario,
        seed: u64,
        folder: &Path,
    ) -> Result<Supervisor<'_>, Failure> {
        let journal = Arc::new(Journal::begin(&folder.join(SUPERVISOR))?);
        let caller = Caller::new(self.store.clone(), journal, PATIENCE);
        let space = Space::fresh();
        let (proxy, url) = match scenario.needs {
            Needs::Network => self.target.behind_proxy().map(|(proxy, url)| (Some(proxy), url))?,
            Needs::Nothing | Needs::Server => (None, self.target.url()),
        };
        let start = self.runtime.block_on(self.mark_start(&space))?;
        let (folder, load) = (folder.to_owned(), (scenario.load)());
        let brief = Brief { url, folder, space, start, load, flaw: self.args.flaw };
        Ok(Supervisor {
            target: self.target,
            runtime: self.runtime,
            workers: Workers::new(brief, self.progress),
            caller,
            proxy,
            rng: Rng::seeded(seed),
            faults: Faults::default(),
            findings: Vec::new(),
        })
    }

    /// Appends a marker event, so that the feed need not be read from before the round.
    async fn mark_start(&self, space: &Space) -> Result<Position, Failure> {
        let begun = NewEvent::of("begun", &())?;
        let commit = Commit::new().with_id(CommitId::fresh());
        let commit = commit.append(&space.start(), ExpectedVersion::NoStream, [begun]);
        let committed = self.store.commit(commit).await?.committed();
        let appended = committed.ok().and_then(|mut committed| committed.appends.pop());
        let position = appended.and_then(|appended| appended.positions).map(|(_, last)| last);
        position
            .ok_or_else(|| Failure::Setup("the start of the round could not be marked".to_owned()))
    }

    /// Whether the minimum duration is over and the minimums are reached; or the maximum duration
    /// is.
    fn is_over(
        &self,
        scenario: &Scenario,
        supervisor: &Supervisor<'_>,
        elapsed: Duration,
    ) -> Result<bool, Failure> {
        if elapsed < self.args.least() {
            return Ok(false);
        }
        Ok(elapsed >= self.args.patience()
            || self.minimums(scenario).missed_by(&self.so_far(supervisor)?).is_empty())
    }

    fn minimums(&self, scenario: &Scenario) -> Minimums {
        (scenario.minimums)(self.args.seconds).and_commits(self.args.min_commits, self.args.seconds)
    }

    /// The counts so far. None of them ever decreases, so a minimum that is reached stays reached.
    /// The follower's journal is long, and has almost nothing to count.
    fn so_far(&self, supervisor: &Supervisor<'_>) -> Result<Tally, Failure> {
        let journals = supervisor.read_journals(&supervisor.workers.all_but(FOLLOWER))?;
        let handled = self.runtime.block_on(reaction_audit::handled(
            &supervisor.caller,
            &supervisor.workers.brief.space,
        ))?;
        Ok(Tally::of(&Ledger::of(&journals), &journals, handled, supervisor.faults.clone()))
    }

    fn tidy_up(&self, supervisor: &mut Supervisor<'_>) -> Result<Evidence, Failure> {
        supervisor.heal();
        supervisor.finish(&[COMMITTER, STARTER, CHANGER, BOOKER]);
        let dead = supervisor.read_journals(&supervisor.workers.dead())?;
        supervisor
            .findings
            .extend(self.runtime.block_on(resolver::resolve(&supervisor.caller, &dead)));
        let space = &supervisor.workers.brief.space;
        self.runtime.block_on(resolver::ask_for_runs(&supervisor.caller, space, &dead))?;
        self.runtime.block_on(resolver::ask_for_changes(&supervisor.caller, space, &dead))?;
        supervisor.finish(&[CONSUMER, REACTOR, RUNNER, CLAIMANT, CLOSER, VICTIM]);
        let mut journals = supervisor.read_journals(&supervisor.workers.all_but(FOLLOWER))?;
        supervisor
            .findings
            .extend(self.runtime.block_on(resolver::replay(&supervisor.caller, &journals)));
        supervisor.finish(&[FOLLOWER]);
        let mut names = supervisor.workers.in_slot(FOLLOWER);
        names.push(SUPERVISOR.to_owned());
        journals.extend(supervisor.read_journals(&names)?);
        self.gather(supervisor, journals)
    }

    fn gather(
        &self,
        supervisor: &mut Supervisor<'_>,
        journals: Journals,
    ) -> Result<Evidence, Failure> {
        let ends = supervisor.workers.ends()?;
        let Brief { space, start, load, .. } = &supervisor.workers.brief;
        let gathered = Evidence::gather(&supervisor.caller, space, *start, load, journals, ends);
        Ok(self.runtime.block_on(gathered)?)
    }

    fn judge(
        &self,
        scenario: &Scenario,
        evidence: &Evidence,
        faults: Faults,
        mut findings: Vec<Finding>,
    ) -> RoundOutcome {
        let ledger = Ledger::of(&evidence.journals);
        let handled = evidence.reaction_audit.as_ref().map_or(0, ReactionAudit::count);
        let tally = Tally::of(&ledger, &evidence.journals, handled, faults);
        findings.extend(audit(evidence, &ledger));
        findings.extend(self.minimums(scenario).missed_by(&tally));
        RoundOutcome { tally, findings }
    }
}
