//! The way from one process to the store: latency, faults, and the record of every call.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use tidelock::Timestamp;
use tidelock::store::{
    Adjusted, Adjustment, Capabilities, ChangeHint, Commit, CommitOutcome, Direction, FeedPage,
    FeedQuery, HeadPage, HeadQuery, ItemFilter, ItemPage, ItemQuery, LeaseRequest, LeaseToken,
    Leased, RecordKey, RecordPage, RecordQuery, Renewal, Result, RetryAdvice, Slot, Store,
    StoreError, StoreErrorKind, StoreOperation, StreamPage, StreamQuery, Topic, ViolationKind,
    async_trait,
};
use tokio::time::sleep;

use super::fault::Fault;
use super::place::Place;
use super::process::Process;
use super::trace::Trace;
use super::wakes;
use crate::history::{self, Action, Answer, Client, Outcome};

/// The store as one process reaches it.
pub(crate) struct ProcessStore {
    process: Process,
    place: Arc<Place>,
    store: Arc<dyn Store>,
}

/// What strikes a call.
#[derive(Debug, Clone, Copy, Default)]
struct Strike {
    before: Duration,
    after: Duration,
    fault: Option<Fault>,
}

impl ProcessStore {
    pub(crate) fn new(process: Process) -> Self {
        let place = process.world.place();
        let store = place.store_of(process.number());
        Self { process, place, store }
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn strike(&self, operation: StoreOperation) -> Strike {
        use Fault::{
            DeathAfter, DeathBefore, Later, LostReply, Never, NotDone, SlowCall, SlowReply,
        };
        let world = &self.process.world;
        let commits = operation == StoreOperation::Commit;
        self.process.draw(|rng| {
            let mut latency = || match rng.below(40) {
                0 => rng.millis(0, world.plan.latency_ms * 20 + 1),
                _ => rng.millis(0, world.plan.latency_ms + 1),
            };
            let (before, after) = (latency(), latency());
            if world.is_calm() {
                return Strike { before, after, fault: None };
            }
            let always = [Later, SlowCall, SlowReply, DeathBefore, DeathAfter, Never];
            let of_commits = [LostReply, NotDone];
            let kinds = always.into_iter().chain(of_commits.into_iter().filter(|_| commits));
            let mut fault = None;
            for kind in kinds {
                if rng.happens(world.plan.often(kind)) {
                    fault = Some(kind);
                }
            }
            let long = world.plan.lease + rng.millis(10, 4_000);
            match fault {
                Some(SlowCall) => Strike { before: long, after, fault },
                Some(SlowReply) => Strike { before, after: long, fault },
                _ => Strike { before, after, fault },
            }
        })
    }

    /// Makes a call, with what strikes it.
    async fn call<T: Send>(
        &self,
        operation: StoreOperation,
        trace: impl FnOnce(&mut Trace) + Send,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let (process, world) = (&self.process, &self.process.world);
        process.alive().await;
        let strike = self.strike(operation);
        if let Some(fault) = strike.fault {
            world.fault(process.name(), fault, &operation.to_string());
        }
        world.trace(|to| {
            to.number(process.number() as u64);
            to.number(operation as u64);
            trace(to);
        });
        match strike.fault {
            Some(Fault::Later) => return Err(failed(operation, RetryAdvice::Later)),
            Some(Fault::Never) => return Err(failed(operation, RetryAdvice::Never)),
            _ => {}
        }
        let (restarts, _) = world.availability();
        wait(strike.before).await;
        if strike.fault == Some(Fault::DeathBefore) {
            process.die();
        }
        process.alive().await;
        let (now, down) = world.availability();
        if down || process.is_cut() {
            wait(Duration::from_millis(5)).await;
            return Err(failed(operation, RetryAdvice::Later));
        }
        if now != restarts || strike.fault == Some(Fault::NotDone) {
            return Err(failed(operation, RetryAdvice::Unknown));
        }
        let answer = call.await;
        if strike.fault == Some(Fault::DeathAfter) {
            process.die();
        }
        wait(strike.after).await;
        process.alive().await;
        // A connection that broke meanwhile brings no answer.
        let (now, _) = world.availability();
        if now != restarts || process.is_cut() || strike.fault == Some(Fault::LostReply) {
            return Err(failed(operation, RetryAdvice::Unknown));
        }
        world.trace(|to| to.number(u64::from(answer.is_ok())));
        answer
    }

    /// Records a call of one client.
    async fn recorded<T>(
        &self,
        action: Action,
        call: impl Future<Output = Result<T>> + Send,
        outcome: impl FnOnce(&T) -> Outcome + Send,
    ) -> Result<T> {
        let (process, world) = (&self.process, &self.process.world);
        let seat = process.seat();
        let client = Client { process: process.name().to_owned(), number: seat as u64 };
        let number = world.begin(client, action);
        let answer = call.await;
        process.leave(seat);
        world.end(number, answer.as_ref().map_or_else(failure, outcome));
        answer
    }

    /// A commit whose caller will not wait for it.
    fn commit_late(&self, commit: Commit) {
        let (world, store) = (self.process.world.clone(), self.store.clone());
        let delay = self.process.draw(|rng| rng.millis(1, 8_000));
        tokio::spawn(async move {
            sleep(delay).await;
            let _unheard = store.commit(commit.clone()).await;
            world.wakes.changed(&world, &wakes::topics(&commit));
        });
    }
}

async fn wait(length: Duration) {
    if !length.is_zero() {
        sleep(length).await;
    }
}

fn failed(operation: StoreOperation, advice: RetryAdvice) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, advice, operation, "a simulated fault")
}

fn failure(error: &StoreError) -> Outcome {
    match error.advice() {
        RetryAdvice::Unknown => Outcome::Unknown(error.to_string()),
        RetryAdvice::Never | RetryAdvice::Later => Outcome::Failed(error.to_string()),
    }
}

fn revoked(_: &Adjusted) -> Outcome {
    Outcome::Done(Answer::Released)
}

fn trace_commit(commit: &Commit, trace: &mut Trace) {
    trace.number(commit.parts() as u64);
    commit.appends.iter().for_each(|append| trace.text(append.stream.as_str()));
    commit.writes.iter().for_each(|write| trace.text(write.key.as_str()));
    commit.settlements.iter().for_each(|settled| trace.text(settled.lease.item.key.as_str()));
    commit.wakes.iter().for_each(|wake| trace.text(wake.item.key.as_str()));
}

impl fmt::Debug for ProcessStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProcessStore").field(&self.process).finish()
    }
}

#[async_trait]
impl Store for ProcessStore {
    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.call(StoreOperation::Now, |_| {}, self.store().now()).await
    }

    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        let world = &self.process.world;
        let asked = commit.clone();
        let made = async {
            let outcome = self.store().commit(asked.clone()).await?;
            world.wakes.changed(world, &wakes::topics(&asked));
            Ok(outcome)
        };
        let late = async {
            if self.process.strikes(Fault::LateCommit) {
                self.commit_late(asked.clone());
                return Err(failed(StoreOperation::Commit, RetryAdvice::Unknown));
            }
            made.await
        };
        let call = self.call(StoreOperation::Commit, |to| trace_commit(&commit, to), late);
        let action = Action::Commit(history::commit(&commit));
        let answer =
            self.recorded(action, call, |outcome| history::committed(&commit, outcome)).await?;
        if let CommitOutcome::Conflict(conflict) = &answer {
            world.sometimes("commit conflicts");
            if conflict.has(ViolationKind::LeaseLost) {
                world.sometimes("settlement of a lost lease is refused");
            }
            if conflict.has(ViolationKind::Closed) {
                world.sometimes("append to a closed stream is refused");
            }
        } else if !commit.trims.is_empty() {
            world.sometimes("stream is trimmed");
        }
        Ok(answer)
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        let trace = |to: &mut Trace| to.text(query.stream.as_str());
        let read = self.store().read_stream(query.clone());
        let call = self.call(StoreOperation::ReadStream, trace, read);
        if query.direction == Direction::Backward {
            return call.await;
        }
        let after = query.from.map_or(0, |from| from.get() - 1);
        let action = Action::ReadStream { stream: query.stream.to_string(), after };
        let page = self
            .recorded(action, call, |page| {
                Outcome::Done(Answer::Stream(history::stream_read(page)))
            })
            .await?;
        if page.next.is_some() && page.events.len() < query.limit {
            self.process.world.sometimes("page is short and has more after it");
        }
        Ok(page)
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.call(StoreOperation::ReadFeed, |_| {}, self.store().read_feed(query)).await
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.call(StoreOperation::Heads, |_| {}, self.store().heads(query)).await
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        let trace = |to: &mut Trace| keys.iter().for_each(|key| to.text(key.as_str()));
        let call = self.call(StoreOperation::Get, trace, self.store().get(keys));
        let keys = keys.iter().map(ToString::to_string).collect();
        self.recorded(Action::ReadRecords { keys }, call, |slots| {
            Outcome::Done(Answer::Records(slots.iter().map(history::slot).collect()))
        })
        .await
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        let trace = |to: &mut Trace| to.text(&query.prefix);
        self.call(StoreOperation::Scan, trace, self.store().scan(query.clone())).await
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        let trace = |to: &mut Trace| to.text(request.queue.as_str());
        let call = self.call(StoreOperation::Lease, trace, self.store().lease(request.clone()));
        let holder = request.worker.to_string();
        let action = Action::Acquire { rights: Vec::new(), holder };
        let leased = self
            .recorded(action, call, |leased| {
                let grants = leased.leases.iter().map(|lease| history::grant(lease, leased.at));
                Outcome::Done(Answer::Granted(grants.collect()))
            })
            .await?;
        if leased.leases.iter().any(|lease| lease.expiries > 0) {
            self.process.world.sometimes("lease expires");
        }
        Ok(leased)
    }

    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        let world = &self.process.world;
        let seats: Vec<_> = leases
            .iter()
            .map(|lease| {
                let seat = self.process.seat();
                let client =
                    Client { process: self.process.name().to_owned(), number: seat as u64 };
                let action =
                    Action::Renew { right: history::right(&lease.item), fence: lease.fence.get() };
                (seat, world.begin(client, action))
            })
            .collect();
        let trace =
            |to: &mut Trace| leases.iter().for_each(|lease| to.text(lease.item.key.as_str()));
        let answer =
            self.call(StoreOperation::Renew, trace, self.store().renew(leases, duration)).await;
        for (nth, (seat, number)) in seats.into_iter().enumerate() {
            self.process.leave(seat);
            let outcome = match &answer {
                Err(error) => failure(error),
                Ok(renewed) => match &renewed[nth] {
                    Renewal::Renewed(until) => {
                        Outcome::Done(Answer::Renewed(history::micros(*until)))
                    }
                    Renewal::Lost(_) => Outcome::Refused(vec![history::Refusal {
                        part: 0,
                        found: history::Found::Lost,
                    }]),
                },
            };
            world.end(number, outcome);
        }
        if answer.iter().flatten().any(|renewal| matches!(renewal, Renewal::Lost(_))) {
            world.sometimes("lease is lost at a renewal");
        }
        answer
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.call(StoreOperation::Items, |_| {}, self.store().items(query)).await
    }

    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        let world = &self.process.world;
        let revokes = matches!(adjustment, Adjustment::Reset { .. });
        let prefix = filter.queue.prefix().to_owned();
        let call = async {
            let adjusted = self.store().adjust(filter, adjustment).await?;
            world.wakes.all();
            Ok(adjusted)
        };
        let call = self.call(StoreOperation::Adjust, |_| {}, call);
        match revokes {
            true => self.recorded(Action::Revoke { prefix }, call, revoked).await,
            false => call.await,
        }
    }

    fn signal(&self, topic: Topic) -> ChangeHint {
        match &self.place.server {
            Some(_) => self.store.signal(topic),
            None => self.process.world.wakes.signal(topic),
        }
    }

    async fn close(&self) -> Result<()> {
        pending().await
    }
}
