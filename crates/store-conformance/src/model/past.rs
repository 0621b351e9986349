//! The history so far, according to its answers: what later steps refer to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tidelock_store::{
    Append, Commit, CommitId, CommitOutcome, Committed, EventId, ExpectedRevision, ExpectedVersion,
    FeedQuery, Fence, HeadQuery, ItemRef, Lease, LeaseRequest, LeaseToken, NewEvent, RecordKey,
    RecordWrite, Revision, Settlement, StreamName, StreamQuery, Timestamp, Version, WorkerName,
    limits,
};

use super::call::{Answer, Call, Tick};
use super::step::{EventStep, Expect, PartStep, RECORDS, STREAMS, Step};

/// What later steps can refer to.
#[derive(Default)]
pub(super) struct Past {
    now: Option<Timestamp>,
    versions: BTreeMap<StreamName, Version>,
    revisions: BTreeMap<RecordKey, Revision>,
    appends: Vec<Done>,
    commits: Vec<(Timestamp, Commit)>,
    tokens: Vec<LeaseToken>,
    settlements: Vec<Settlement>,
    /// Ids come from here, so that a repeated history has the same ones.
    ids: u128,
}

/// Events that are in the store.
struct Done {
    stream: StreamName,
    first: Version,
    events: Vec<NewEvent>,
}

/// The one that came that many before the last.
fn back<T>(all: &[T], which: usize) -> Option<&T> {
    all.iter().rev().nth(which % all.len().max(1))
}

impl Past {
    /// The call that this step means now.
    pub(super) fn resolve(&mut self, step: &Step) -> Call {
        match step.clone() {
            Step::Commit { under_id, parts } => Call::Commit(self.commit(under_id, &parts)),
            Step::CommitAgain { which, altered } => self.commit_again(which, altered),
            Step::ReadStream { stream, direction, from, limit } => {
                let from = from.map(|from| Version::new(from).unwrap());
                Call::ReadStream(StreamQuery { stream, direction, from, limit })
            }
            Step::ReadFeed { from, prefix, limit } => {
                Call::ReadFeed(FeedQuery::from(from).stream_prefix(prefix).limit(limit))
            }
            Step::Heads { prefix, limit } => Call::Heads(heads(prefix, limit)),
            Step::Get => Call::Get(RECORDS.map(|key| RecordKey::new(key).unwrap()).to_vec()),
            Step::Scan { prefix, limit } => Call::Scan(prefix, limit),
            Step::Lease { queue, lane, seconds, limit } => {
                let (worker, duration) =
                    (WorkerName::new("w").unwrap(), Duration::from_secs(seconds));
                Call::Lease(LeaseRequest { queue, lane, worker, duration, limit })
            }
            Step::Renew { which, seconds } => {
                let tokens = which.iter().map(|which| self.token(*which)).collect();
                Call::Renew(tokens, Duration::from_secs(seconds))
            }
            Step::Items { filter, limit } => Call::Items(filter, limit),
            Step::Adjust { filter, adjustment } => Call::Adjust(filter, adjustment),
            Step::Clock(tick) => Call::Clock(tick),
        }
    }

    fn commit(&mut self, under_id: bool, parts: &[PartStep]) -> Commit {
        let id = under_id.then(|| CommitId::from_bytes(self.next_id()));
        parts
            .iter()
            .fold(Commit { id, ..Commit::new() }, |commit, part| self.with_part(commit, part))
    }

    /// An earlier commit under its id, if one is recent enough to be remembered for certain.
    fn commit_again(&mut self, which: usize, altered: bool) -> Call {
        let now = self.now;
        let young = |at: &Timestamp| now.is_none_or(|now| now.since(*at) < limits::COMMIT_MEMORY);
        let known: Vec<&Commit> =
            self.commits.iter().filter(|(at, _)| young(at)).map(|(_, c)| c).collect();
        let Some(&commit) = back(&known, which) else {
            return Call::Clock(Tick::Advance(Duration::ZERO));
        };
        let key = RecordKey::new("other").unwrap();
        let altered = altered.then(|| RecordWrite::delete(&key, ExpectedRevision::Any));
        Call::Commit(altered.into_iter().fold(commit.clone(), Commit::write))
    }

    /// Adds this part to the commit, unless it refers to something that does not exist.
    fn with_part(&mut self, commit: Commit, part: &PartStep) -> Commit {
        match part.clone() {
            PartStep::Append { stream, expected, events, close } => {
                let events: Vec<_> = events.iter().map(|event| self.event(*event)).collect();
                let append = Append::new(&stream, self.version(&stream, expected), events);
                commit.with_append(if close { append.and_close() } else { append })
            }
            PartStep::AppendAgain { which, expected } => match back(&self.appends, which) {
                Some(done) => {
                    let expected = self.version(&done.stream, expected);
                    commit.append(&done.stream, expected, done.events.clone())
                }
                None => commit,
            },
            PartStep::Write { key, expected, change } => {
                let expected = self.revision(&key, expected);
                commit.write(RecordWrite { key, expected, change })
            }
            PartStep::Wake(wake) => commit.wake(wake),
            PartStep::Settle { which, done, exit } => {
                commit.settle(Settlement { lease: self.token(which), done, exit })
            }
            PartStep::SettleAgain { which } => {
                back(&self.settlements, which).cloned().into_iter().fold(commit, Commit::settle)
            }
            PartStep::Fence { which } => commit.fenced_by(self.token(which)),
            PartStep::GuardStream { stream, expected } => {
                commit.guard_stream(&stream, self.version(&stream, expected))
            }
            PartStep::GuardRecord { key, expected } => {
                commit.guard_record(&key, self.revision(&key, expected))
            }
            PartStep::Trim { stream, back, then } => {
                let version = self.versions.get(&stream).map_or(1, |version| version.get());
                commit.trim(
                    &stream,
                    Version::new(version.saturating_sub(back).max(1)).unwrap(),
                    then,
                )
            }
            PartStep::Restore(item) => commit.restore(*item),
        }
    }

    fn event(&mut self, step: EventStep) -> NewEvent {
        let known: Vec<&NewEvent> = self.appends.iter().flat_map(|done| &done.events).collect();
        match step {
            EventStep::Known(which) if !known.is_empty() => {
                back(&known, which).copied().unwrap().clone()
            }
            EventStep::Altered(which) if !known.is_empty() => {
                NewEvent::of("altered", "content").unwrap().with_id(back(&known, which).unwrap().id)
            }
            EventStep::Known(_) | EventStep::Altered(_) => self.event(EventStep::Fresh(0)),
            EventStep::Fresh(number) => {
                let id = EventId::from_bytes(self.next_id());
                NewEvent::of("noted", &json!({ "number": number })).unwrap().with_id(id)
            }
        }
    }

    /// An earlier lease; as long as there is none, one that was never granted.
    fn token(&self, which: usize) -> LeaseToken {
        let invented =
            || LeaseToken { item: ItemRef::parse("q", "a").unwrap(), fence: Fence::FIRST };
        back(&self.tokens, which).cloned().unwrap_or_else(invented)
    }

    fn next_id(&mut self) -> [u8; 16] {
        self.ids += 1;
        self.ids.to_be_bytes()
    }

    fn version(&self, stream: &StreamName, expected: Expect) -> ExpectedVersion {
        match expected {
            Expect::Anything => ExpectedVersion::Any,
            Expect::Nothing => ExpectedVersion::NoStream,
            Expect::Something => ExpectedVersion::Exists,
            Expect::Right => self
                .versions
                .get(stream)
                .copied()
                .map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact),
            Expect::Exactly(number) => ExpectedVersion::Exact(Version::new(number).unwrap()),
        }
    }

    fn revision(&self, key: &RecordKey, expected: Expect) -> ExpectedRevision {
        match expected {
            Expect::Anything => ExpectedRevision::Any,
            Expect::Nothing => ExpectedRevision::Absent,
            Expect::Something => ExpectedRevision::Exists,
            Expect::Right => self
                .revisions
                .get(key)
                .copied()
                .map_or(ExpectedRevision::Absent, ExpectedRevision::Revision),
            Expect::Exactly(number) => ExpectedRevision::Revision(Revision::new(number).unwrap()),
        }
    }

    /// Whether this commit was made before.
    pub(super) fn has(&self, commit: &Commit) -> bool {
        commit.id.is_some() && self.commits.iter().any(|(_, earlier)| earlier.id == commit.id)
    }

    /// Records the effect of a call.
    pub(super) fn note(&mut self, call: &Call, answer: &Answer) {
        match (call, answer) {
            (Call::Commit(commit), Answer::Commit(CommitOutcome::Committed(committed)))
                if !self.has(commit) =>
            {
                self.note_commit(commit, committed);
            }
            (_, Answer::Leased(leased)) => {
                self.tokens.extend(leased.leases.iter().map(Lease::token));
            }
            (_, Answer::Now(now)) => self.now = Some(*now),
            _ => {}
        }
    }

    fn note_commit(&mut self, commit: &Commit, committed: &Committed) {
        self.now = Some(committed.at);
        for (append, appended) in commit.appends.iter().zip(&committed.appends) {
            if appended.replayed {
                continue;
            }
            self.versions.insert(append.stream.clone(), appended.version);
            if !append.events.is_empty() {
                let first = appended.version.get() + 1 - append.events.len() as u64;
                let (stream, events) = (append.stream.clone(), append.events.clone());
                self.appends.push(Done { stream, first: Version::new(first).unwrap(), events });
            }
        }
        for written in &committed.writes {
            self.revisions.extend(written.revision.map(|revision| (written.key.clone(), revision)));
        }
        // No promise covers the id of a trimmed event, so none is used again.
        for trim in &commit.trims {
            self.appends.retain(|done| done.stream != trim.stream || done.first > trim.through);
        }
        self.settlements.extend(commit.settlements.iter().cloned());
        if commit.id.is_some() {
            self.commits.push((committed.at, commit.clone()));
        }
    }
}

fn heads(prefix: Option<String>, limit: usize) -> HeadQuery {
    match prefix {
        Some(prefix) => HeadQuery::Prefix { prefix, after: None, limit },
        None => HeadQuery::Named(STREAMS.map(|name| StreamName::new(name).unwrap()).to_vec()),
    }
}
