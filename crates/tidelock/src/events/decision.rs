//! A decision about one aggregate.

use std::sync::Arc;

use tidelock_store::{
    Commit, CommitOutcome, EventId, ExpectedVersion, Result, StoreError, StreamName, Version,
};

use super::aggregate::Aggregate;
use super::aggregate_ref::AggregateRef;
use super::encoded::Encoded;
use super::error::{ExecuteError, VersionConflict};
use super::executed::{Executed, Provenance};
use super::into_events::IntoEvents;
use super::line::{Batch, Outcome, PendingDecision, Share, View};
use super::lines::Place;
use super::multi_decision::{Lost, MultiDecision, judge};
use super::options::{Options, setters};
use super::participant::{Participant, keep};
use super::submit::{repeatable, send};
use crate::handle::Tidelock;
use crate::telemetry;

/// A decision about one aggregate, and what is to be said about it.
#[derive(Debug, Clone)]
#[must_use = "nothing happens before it is executed"]
pub struct Decision<A> {
    target: AggregateRef<A>,
    options: Options,
    ids: Vec<EventId>,
}

impl<A: Aggregate> Decision<A> {
    pub(crate) fn new(target: AggregateRef<A>) -> Self {
        Self { target, options: Options::default(), ids: Vec::new() }
    }

    setters!();

    /// The same, only if the aggregate is at this version. Another version is a
    /// [conflict](ExecuteError::Conflict), and is not retried: it was the caller who looked, and
    /// who has to look again.
    pub fn at_version(mut self, version: Version) -> Self {
        self.options.pinned = Some(ExpectedVersion::Exact(version));
        self
    }

    /// The same, only if the aggregate does not exist yet; otherwise as for
    /// [`at_version`](Self::at_version).
    pub fn new_only(mut self) -> Self {
        self.options.pinned = Some(ExpectedVersion::NoStream);
        self
    }

    /// The same, with these ids for the events that are [appended](Self::append), one for each.
    pub fn event_ids(mut self, ids: impl IntoIterator<Item = EventId>) -> Self {
        self.ids = ids.into_iter().collect();
        self
    }

    /// Decides, and appends what was decided: see [`AggregateRef::execute`].
    pub async fn execute<D: IntoEvents<A::Event>, X>(
        self,
        mut decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Executed, ExecuteError<X>> {
        if !self.options.needs_own_commit() {
            let place = self.tidelock().lines().place(self.target.stream()?);
            let attempts = self.options.retry.unwrap_or(self.tidelock().retry()).begin();
            let queued = Queued {
                tidelock: self.tidelock(),
                options: &self.options,
                place: &place,
                attempts,
            };
            if let Some(executed) = queued.execute(&mut decide).await? {
                return Ok(executed);
            }
        }
        let mut executed = self.alone().execute(decide).await?;
        Ok(executed.pop().expect("one stream gives one answer"))
    }

    /// Appends events without looking at the state, if the stream is as expected. Under [ids of the
    /// caller's](Self::event_ids) this can be repeated: events that are there already give the
    /// original answer.
    pub async fn append(
        self,
        expected: ExpectedVersion,
        events: impl IntoEvents<A::Event>,
    ) -> Result<Executed, ExecuteError<std::convert::Infallible>> {
        let (stream, events) = (self.target.stream()?.clone(), events.into_events());
        let encoded = self.encode(&events)?;
        let ids = encoded.events.iter().map(|event| event.id).collect();
        let commit = repeatable(encoded.add_to(self.options.also.clone(), &stream, expected)?);
        let tidelock = self.tidelock();
        match send(&**tidelock.store(), &commit, tidelock.retry(), tidelock.random()).await? {
            CommitOutcome::Committed(committed) => {
                let appended = committed.appends.iter().find(|appended| appended.stream == stream);
                Ok(Executed {
                    version: appended.map(|appended| appended.version),
                    position: appended.and_then(|appended| Some(appended.positions?.1)),
                    events: ids,
                    attempts: 1,
                    how: if appended.is_some_and(|a| a.replayed) {
                        Provenance::Replayed
                    } else {
                        Provenance::Decided
                    },
                    stream,
                })
            }
            CommitOutcome::Conflict(conflict) => {
                Err(match judge(conflict, std::slice::from_ref(&stream), None)? {
                    Lost::Moved(stream, conflict) => ExecuteError::Conflict { stream, conflict },
                    Lost::Done => unreachable!("there is no operation to be done"),
                })
            }
        }
    }

    /// What a decision on the state as it is in the store now would commit: the parts of a commit,
    /// which the caller sends. If that meets a conflict, ask again. For those who have a commit of
    /// their own to put it in.
    pub async fn propose<D: IntoEvents<A::Event>, X>(
        self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Commit, ExecuteError<X>> {
        self.alone().propose(decide).await
    }

    /// The parts of a commit that append these events, whatever the state.
    pub(crate) fn parts(self, events: impl IntoEvents<A::Event>) -> Result<Commit> {
        let stream = self.target.stream()?.clone();
        let encoded = self.encode(&events.into_events())?;
        encoded.add_to(self.options.also, &stream, ExpectedVersion::Any)
    }

    fn encode(&self, events: &[A::Event]) -> Result<Encoded> {
        let encoded = if self.ids.is_empty() {
            Encoded::fresh(events, &self.options.metadata)
        } else if self.ids.len() == events.len() {
            Encoded::with_ids(events, &self.options.metadata, |at| self.ids[at])
        } else {
            Err(StoreError::invalid(format!(
                "{} event ids for {} events",
                self.ids.len(),
                events.len()
            )))
        };
        encoded.map_err(|e| e.about(format_args!("stream {:?}", self.target.stream())))
    }

    fn alone(&self) -> MultiDecision<Participant<A>> {
        MultiDecision::with(
            self.tidelock().clone(),
            self.target.participant(),
            self.options.clone(),
        )
    }

    fn tidelock(&self) -> &Tidelock {
        self.target.tidelock()
    }
}

/// A decision that stands in the line with others, and shares their commits.
struct Queued<'a, A: Aggregate> {
    tidelock: &'a Tidelock,
    options: &'a Options,
    place: &'a Place<A>,
    attempts: super::retry::Attempts,
}

/// What came of one turn.
enum Turn<A: Aggregate, X> {
    /// The events are in a batch.
    Shared { share: Share<A>, decided: PendingDecision<A>, version: Version, how: Provenance },
    /// There is nothing to append: true, if what was decided before lands.
    Nothing { answer: Result<Executed, ExecuteError<X>>, after: Option<Arc<Batch<A>>> },
    /// The state has to be compared with the store first, or has changed meanwhile.
    LookAgain(Option<PendingDecision<A>>),
    /// It needs a commit to itself.
    Alone,
}

impl<A: Aggregate> Queued<'_, A> {
    async fn execute<D: IntoEvents<A::Event>, X>(
        mut self,
        decide: &mut impl FnMut(&A) -> Result<D, X>,
    ) -> Result<Option<Executed>, ExecuteError<X>> {
        let mut carried = None;
        loop {
            let lost = match self.turn(decide, carried.take()).await? {
                Turn::Alone => return Ok(None),
                Turn::LookAgain(decided) => {
                    carried = decided;
                    continue;
                }
                Turn::Nothing { answer, after } => match self.wait_for(after).await? {
                    None => return answer.map(Some),
                    Some(lost) => lost,
                },
                Turn::Shared { share, decided, version, how } => {
                    let outcome = share.batch.outcome(self.place, self.tidelock).await;
                    let Some(lost) = self.judge(outcome)? else {
                        return Ok(Some(self.landed(&share, version, outcome, how).await));
                    };
                    carried = Some(decided);
                    lost
                }
            };
            self.pause(lost).await?;
        }
    }

    async fn turn<D: IntoEvents<A::Event>, X>(
        &mut self,
        decide: &mut impl FnMut(&A) -> Result<D, X>,
        carried: Option<PendingDecision<A>>,
    ) -> Result<Turn<A, X>, ExecuteError<X>> {
        let (place, attempts) = (self.place, &mut self.attempts);
        let Some(_turn) = place.turn(|| attempts.deadline()).await else {
            return Err(ExecuteError::WaitedTooLong { stream: place.stream.clone() });
        };
        let view = place.view(&**self.tidelock.store()).await?;
        if view.is_personal {
            return Ok(Turn::Alone);
        }
        if let Some(carried) = carried.filter(PendingDecision::still_holds) {
            return self.share(&view, carried.events.clone(), Provenance::Rebased);
        }
        match decide(&view.state) {
            Err(reason) => Ok(self.nothing(&view, Err(ExecuteError::Refused(reason)))),
            Ok(decided) => match decided.into_events() {
                none if none.is_empty() => Ok(self.nothing(&view, Ok(self.unchanged(&view)))),
                events => self.share(&view, events.into(), Provenance::Decided),
            },
        }
    }

    /// What leads to no commit is only true if it was compared with the store, or if the batch that
    /// it hangs on is.
    fn nothing<X>(&self, view: &View<A>, answer: Result<Executed, ExecuteError<X>>) -> Turn<A, X> {
        if view.tail.is_none() && !view.is_fresh {
            self.place.invalidate();
            return Turn::LookAgain(None);
        }
        Turn::Nothing { answer, after: view.tail.clone() }
    }

    fn unchanged(&self, view: &View<A>) -> Executed {
        let (stream, attempts) = (self.place.stream.clone(), self.attempts.made);
        Executed {
            stream,
            version: view.version,
            position: None,
            events: Vec::new(),
            attempts,
            how: Provenance::Decided,
        }
    }

    fn share<X>(
        &self,
        view: &View<A>,
        events: Arc<[A::Event]>,
        how: Provenance,
    ) -> Result<Turn<A, X>, ExecuteError<X>> {
        let encoded = self.encode(&events)?;
        if encoded.is_personal() {
            return Ok(Turn::Alone);
        }
        // From here on it is noted what others append, however long it takes until this caller
        // learns that it has lost.
        let decided = self.place.carry(events, view.landed);
        let more = decided.events.len() as u64;
        let version =
            view.version.map_or(Version::FIRST.plus(more - 1), |before| before.plus(more));
        match self.place.push(view, &decided.events, encoded.events) {
            Some(share) => Ok(Turn::Shared { share, decided, version, how }),
            None => Ok(Turn::LookAgain(Some(decided))),
        }
    }

    /// What no store would take is refused here, so that it spoils nobody else's commit.
    fn encode(&self, events: &[A::Event]) -> Result<Encoded> {
        let stream = &self.place.stream;
        let encoded = Encoded::fresh(events, &self.options.metadata)
            .map_err(|e| e.about(format_args!("stream {stream:?}")))?;
        if encoded.is_large() {
            let check =
                Commit::new().append(stream, ExpectedVersion::Any, encoded.events.iter().cloned());
            check.check()?;
        }
        Ok(encoded)
    }

    async fn wait_for<X>(
        &self,
        batch: Option<Arc<Batch<A>>>,
    ) -> Result<Option<Moved>, ExecuteError<X>> {
        match batch {
            Some(batch) => self.judge(batch.outcome(self.place, self.tidelock).await),
            None => Ok(None),
        }
    }

    fn judge<X>(&self, outcome: &Outcome) -> Result<Option<Moved>, ExecuteError<X>> {
        match outcome {
            Outcome::Landed { .. } => Ok(None),
            Outcome::Failed(error) => Err(error.clone().into()),
            Outcome::Refused(conflict) => {
                match judge(conflict.clone(), std::slice::from_ref(&self.place.stream), None)? {
                    Lost::Moved(stream, conflict) => Ok(Some((stream, conflict))),
                    Lost::Done => unreachable!("there is no operation to be done"),
                }
            }
        }
    }

    async fn pause<X>(&mut self, (stream, last): Moved) -> Result<(), ExecuteError<X>> {
        telemetry::contended(&stream, self.attempts.made);
        match self.attempts.next(self.tidelock.random()).await {
            true => Ok(()),
            false => Err(ExecuteError::GaveUp { stream, attempts: self.attempts.made, last }),
        }
    }

    async fn landed(
        &self,
        share: &Share<A>,
        version: Version,
        outcome: &Outcome,
        how: Provenance,
    ) -> Executed {
        if let Some(folded) = share.batch.take_snapshot() {
            keep(self.tidelock, &self.place.stream, &folded).await;
        }
        Executed {
            stream: self.place.stream.clone(),
            version: Some(version),
            position: share.position(outcome),
            events: share.ids.clone(),
            attempts: self.attempts.made,
            how,
        }
    }
}

/// A stream that was not where it was expected.
type Moved = (StreamName, VersionConflict);
