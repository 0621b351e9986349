//! The accounts: what is in the store must be what clients were told, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use tidelock::Tidelock;
use tidelock::runs::{RunFilter, RunState};
use tidelock::scopes::ScopeKind;

use super::read::Found;
use crate::simulator::state::{
    ACCOUNTS, Board, Books, CREDIT, Guarded, HOT, Named, QUOTA, STREAMS, WorkEvent,
};
use crate::simulator::world::World;

/// Checks all accounts.
pub(super) async fn check(world: &World, found: &Found) {
    let tidelock = Tidelock::over(world.base.clone());
    let accounts = Accounts { world, found, tidelock };
    accounts.work();
    accounts.transfers().await;
    accounts.scopes().await;
    accounts.locks();
    accounts.keys();
    accounts.quotas().await;
    accounts.books().await;
    accounts.reactions();
    accounts.runs().await;
    accounts.followers();
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

    /// Each thing that was told is there, each thing that is there was asked for, and once.
    fn once(&self, kind: &'static str, there: &[String]) {
        let asked = self.world.facts(|facts| facts.asked.get(kind).cloned().unwrap_or_default());
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
                let (id, change) = match event {
                    WorkEvent::Came { id, units } => (id, units),
                    WorkEvent::Went { id, units } => (id, -units),
                };
                units += change;
                names.push(id);
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
            let bumps = self.found.payloads::<(String, u64, u64)>(&format!("bumps-{nth}"));
            let guarded = self.found.record::<Guarded>(&format!("guarded/{nth}"));
            let total = guarded.map_or(0, |guarded| guarded.total);
            let count = bumps.len() as u64;
            self.expect(total == count, || {
                format!("lock {nth} guards {total} after {count} writes: a write was overwritten")
            });
            let mut last = 0;
            for (id, fence, _) in bumps {
                self.expect(fence > last, || {
                    format!("{id} wrote under fence {fence} of lock {nth} after {last}")
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
                self.expect(reset || version % 6 != 0 || names.contains(&run), || {
                    format!("event {version} of {stream} led to no run")
                });
            }
        }
    }

    /// Every follower saw what is in the feed, in its order, and left nothing out.
    fn followers(&self) {
        let followed = self.world.facts(|facts| facts.followed.clone());
        let kept = |stream: &str| !stream.starts_with('~') && !stream.starts_with("books-");
        let feed = self.found.feed.iter().filter(|event| kept(event.stream.as_str()));
        let feed: Vec<u64> = feed.map(|event| event.position.get()).collect();
        for (name, events) in followed {
            let seen: Vec<u64> = events
                .iter()
                .filter(|(_, stream)| kept(stream))
                .map(|(position, _)| *position)
                .collect();
            self.expect(feed.starts_with(&seen), || {
                let at = feed.iter().zip(&seen).position(|(one, other)| one != other);
                format!("follower {name} saw another feed from its event {at:?} on")
            });
        }
    }
}
