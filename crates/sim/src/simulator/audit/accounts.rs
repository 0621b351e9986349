//! The accounts: what is in the store must be what clients were told, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use tidelock::Tidelock;
use tidelock::jobs::{Job, JobState};
use tidelock::runs::{RunFilter, RunState};
use tidelock::scopes::ScopeKind;

use super::read::Found;
use crate::simulator::state::{
    ACCOUNTS, Board, Books, CALLS, CLUBS, CREDIT, Chore, Club, ClubEvent, Guarded, HOT, Named,
    QUOTA, STREAMS, WorkEvent, secret,
};
use crate::simulator::world::World;

/// Checks all accounts.
pub(super) async fn check(world: &World, found: &Found) {
    let tidelock = Tidelock::over(world.place().base.clone());
    let accounts = Accounts { world, found, tidelock };
    accounts.work();
    accounts.transfers().await;
    accounts.scopes().await;
    accounts.locks();
    accounts.keys();
    accounts.quotas().await;
    accounts.books().await;
    accounts.members().await;
    accounts.chores().await;
    accounts.units().await;
    accounts.draws();
    accounts.skips();
    accounts.reactions();
    accounts.runs().await;
    followers(world, found);
}

struct Accounts<'a> {
    world: &'a World,
    found: &'a Found,
    tidelock: Tidelock,
}

impl Accounts<'_> {
    fn expect(&self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds {
            self.world.problem(problem());
        }
    }

    /// What was asked for, and whether it was acknowledged.
    fn asked(&self, kind: &'static str) -> BTreeMap<String, bool> {
        self.world.facts(|facts| facts.asked.get(kind).cloned().unwrap_or_default())
    }

    /// Each thing that was told is there, each thing that is there was asked for, and once.
    fn once(&self, kind: &'static str, there: &[String]) {
        let asked = self.asked(kind);
        let mut seen = BTreeMap::<&str, u64>::new();
        there.iter().for_each(|name| *seen.entry(name).or_default() += 1);
        for (name, count) in &seen {
            self.expect(*count == 1, || format!("{kind} {name} took effect {count} times"));
            self.expect(asked.contains_key(*name), || format!("{kind} {name} was never asked for"));
        }
        for (name, _) in asked.iter().filter(|(_, told)| **told) {
            self.expect(seen.contains_key(name.as_str()), || {
                format!("{kind} {name} was acknowledged, and is lost")
            });
        }
    }

    fn work(&self) {
        let mut names = Vec::new();
        for stream in 0..STREAMS {
            let mut units = 0;
            for event in self.found.work(&format!("work-{stream}")) {
                units += match &event {
                    WorkEvent::Came { units, .. } => *units,
                    WorkEvent::Went { units, .. } => -units,
                };
                names.push(event.id().to_owned());
                self.expect(units >= 0, || format!("work-{stream} has {units} units"));
            }
        }
        self.once("work", &names);
    }

    async fn transfers(&self) {
        let sum: i64 = (0..ACCOUNTS)
            .filter_map(|nth| self.found.record::<i64>(&format!("account/{nth}")))
            .inspect(|left| {
                self.expect(*left >= -CREDIT, || format!("an account is overdrawn: {left}"));
            })
            .sum();
        self.expect(sum == 0, || format!("the accounts sum up to {sum}"));
        let names: Vec<String> = self
            .found
            .payloads::<Named>("work-transfers")
            .into_iter()
            .map(|named| named.id)
            .collect();
        self.once("transfer", &names);
        let count = names.len() as i64;
        let counted = self.found.record::<i64>("transfers").unwrap_or(0);
        self.expect(counted == count, || format!("{count} transfers are counted as {counted}"));
        let records = self.found.records.keys().filter(|key| key.starts_with("transfer/"));
        let records = records.count() as i64;
        self.expect(records == count, || format!("{count} transfers have {records} records"));
        let board = self.board("transfers").await.count;
        self.expect(board == count, || format!("{count} transfers are {board} on the board"));
        let jobs = self.found.payloads::<String>("worked");
        let mut unique = jobs.clone();
        unique.sort();
        unique.dedup();
        self.expect(unique.len() == jobs.len(), || "a job was done twice".to_owned());
    }

    async fn board(&self, id: &str) -> Board {
        let scope = self.tidelock.scope::<Board>(ScopeKind::USER, id);
        scope.load().await.map_or_else(|_| Board::default(), |found| found.state_or_default())
    }

    async fn scopes(&self) {
        let mut names = Vec::new();
        for nth in 0..HOT {
            let board = self.board(&format!("board-{nth}")).await;
            names.extend(board.names.iter().map(|name| format!("{nth}/{name}")));
            let asked = self.world.facts(|facts| {
                let all = facts.asked.get("count").cloned().unwrap_or_default();
                let prefix = format!("{nth}/");
                let mine: Vec<bool> = all
                    .into_iter()
                    .filter(|(name, _)| name.starts_with(&prefix))
                    .map(|(_, told)| told)
                    .collect();
                mine
            });
            let told = asked.iter().filter(|told| **told).count() as i64;
            let most = asked.len() as i64;
            self.expect((told..=most).contains(&board.count), || {
                format!("board {nth} counts {}, of {told} to {most}", board.count)
            });
        }
        self.once("push", &names);
    }

    fn locks(&self) {
        let mut names = Vec::new();
        for nth in 0..HOT {
            let bumps = self.found.payloads::<(String, (u64, u64))>(&format!("bumps-{nth}"));
            let guarded = self.found.record::<Guarded>(&format!("guarded/{nth}"));
            let total = guarded.map_or(0, |guarded| guarded.total);
            let count = bumps.len() as u64;
            self.expect(total == count, || {
                format!("lock {nth} guards {total} after {count} writes: a write was overwritten")
            });
            let mut last = (0, 0);
            for (id, fence) in bumps {
                self.expect(fence > last, || {
                    format!("{id} wrote under fence {fence:?} of lock {nth} after {last:?}")
                });
                last = fence;
                names.push(format!("{nth}/{id}"));
            }
        }
        self.once("bump", &names);
    }

    fn keys(&self) {
        let mut seen = BTreeSet::new();
        for name in self.found.payloads::<String>("completions") {
            self.expect(seen.insert(name.clone()), || format!("key {name} was completed twice"));
        }
        for key in self.found.told(self.world, "key") {
            self.expect(seen.contains(&key), || format!("key {key} has a result, and no effect"));
        }
        let paid = self.found.payloads::<String>("paid");
        let unique: BTreeSet<&String> = paid.iter().collect();
        self.expect(unique.len() == paid.len(), || format!("a request was paid twice: {paid:?}"));
        for request in self.found.told(self.world, "request") {
            let paid = unique.iter().any(|key| key.ends_with(&request));
            self.expect(paid, || format!("{request} has a receipt, and was not paid"));
        }
        for nth in 0..8 {
            let takers = self.found.payloads::<String>(&format!("taken-{nth}"));
            self.expect(takers.len() <= 1, || format!("singleton {nth} was taken by {takers:?}"));
        }
    }

    /// After a minute without claims everything is back.
    async fn quotas(&self) {
        let seats = self.tidelock.claims().quota("seats", QUOTA).usage().await;
        match seats {
            Ok(usage) => self.expect(usage.used == 0, || {
                format!("{} seats are reserved, and no reservation is left", usage.used)
            }),
            Err(error) => self.world.problem(format!("the seats cannot be read: {error}")),
        }
    }

    async fn books(&self) {
        let archived = self.world.facts(|facts| facts.archived.clone());
        let mut names = Vec::new();
        for stream in 0..STREAMS {
            let mut shelf = archived.get(&stream.to_string()).cloned().unwrap_or_default();
            for event in self.found.stream(&format!("books-{stream}")) {
                let id = event.payload.to::<Named>();
                let id = id.map_or_else(|_| event.event_type.to_string(), |named| named.id);
                shelf.insert(event.version.get(), id);
            }
            let last = shelf.keys().last().copied().unwrap_or(0);
            let gap = (1..=last).find(|version| !shelf.contains_key(version));
            self.expect(gap.is_none(), || {
                format!("version {gap:?} of books {stream} was neither archived nor kept")
            });
            let bookings: Vec<String> = shelf
                .values()
                .filter(|id| !id.starts_with('~'))
                .map(|id| format!("{stream}/{id}"))
                .collect();
            let books = self.tidelock.aggregate::<Books>(stream.to_string()).load().await;
            match books {
                Ok(books) => {
                    let (state, count) = (books.state.bookings, bookings.len() as u64);
                    self.expect(state == count, || {
                        format!("books {stream} say {state} bookings after {count}")
                    });
                }
                Err(error) => {
                    self.world.problem(format!("books {stream} cannot be read: {error}"));
                }
            }
            // Nothing was removed before it was handled.
            let mut shelved = self.found.handled("shelve", &format!("books-{stream}"));
            let count = shelved.len();
            shelved.sort();
            shelved.dedup();
            self.expect(count == shelved.len() && count == bookings.len(), || {
                let (all, once) = (bookings.len(), shelved.len());
                format!("of {all} bookings of books {stream} {once} were handled, {count} times")
            });
            names.extend(bookings);
        }
        self.once("booking", &names);
    }

    /// Of an erased subject nothing is left but its events; of the others everything is.
    async fn members(&self) {
        let erased = self.world.facts(|facts| facts.erased.clone());
        let texts = || {
            let payloads = self.found.feed.iter().map(|event| event.payload.as_str());
            payloads.chain(self.found.records.values().map(|record| record.value.as_str()))
        };
        for subject in erased.keys() {
            let secret = secret(subject);
            self.expect(!texts().any(|text| text.contains(&secret)), || {
                format!("personal data of {subject} is in the store after its erasure")
            });
        }
        let mut names = Vec::new();
        for nth in 0..CLUBS {
            let club = self.tidelock.aggregate::<Club>(nth.to_string());
            let Ok(history) = club.history().await else {
                return self.world.problem(format!("club {nth} cannot be read"));
            };
            for ClubEvent::Joined { id, name } in history.into_iter().map(|joined| joined.event) {
                let subject = name.subject();
                let expected = format!("{}{id}", secret(subject));
                let expected = (!erased.contains_key(subject)).then_some(&expected);
                self.expect(name.get() == expected, || {
                    format!("the name of member {id} of {subject} is {:?}", name.get())
                });
                names.push(id);
            }
        }
        self.once("member", &names);
    }

    /// A job was done once, or ended by an operator.
    async fn chores(&self) {
        let done = self.found.payloads::<String>("chores");
        let there: BTreeSet<&String> = done.iter().collect();
        self.expect(there.len() == done.len(), || "a job was done twice".to_owned());
        let asked = self.asked("chore");
        self.expect(there.iter().all(|chore| asked.contains_key(*chore)), || {
            "a job was done that was never enqueued".to_owned()
        });
        for (chore, told) in asked {
            let job = self.tidelock.jobs().get(Chore::QUEUE, &chore).await.ok().flatten();
            let state = job.map(|job| job.state);
            let is_done = state == Some(JobState::Done);
            self.expect(is_done == there.contains(&chore) && (state.is_some() || !told), || {
                format!("job {chore} is {state:?}, and done: {}", there.contains(&chore))
            });
            let result = self.tidelock.jobs().result::<String>(Chore::QUEUE, &chore).await;
            self.expect(
                !is_done || result.is_ok_and(|result| result.as_ref() == Some(&chore)),
                || format!("job {chore} has another result than it gave"),
            );
        }
    }

    /// Of a unit of work all parts are there, or none.
    async fn units(&self) {
        let mut pushed = BTreeSet::new();
        for nth in 0..HOT {
            pushed.extend(self.board(&format!("board-{nth}")).await.names);
        }
        let work = (0..STREAMS).flat_map(|nth| self.found.work(&format!("work-{nth}")));
        let work: BTreeSet<String> = work.map(|event| event.id().to_owned()).collect();
        let mut count = 0;
        for id in self.asked("unit").keys() {
            let there = self.found.record::<(u64, u64)>(&format!("unit/{id}")).is_some();
            count += i64::from(there);
            let run = self.tidelock.runs().run(format!("run-{id}")).status().await;
            let chore = self.tidelock.jobs().get(Chore::QUEUE, id).await.ok().flatten();
            let parts = [
                ("event", work.contains(id)),
                ("push", pushed.contains(id)),
                ("run", run.is_ok()),
                ("job", chore.is_some()),
            ];
            for (part, is_there) in parts {
                self.expect(is_there == there, || {
                    format!("unit of work {id} landed: {there}, and its {part}: {is_there}")
                });
            }
        }
        let counted = self.found.record::<i64>("units").unwrap_or(0);
        self.expect(counted == count, || format!("{count} units of work are counted as {counted}"));
    }

    /// The rate limit gave no more than its burst, and what was replenished.
    fn draws(&self) {
        let unit = i64::try_from(CALLS.1.as_micros()).unwrap_or(i64::MAX);
        let mut last = i64::MIN;
        for (full_at, (units, after)) in self.world.facts(|facts| facts.drawn.clone()) {
            let cost = unit * i64::from(units);
            self.expect(last.saturating_add(cost) <= full_at, || {
                format!("{units} units of the rate cost {} microseconds", full_at - last)
            });
            self.expect(full_at - after <= unit * i64::from(CALLS.0), || {
                format!("the rate is exhausted until {full_at}, after a draw at {after}")
            });
            last = full_at;
        }
    }

    /// Only what an operator asked to skip was skipped.
    fn skips(&self) {
        let asked = self.world.facts(|facts| facts.skips.clone());
        for (reaction, target, event) in &self.found.skipped {
            self.expect(asked.contains(&(reaction.clone(), target.clone())), || {
                format!("event {event} of {reaction} at {target} was skipped by nothing")
            });
        }
    }

    /// What was never reset was handled exactly once, in order.
    fn reactions(&self) {
        let reset = self.world.facts(|facts| facts.reset.clone());
        for (reaction, targets) in self.found.to_handle() {
            for (target, events) in targets {
                let handled = self.found.handled(&reaction, &target);
                if reset.contains(&(reaction.clone(), target.clone())) {
                    continue;
                }
                self.expect(handled == events, || {
                    format!("reaction {reaction} handled {handled:?} of {events:?} at {target}")
                });
            }
        }
    }

    async fn runs(&self) {
        let runs = match self.tidelock.runs().list(&RunFilter::all()).all().await {
            Ok(runs) => runs,
            Err(error) => return self.world.problem(format!("runs cannot be listed: {error}")),
        };
        let names: BTreeSet<String> = runs.iter().map(|run| run.run.to_string()).collect();
        for run in self.found.told(self.world, "run") {
            self.expect(names.contains(&run), || format!("run {run} was started, and is lost"));
        }
        for run in runs {
            let count = self.found.record::<i64>(&format!("count/{}", run.run)).unwrap_or(0);
            match run.state {
                RunState::Completed => self
                    .expect(count == 1, || format!("run {} counted itself {count} times", run.run)),
                RunState::Failed => {
                    self.world.sometimes("run fails and is compensated");
                    let left = i64::from(run.workflow.as_str() == "part");
                    self.expect((0..=left).contains(&count), || {
                        format!("run {} failed, and its count is {count}", run.run)
                    });
                }
                _ => self.expect((0..=1).contains(&count), || {
                    format!("run {} ended with a count of {count}", run.run)
                }),
            }
            if run.run.as_str().contains("tick") {
                self.world.sometimes("schedule starts a run");
            }
        }
        let effects = self.world.facts(|facts| facts.effects.clone());
        for ((kind, key), count) in effects {
            if kind == "at most once" {
                self.expect(count == 1, || format!("{key} took effect {count} times"));
            }
        }
        for stream in (0..STREAMS).map(|nth| format!("work-{nth}")) {
            for event in self.found.stream(&stream) {
                let (version, run) =
                    (event.version.get(), format!("from-{stream}-{}", event.version));
                let reset = self
                    .world
                    .facts(|facts| facts.reset.contains(&("follow".to_owned(), stream.clone())));
                let skipped = ("follow".to_owned(), stream.clone(), event.id.to_string());
                let is_skipped = self.found.skipped.contains(&skipped);
                let needs_none = reset || is_skipped || version % 6 != 0;
                self.expect(needs_none || names.contains(&run), || {
                    format!("event {version} of {stream} led to no run")
                });
            }
        }
    }
}

/// Every follower saw what is in the feed, in its order, and left nothing out.
pub(super) fn followers(world: &World, found: &Found) {
    let kept = |stream: &str| !stream.starts_with('~') && !stream.starts_with("books-");
    let feed = found.feed.iter().filter(|event| kept(event.stream.as_str()));
    let feed: Vec<u64> = feed.map(|event| event.position.get()).collect();
    for (name, events) in world.facts(|facts| facts.followed.clone()) {
        let seen = events.iter().filter(|(_, stream)| kept(stream));
        let seen: Vec<u64> = seen.map(|(position, _)| *position).collect();
        if !feed.starts_with(&seen) {
            let at = feed.iter().zip(&seen).position(|(one, other)| one != other);
            world.problem(format!("follower {name} saw another feed from its event {at:?} on"));
        }
    }
}
