//! One scenario, played once: work and injuries, the tidying up, and the audit.
//!
//! A round lasts for as long as was asked, and until enough has happened, but not for ever. Then
//! the injuries end and the committers finish, and those who start runs; what dead workers left
//! open is resolved; the consumers drain what is left, reactors handle it, and runners drive what
//! is open; and the follower reads the feed to its end. Then nobody writes any more, and the audit
//! begins.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock::{Commit, CommitId, ExpectedVersion, NewEvent, Position, Store};
use tokio::runtime::Runtime;

use crate::args::Args;
use crate::audit::audit;
use crate::caller::Caller;
use crate::cast::{
    BOOKER, CHANGER, CLAIMANT, CLOSER, COMMITTER, CONSUMER, FOLLOWER, REACTOR, RUNNER, STARTER,
    VICTIM,
};
use crate::crew::{Brief, Workers};
use crate::dice::Rng;
use crate::evidence::Evidence;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::finding::Finding;
use crate::floors::Minimums;
use crate::journal::Journal;
use crate::ledger::{Journals, Ledger};
use crate::progress::Progress;
use crate::reacted::{self, Reacted};
use crate::resolver;
use crate::scenarios::Scenario;
use crate::space::Space;
use crate::stage::Stage;
use crate::tally::Tally;
use crate::target::{Needs, Target};

/// The name of the supervisor's own journal.
const SUPERVISOR: &str = "supervisor";
/// How long the supervisor waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What all rounds of a run have in common.
pub(crate) struct Rounds<'a> {
    pub(crate) args: &'a Args,
    pub(crate) target: &'a Target,
    pub(crate) runtime: &'a Runtime,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) progress: &'a Progress,
}

/// What came of a round.
pub(crate) struct Played {
    pub(crate) tally: Tally,
    pub(crate) findings: Vec<Finding>,
}

impl Rounds<'_> {
    /// Plays a scenario, with the journals in this folder.
    pub(crate) fn play(
        &self,
        scenario: &dyn Scenario,
        seed: u64,
        folder: &Path,
    ) -> Result<Played, Failure> {
        let mut stage = self.set(scenario, seed, folder)?;
        for seat in scenario.cast(self.args.workers) {
            stage.start(seat)?;
        }
        if !stage.crew.wait_until(Workers::is_ready) {
            return Err(Failure::Stage("the workers do not get the store open".to_owned()));
        }
        let begun = Instant::now();
        while !self.is_over(scenario, &stage, begun.elapsed())? {
            scenario.injure(&mut stage)?;
        }
        let evidence = self.tidy_up(&mut stage)?;
        Ok(self.judge(scenario, &evidence, stage.faults, stage.findings))
    }

    fn set(&self, scenario: &dyn Scenario, seed: u64, folder: &Path) -> Result<Stage<'_>, Failure> {
        let journal = Arc::new(Journal::begin(&folder.join(SUPERVISOR))?);
        let caller = Caller::new(self.store.clone(), journal, PATIENCE);
        let space = Space::fresh();
        let (proxy, url) = match scenario.needs() {
            Needs::Network => self.target.behind_proxy().map(|(proxy, url)| (Some(proxy), url))?,
            Needs::Nothing | Needs::Server => (None, self.target.url()),
        };
        let start = self.runtime.block_on(self.mark_start(&space))?;
        let (folder, load) = (folder.to_owned(), scenario.load());
        let brief = Brief { url, folder, space, start, load, flaw: self.args.flaw };
        Ok(Stage {
            target: self.target,
            runtime: self.runtime,
            crew: Workers::new(brief, self.progress),
            caller,
            proxy,
            dice: Rng::seeded(seed),
            faults: Faults::default(),
            findings: Vec::new(),
        })
    }

    /// Writes an event of its own, so that nobody has to read the feed from before the round.
    async fn mark_start(&self, space: &Space) -> Result<Position, Failure> {
        let begun = NewEvent::of("begun", &())?;
        let commit = Commit::new().with_id(CommitId::fresh());
        let commit = commit.append(&space.start(), ExpectedVersion::NoStream, [begun]);
        let committed = self.store.commit(commit).await?.committed();
        let appended = committed.ok().and_then(|mut committed| committed.appends.pop());
        let position = appended.and_then(|appended| appended.positions).map(|(_, last)| last);
        position
            .ok_or_else(|| Failure::Stage("the start of the round could not be marked".to_owned()))
    }

    /// Whether the time is over and enough has happened, however slow the machine; or patience is
    /// at its end.
    fn is_over(
        &self,
        scenario: &dyn Scenario,
        stage: &Stage<'_>,
        played: Duration,
    ) -> Result<bool, Failure> {
        if played < self.args.least() {
            return Ok(false);
        }
        Ok(played >= self.args.patience()
            || self.floors(scenario).missed_by(&self.so_far(stage)?).is_empty())
    }

    fn floors(&self, scenario: &dyn Scenario) -> Minimums {
        scenario.floors(self.args.seconds).and_commits(self.args.floor, self.args.seconds)
    }

    /// What has happened by now. None of these numbers ever falls, so what is enough now will be in
    /// the end. The follower's journal is long, and has next to nothing to count.
    fn so_far(&self, stage: &Stage<'_>) -> Result<Tally, Failure> {
        let journals = stage.read_journals(&stage.crew.all_but(FOLLOWER))?;
        let handled =
            self.runtime.block_on(reacted::handled(&stage.caller, &stage.crew.brief.space))?;
        Ok(Tally::of(&Ledger::of(&journals), &journals, handled, stage.faults.clone()))
    }

    fn tidy_up(&self, stage: &mut Stage<'_>) -> Result<Evidence, Failure> {
        stage.heal();
        stage.finish(&[COMMITTER, STARTER, CHANGER, BOOKER]);
        let dead = stage.read_journals(&stage.crew.dead())?;
        stage.findings.extend(self.runtime.block_on(resolver::resolve(&stage.caller, &dead)));
        let space = &stage.crew.brief.space;
        self.runtime.block_on(resolver::ask_for_runs(&stage.caller, space, &dead))?;
        self.runtime.block_on(resolver::ask_for_changes(&stage.caller, space, &dead))?;
        stage.finish(&[CONSUMER, REACTOR, RUNNER, CLAIMANT, CLOSER, VICTIM]);
        let mut journals = stage.read_journals(&stage.crew.all_but(FOLLOWER))?;
        stage.findings.extend(self.runtime.block_on(resolver::replay(&stage.caller, &journals)));
        stage.finish(&[FOLLOWER]);
        let mut names = stage.crew.in_seat(FOLLOWER);
        names.push(SUPERVISOR.to_owned());
        journals.extend(stage.read_journals(&names)?);
        self.gather(stage, journals)
    }

    fn gather(&self, stage: &mut Stage<'_>, journals: Journals) -> Result<Evidence, Failure> {
        let ends = stage.crew.ends()?;
        let Brief { space, start, load, .. } = &stage.crew.brief;
        let gathered = Evidence::gather(&stage.caller, space, *start, load, journals, ends);
        Ok(self.runtime.block_on(gathered)?)
    }

    fn judge(
        &self,
        scenario: &dyn Scenario,
        evidence: &Evidence,
        faults: Faults,
        mut findings: Vec<Finding>,
    ) -> Played {
        let ledger = Ledger::of(&evidence.journals);
        let handled = evidence.reacted.as_ref().map_or(0, Reacted::count);
        let tally = Tally::of(&ledger, &evidence.journals, handled, faults);
        findings.extend(audit(evidence, &ledger));
        findings.extend(self.floors(scenario).missed_by(&tally));
        Played { tally, findings }
    }
}
