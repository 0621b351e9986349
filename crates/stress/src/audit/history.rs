//! The journals as a history, for the checkers that read whole histories: linearizability, cycles
//! of dependencies, the feed, holders and accounts.
//!
//! They see what the other questions ask too, and more: the order of everything in real time.

use std::collections::{BTreeMap, HashMap};

use tidelock::store::{Commit, CommitId, EventId, StoredEvent};
use tidelock_sim::checkers::{self, Report};
use tidelock_sim::history::{
    self, Action, Answer, Audit, Change, Client, Expected, FinalStream, Grant, History, Moment,
    Note, Operation, Outcome, Part, Phase, Remark, Slot, StepPromise, list_value,
};

use super::Inquiry;
use crate::board::{Board, Change as BoardChange, Wish};
use crate::claim::{Bump, Completed as CompletedKey};
use crate::evidence::Evidence;
use crate::finding::{Finding, Kind};
use crate::journal::Entry;
use crate::plan::FOLLOWER;
use crate::reaction::{Handled, Reaction};
use crate::sample_run::{AT_LEAST_ONCE, Completed as CompletedRun, Recorded, SEND};
use crate::trouble::Told;

/// The questions that can be asked about claims: their calls are not in the journals, only what
/// came of them.
const OF_CLAIMS: [&str; 4] = ["numbers", "holders", "quotas", "accounts"];

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let evidence = inquiry.evidence;
    let (calls, claims) = Scribe::read(evidence);
    let mut audit = final_state(evidence);
    let mut found = findings(&checkers::check(&calls, &audit));
    audit = Audit { results: results(evidence), ..Audit::default() };
    let runs = |name: &str| OF_CLAIMS.contains(&name);
    found.extend(findings(&checkers::check_with(&claims, &audit, runs)));
    found
}

fn findings(report: &Report) -> Vec<Finding> {
    for undecided in &report.undecided {
        eprintln!("undecided: {undecided}");
    }
    let tell = |violation: &checkers::Violation| {
        Finding::new(Kind::Anomaly, format!("{}: {}", violation.anomaly, violation.story))
    };
    report.violations.iter().map(tell).collect()
}

/// Writes histories from journals.
#[derive(Default)]
struct Scribe<'a> {
    who: &'a str,
    now: u64,
    calls: History,
    claims: History,
    commits: HashMap<CommitId, &'a Commit>,
    /// The last send of each commit.
    sends: HashMap<CommitId, usize>,
    wishes: HashMap<&'a str, (&'a Wish, u64)>,
    /// The quotas of draws.
    draws: HashMap<&'a str, String>,
    /// Where each follower is in the feed.
    reached: HashMap<&'a str, u64>,
    /// The targets of events.
    targets: HashMap<EventId, &'a StoredEvent>,
}

impl<'a> Scribe<'a> {
    /// The calls of the workers, and their claims.
    fn read(evidence: &'a Evidence) -> (History, History) {
        let targets = evidence.feed.iter().map(|event| (event.id, event)).collect();
        let mut scribe = Self { targets, ..Self::default() };
        for (who, entries) in &evidence.journals {
            (scribe.who, scribe.now) = (who, 0);
            entries.iter().for_each(|entry| scribe.enter(evidence, entry));
        }
        scribe.guarded_writes(evidence);
        scribe.unheard();
        scribe.calls.sort();
        scribe.claims.sort();
        (scribe.calls, scribe.claims)
    }

    fn enter(&mut self, evidence: &'a Evidence, entry: &'a Entry) {
        match entry {
            Entry::Now(now) => self.now = *now,
            Entry::Try(commit) => self.send(commit),
            Entry::Again { id, .. } => {
                if let Some(commit) = self.commits.get(id).copied() {
                    self.send(commit);
                }
            }
            Entry::Acked { id, committed } => {
                self.answer(*id, |commit| Outcome::Done(history::landed(commit, committed)));
            }
            Entry::Refused { id, conflict, .. } => {
                self.answer(*id, |commit| Outcome::Refused(history::refusals(commit, conflict)));
            }
            Entry::Failed { id, trouble } => self.answer(*id, |_| match trouble.advice {
                Told::Unknown => Outcome::Unknown(trouble.why.clone()),
                Told::Never | Told::Later => Outcome::Failed(trouble.why.clone()),
            }),
            Entry::Held { asked, at, lease } => {
                let grant = history::grant(lease, *at);
                let rights = vec![grant.right.clone()];
                let action = Action::Acquire { rights, holder: self.holder() };
                let call = self.call(*asked, action, Answer::Granted(vec![grant]));
                self.calls.operations.push(call);
            }
            Entry::Renewed { asked, lease, deadline } => {
                let (right, fence) = (history::right(&lease.item), lease.fence.get());
                let answer = Answer::Renewed(history::micros(*deadline));
                let call = self.call(*asked, Action::Renew { right, fence }, answer);
                self.calls.operations.push(call);
            }
            Entry::Seen(events) => self.page(evidence, events),
            Entry::Wished(wish) => {
                self.wishes.insert(&wish.id, (wish, self.now));
            }
            Entry::Changed { id, revision, value } => self.changed(id, revision.get(), *value),
            Entry::Declined(id) => {
                self.wishes.remove(id.as_str());
            }
            _ => self.remark(entry),
        }
    }

    fn remark(&mut self, entry: &'a Entry) {
        match entry {
            Entry::Effect { reaction, event, key } => {
                let target = self
                    .targets
                    .get(event)
                    .map_or_else(String::new, |event| reaction.target(event));
                self.note(Note::Reaction {
                    reaction: reaction.name().to_owned(),
                    target,
                    rebuild: 0,
                    event: event.to_string(),
                    fence: None,
                    phase: Phase::Effect(key.clone()),
                });
            }
            Entry::Acted { run, step, key } => {
                let promise = promise(step);
                let (run, step) = (run.clone(), step.clone());
                let phase = Phase::Effect(key.clone());
                self.note(Note::Step { run, step, promise, fence: None, phase });
            }
            Entry::Told { run, result } => {
                self.note(Note::RunEnded { run: run.clone(), result: result.clone() });
            }
            Entry::Locked { lock, fence, since } => {
                self.granted(format!("lock {lock}"), fence.get(), history::micros(*since));
            }
            Entry::Won { key, fence } => self.granted(key.clone(), fence.get(), i64::MIN),
            Entry::Receipt { key, result } => {
                let action = Action::Acquire { rights: vec![key.clone()], holder: self.holder() };
                self.claim(action, Answer::Result(result.clone()), None);
            }
            Entry::Took { id, quota, units, from, until } => {
                let (name, limit) = (format!("{quota:?}"), quota.limit());
                self.draws.insert(id, name.clone());
                let action = Action::Take { quota: name, limit, id: id.clone(), units: *units };
                let (from, until) = (history::micros(*from), history::micros(*until));
                self.claim(action, Answer::Taken { from, until }, None);
            }
            Entry::GivesBack { id, at } => {
                let Some(quota) = self.draws.get(id.as_str()).cloned() else { return };
                let at = history::micros(*at);
                let action = Action::Refund { quota, id: id.clone() };
                self.claim(action, Answer::Refunded { at }, Some(at));
            }
            _ => {}
        }
    }

    fn client(&self) -> Client {
        Client { process: self.who.to_owned(), number: 0 }
    }

    /// A different one for each grant: none is granted twice.
    fn holder(&self) -> String {
        format!("{} at {}", self.who, self.now)
    }

    fn call(&self, invoked: u64, action: Action, answer: Answer) -> Operation {
        Operation {
            client: self.client(),
            invoked: Moment { seq: invoked, at: None },
            returned: Some(Moment { seq: self.now, at: None }),
            action,
            outcome: Outcome::Done(answer),
        }
    }

    fn claim(&mut self, action: Action, answer: Answer, at: Option<i64>) {
        let mut call = self.call(self.now, action, answer);
        call.invoked.at = at;
        self.claims.operations.push(call);
    }

    fn note(&mut self, note: Note) {
        let moment = Moment { seq: self.now, at: None };
        self.calls.remarks.push(Remark { client: self.client(), moment, note });
    }

    fn send(&mut self, commit: &'a Commit) {
        let id = commit.id.expect("every commit of a worker has an id");
        self.commits.insert(id, commit);
        self.sends.insert(id, self.calls.operations.len());
        self.calls.operations.push(Operation {
            client: self.client(),
            invoked: Moment { seq: self.now, at: None },
            returned: None,
            action: Action::Commit(history::commit(commit)),
            outcome: Outcome::Unknown("its worker ended".to_owned()),
        });
    }

    fn answer(&mut self, id: CommitId, outcome: impl FnOnce(&Commit) -> Outcome) {
        if let (Some(send), Some(commit)) = (self.sends.get(&id), self.commits.get(&id)) {
            let operation = &mut self.calls.operations[*send];
            operation.returned = Some(Moment { seq: self.now, at: None });
            operation.outcome = outcome(commit);
        }
    }

    /// A follower keeps only the events of this round, and continues after the last one.
    fn page(&mut self, evidence: &Evidence, events: &[StoredEvent]) {
        if !self.who.starts_with(FOLLOWER) {
            return;
        }
        let after = self.reached.get(self.who).copied().unwrap_or(0);
        let next = events.last().map_or(after, |event| event.position.get());
        self.reached.insert(self.who, next);
        let (follower, prefix) = (self.who.to_owned(), evidence.space.stream_prefix());
        let answer = Answer::Page { events: events.iter().map(history::event).collect(), next };
        let action = Action::ReadFeed { follower, after, prefix };
        let call = self.call(self.now, action, answer);
        self.calls.operations.push(call);
    }

    /// A change of a board: of its revision, and of the number or the list that it changes.
    fn changed(&mut self, id: &'a str, revision: u64, value: i64) {
        let Some((wish, invoked)) = self.wishes.get(id).copied() else { return };
        for (scope, expected, change) in parts_of(wish) {
            let is_board = scope == board_name(wish.board);
            let answer = Answer::Mutated {
                revision: is_board.then_some(revision),
                value: (!is_board).then(|| value.to_string()),
            };
            let operation = Some(id.to_owned());
            let action = Action::Mutate { scope, operation, expected, change };
            let call = self.call(invoked, action, answer);
            self.calls.operations.push(call);
        }
    }

    /// Changes that never got an answer.
    fn unheard(&mut self) {
        let answered: std::collections::HashSet<String> = self
            .calls
            .operations
            .iter()
            .filter_map(|operation| match &operation.action {
                Action::Mutate { operation, .. } => operation.clone(),
                _ => None,
            })
            .collect();
        for (id, (wish, invoked)) in std::mem::take(&mut self.wishes) {
            if answered.contains(id) || wish.change == BoardChange::Decline {
                continue;
            }
            for (scope, expected, change) in parts_of(wish) {
                let operation = Some(id.to_owned());
                self.calls.operations.push(Operation {
                    client: self.client(),
                    invoked: Moment { seq: invoked, at: None },
                    returned: None,
                    action: Action::Mutate { scope, operation, expected, change },
                    outcome: Outcome::Unknown("its worker ended".to_owned()),
                });
            }
        }
    }

    fn granted(&mut self, right: String, fence: u64, since: i64) {
        let action = Action::Acquire { rights: vec![right.clone()], holder: self.holder() };
        // Until when is not in the journals: it is judged by the writes under it.
        let grant = Grant { right, fence, since, until: since };
        self.claim(action, Answer::Granted(vec![grant]), None);
    }

    /// The writes under locks, which are not in the journals, as the store has them.
    fn guarded_writes(&mut self, evidence: &Evidence) {
        let bumps = evidence.claim_audit.iter().flat_map(|audit| &audit.bumps);
        for (lock, event) in bumps.flat_map(|(lock, events)| events.iter().map(move |e| (lock, e)))
        {
            let Ok(bump) = event.payload.to::<Bump>() else { continue };
            let fence = Part::Fence { right: format!("lock {lock}"), fence: bump.fence.get() };
            let commit = history::Commit { id: None, parts: vec![fence] };
            let at = history::micros(event.recorded_at);
            let answer = Answer::Committed { at, parts: Vec::new() };
            self.claim(Action::Commit(commit), answer, None);
        }
    }
}

fn board_name(board: u64) -> String {
    format!("board {board}")
}

/// The objects that a change of a board changes. Its revision is a counter of changes by nothing.
fn parts_of(wish: &Wish) -> Vec<(String, Expected, Change)> {
    let (name, id) = (board_name(wish.board), wish.id.clone());
    let add = |delta| Change::Add { delta, min: None, max: None };
    let (field, expected, change) = match wish.change {
        BoardChange::Increment => ("count", Expected::Any, add(1)),
        BoardChange::Push => ("pushed", Expected::Any, Change::Push(id)),
        BoardChange::Swap(at) => {
            let at = at.map_or(Expected::Any, |revision| Expected::Exactly(revision.get()));
            ("swapped", at, Change::Push(id))
        }
        BoardChange::Decline => return Vec::new(),
    };
    vec![(format!("{name} {field}"), Expected::Any, change), (name, expected, add(0))]
}

fn promise(step: &str) -> StepPromise {
    if step == SEND {
        StepPromise::AtMostOnce
    } else if AT_LEAST_ONCE.contains(&step) {
        StepPromise::AtLeastOnce
    } else {
        StepPromise::ExactlyOnce
    }
}

/// What the final read of the store found.
fn final_state(evidence: &Evidence) -> Audit {
    let mut audit = Audit {
        feed: Some(evidence.feed.iter().map(history::event).collect()),
        all_commits: true,
        ..Audit::default()
    };
    for (stream, events) in &evidence.streams {
        let events: Vec<_> = events.iter().map(history::event).collect();
        let version = events.last().map(|event| event.version);
        let stream = stream.to_string();
        audit.streams.insert(stream, FinalStream { events, version, closed: false });
    }
    for (board, (content, revision)) in evidence.boards.iter().flatten() {
        audit.scopes.extend(fields(*board, content));
        let revision = revision.map(tidelock::store::Revision::get);
        audit.scopes.insert(board_name(*board), slot(revision, Some("0".to_owned())));
    }
    reactions(evidence, &mut audit);
    runs(evidence, &mut audit);
    audit
}

fn slot(revision: Option<u64>, value: Option<String>) -> Slot {
    match (revision, value) {
        (Some(revision @ 1..), Some(value)) => Slot::Live { revision, value, expires: None },
        _ => Slot::Absent,
    }
}

/// The number and the lists of a board. Each was written as often as it has grown.
fn fields(board: u64, content: &Board) -> [(String, Slot); 3] {
    let name = |field: &str| format!("{} {field}", board_name(board));
    let list = |list: &[String]| {
        let value = list_value::of(list.iter().map(String::as_str));
        slot(Some(list.len() as u64), value)
    };
    let count = u64::try_from(content.count).ok();
    [
        (name("count"), slot(count, Some(content.count.to_string()))),
        (name("pushed"), list(&content.pushed)),
        (name("swapped"), list(&content.swapped)),
    ]
}

/// What each target has to handle, and what it handled.
fn reactions(evidence: &Evidence, audit: &mut Audit) {
    let Some(reactions) = &evidence.reaction_audit else { return };
    for reaction in Reaction::ALL {
        let mut to_handle: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for event in evidence.feed.iter().filter(|event| evidence.space.is_work(&event.stream)) {
            to_handle.entry(reaction.target(event)).or_default().push(event.id.to_string());
        }
        let prefix = evidence.space.handled_by(reaction);
        let outputs = reactions.handled.iter().filter_map(|(stream, events)| {
            let handled = |event: &StoredEvent| event.payload.to::<Handled>().ok();
            let ids = events.iter().filter_map(handled).map(|handled| handled.event.to_string());
            Some((stream.as_str().strip_prefix(&prefix)?.to_owned(), ids.collect()))
        });
        audit.handled.insert(reaction.name().to_owned(), outputs.collect());
        audit.to_handle.insert(reaction.name().to_owned(), to_handle);
    }
}

/// The records and the end of each run.
fn runs(evidence: &Evidence, audit: &mut Audit) {
    let Some(runs) = &evidence.run_audit else { return };
    for (run, history) in &runs.histories {
        for event in history {
            match event.event_type.as_str() {
                "~step" => {
                    let Ok(step) = event.payload.to::<Recorded>() else { continue };
                    *audit.recorded.entry((run.clone(), step.name)).or_default() += 1;
                }
                "~completed" => {
                    let result = event.payload.to::<CompletedRun>().ok();
                    audit.runs.insert(run.clone(), result.map(|end| end.result));
                }
                _ => {}
            }
        }
        audit.runs.entry(run.clone()).or_insert(None);
    }
    for (run, counted) in &runs.counted {
        let counted = u64::try_from(*counted).unwrap_or(0);
        audit.effects.insert(format!("the counter of {run}"), counted);
    }
}

/// The results of keys as the store has them.
fn results(evidence: &Evidence) -> BTreeMap<String, String> {
    let completions = evidence.claim_audit.iter().flat_map(|audit| &audit.completions);
    let completed = completions.filter_map(|event| event.payload.to::<CompletedKey>().ok());
    completed.map(|completed| (completed.key, completed.result)).collect()
}
