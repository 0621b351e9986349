//! Closing the books: a stream that has done its work is shut, archived and cleared away, and goes
//! on from where it stood or not at all.
//!
//! First comes a tombstone, after which nobody appends, reactions included; then reactions have
//! their time to handle what is there; then the archive gets every event; only then do the events
//! go. Each stage is noted in a record, in the same commit as what it did, under a lease: whoever
//! calls again after a crash goes on where it stopped, and two callers are never at the same books.
//!
//! It never runs a handler, and never decides what an archive is.

mod any_stream;
mod archive;
mod books;
mod error;
mod keys;
mod lease;
mod open_books;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{
    AfterTrim, Append, Commit, Conflict, ExpectedRevision, ExpectedVersion, Result, Store,
    StoreExt, StoredEvent, StreamName, StreamQuery, StreamState, Version,
};
use tokio::time::Instant;

use crate::events::{Aggregate, AggregateRef};
use crate::reactions::{Unfinished, leftovers};
use books::{Books, Plan};
use lease::ClosingLease;

pub(crate) use keys::is_desk;
pub(crate) use open_books::OpenBooks;

pub use any_stream::AnyStream;
pub use archive::{Archive, discard};
pub use error::CloseError;

/// How long reactions are waited for, unless something else is said.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the books stay with a caller that has died, unless something else is said.
const LEASE: Duration = Duration::from_secs(15);

/// How often the tombstone is to land on the very events that reactions are known to be done with,
/// before it is put behind whatever has come meanwhile.
const QUIET_TRIES: usize = 3;

/// How often the last commit is made again whose snapshot was replaced under it.
const TRIES: usize = 8;

/// How long to wait before the next look at what reactions have left to do; twice as long each
/// time, up to the other.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

impl<A: Aggregate> AggregateRef<A> {
    /// Goes for its books: to close them, or to clear away the oldest pages.
    ///
    /// The archive gets every event that is to go, in order, page by page, once; a page again only
    /// if the process died between the archive's answer and the note of it. Personal data is not in
    /// the events; [`Tidelock::read`](crate::Tidelock::read) joins it. Where nothing is to be kept,
    /// say so with [`discard`].
    pub fn archive_to(&self, archive: impl Archive + 'static) -> Closing<A> {
        Closing {
            target: self.clone(),
            archive: Arc::new(archive),
            patience: PATIENCE,
            lease: LEASE,
            ignored: BTreeSet::new(),
        }
    }
}

/// The closing of one aggregate's books.
#[must_use = "nothing happens before it is said what becomes of the stream"]
pub struct Closing<A: Aggregate> {
    target: AggregateRef<A>,
    archive: Arc<dyn Archive>,
    patience: Duration,
    lease: Duration,
    ignored: BTreeSet<String>,
}

/// What a closing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseSummary {
    /// The stream.
    pub stream: StreamName,
    /// Events up to here are gone from it.
    pub through: Version,
    /// How many events this call gave to the archive; an earlier one, that did not come to its end,
    /// may have given others.
    pub archived: u64,
}

impl<A: Aggregate> Closing<A> {
    /// The same, waiting this long for reactions to handle what is there, before the stream is shut
    /// and again after; with zero, not at all. Others who append meanwhile make it no longer. The
    /// default is half a minute.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same, with this lease on the books: how long a caller that has died keeps others from
    /// them. That of one that lives is renewed, so it need not be as long as the work. The default
    /// is a quarter of a minute.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The same, whatever this reaction has left to do: nobody runs it any more. What it has not
    /// handled, it never will.
    ///
    /// A target of it that is being rebuilt, and has still to handle again what goes, is not
    /// rebuilt without it: the target is blocked with the reason, and asks for a [partial
    /// reset](crate::reactions::Reactions::reset_partial).
    pub fn ignore_reaction(mut self, reaction: impl Into<String>) -> Self {
        self.ignored.insert(reaction.into());
        self
    }

    /// Closes the stream for good. Called again, after a crash or out of habit, it goes on or finds
    /// that all is done.
    ///
    /// Others who go on appending do not hold it up. First it tries to shut the stream behind
    /// events that reactions are done with; if others are quicker each time, it shuts the stream
    /// behind theirs, and reactions handle those before they go. It renews its lease for as long as
    /// it works; how long the archive takes is up to the archive.
    ///
    /// # Errors
    /// See [`CloseError`]. Once the tombstone is there the stream stays shut, whatever fails after
    /// it.
    pub async fn close(self) -> Result<CloseSummary, CloseError> {
        self.work(Plan::StayClosed).await
    }

    /// Closes the stream and opens it again: empty, at the same version and with the same state,
    /// which is kept in a snapshot.
    ///
    /// # Errors
    /// [`NoSnapshot`](CloseError::NoSnapshot) if the aggregate keeps none; otherwise as for
    /// [`close`](Self::close).
    pub async fn restart(self) -> Result<CloseSummary, CloseError> {
        self.work(Plan::Restart).await
    }

    /// Clears away all but the newest events, behind a snapshot of the state. The stream stays open
    /// throughout.
    ///
    /// # Errors
    /// As for [`restart`](Self::restart).
    pub async fn keep_last(self, events: u64) -> Result<CloseSummary, CloseError> {
        self.work(Plan::Window { keep: events }).await
    }

    async fn work(self, plan: Plan) -> Result<CloseSummary, CloseError> {
        let stream = self.target.stream()?.clone();
        if plan.goes_on() && !A::snapshots().can_be_kept() {
            return Err(CloseError::NoSnapshot { stream });
        }
        let desk = ClosingLease::take(self.store(), &stream, self.lease).await?;
        let done = desk.keep(self.work_at(&desk, &stream, plan)).await;
        desk.leave().await;
        done?
    }

    async fn work_at(
        &self,
        desk: &ClosingLease<'_>,
        stream: &StreamName,
        plan: Plan,
    ) -> Result<CloseSummary, CloseError> {
        let Some(mut books) = self.open(desk, stream, plan).await? else {
            let through = self.version_of_closed(stream).await?;
            leftovers::forget_cursors(self.store(), stream).await?;
            return Ok(CloseSummary { stream: stream.clone(), through, archived: 0 });
        };
        self.wait_for_reactions(stream, books.through, self.deadline()).await?;
        let archived = self.hand_over(desk, stream, &mut books).await?;
        self.finish(desk, stream, &books).await?;
        if plan == Plan::StayClosed {
            leftovers::forget_cursors(self.store(), stream).await?;
        }
        Ok(CloseSummary { stream: stream.clone(), through: books.through, archived })
    }

    /// The books as they were left, or new ones; nothing if the stream was closed for good and all
    /// is done.
    async fn open(
        &self,
        desk: &ClosingLease<'_>,
        stream: &StreamName,
        plan: Plan,
    ) -> Result<Option<Books>, CloseError> {
        let deadline = self.deadline();
        let mut tries = 0;
        loop {
            let books = Books::find(self.store(), stream).await?;
            match books {
                Some(books) if !books.done && books.plan == plan => {
                    return self.as_shut(stream, books).await.map(Some);
                }
                Some(books) if !books.done => {
                    return Err(CloseError::OtherPlan {
                        stream: stream.clone(),
                        begun: books.plan.to_string(),
                    });
                }
                Some(books) if books.plan == Plan::StayClosed => return Ok(None),
                _ => {}
            }
            let revision = books.and_then(|books| books.revision);
            let quiet = tries < QUIET_TRIES;
            tries += 1;
            match self.begin(desk, stream, plan, revision, deadline, quiet).await? {
                Ok(begun) => return Ok(Some(begun)),
                Err(_) if quiet => {}
                Err(conflict) => return Err(refused(stream, conflict)),
            }
        }
    }

    /// Begins new books, with the tombstone in the same commit: behind the events that reactions
    /// are done with, if it is to be quiet, and otherwise behind all that there are by then.
    async fn begin(
        &self,
        desk: &ClosingLease<'_>,
        stream: &StreamName,
        plan: Plan,
        before: Option<tidelock_store::Revision>,
        deadline: Instant,
        quiet: bool,
    ) -> Result<Result<Books, Conflict>, CloseError> {
        let page = self.store().read_stream(StreamQuery::backward(stream).limit(1)).await?;
        let Some(version) = page.state.version() else {
            return Err(CloseError::NoStream { stream: stream.clone() });
        };
        let Some(through) = plan.through(version, page.first) else {
            return Err(CloseError::NothingToClear { stream: stream.clone(), version });
        };
        let is_open = matches!(page.state, StreamState::Open(_));
        if !plan.shuts() && !is_open {
            return Err(CloseError::Shut { stream: stream.clone(), version });
        }
        // Whatever can be refused is refused before anything is shut.
        self.wait_for_reactions(stream, through, deadline).await?;
        let begun_at = Some(desk.since());
        let mut books =
            Books { plan, through, archived: None, begun_at, done: false, revision: before };
        let mut commit = books.note(desk, stream)?;
        if plan.shuts() && is_open {
            let expected =
                if quiet { ExpectedVersion::Exact(version) } else { ExpectedVersion::Exists };
            commit = commit.with_append(Append::closing(stream, expected));
        }
        let committed = match desk.commit(commit).await?.committed() {
            Ok(committed) => committed,
            Err(conflict) => return Ok(Err(conflict)),
        };
        books.revision = committed.writes.first().and_then(|written| written.revision);
        self.as_shut(stream, books).await.map(Ok)
    }

    /// The same books, through to the tombstone if there is one: events may have come between the
    /// last look and it.
    async fn as_shut(&self, stream: &StreamName, mut books: Books) -> Result<Books, CloseError> {
        let page = self.store().read_stream(StreamQuery::backward(stream).limit(1)).await?;
        if let (true, StreamState::Closed(version)) = (books.plan.shuts(), page.state) {
            books.through = version;
        }
        Ok(books)
    }

    /// Until when reactions are waited for that have something left to do now.
    fn deadline(&self) -> Instant {
        crate::deadline::after(self.patience)
    }

    async fn wait_for_reactions(
        &self,
        stream: &StreamName,
        through: Version,
        deadline: Instant,
    ) -> Result<(), CloseError> {
        let (mut pause, mut first) = (PAUSE.0, None);
        while let Some(unfinished) =
            Unfinished::find(self.store(), stream, through, &self.ignored).await?
        {
            if unfinished.is_blocked() || Instant::now() + pause > deadline {
                let unfinished = unfinished.clone().since(first.as_ref().unwrap_or(&unfinished));
                return Err(CloseError::Unfinished { stream: stream.clone(), unfinished });
            }
            first.get_or_insert(unfinished);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
        Ok(())
    }

    /// Gives the archive what it has not had, and notes it page by page.
    async fn hand_over(
        &self,
        desk: &ClosingLease<'_>,
        stream: &StreamName,
        books: &mut Books,
    ) -> Result<u64, CloseError> {
        let mut count = 0;
        loop {
            let events = self.next_page(stream, books).await?;
            let (Some(first), Some(last)) = (events.first(), events.last()) else {
                return Ok(count);
            };
            let (from, to) = (first.version, last.version);
            count += events.len() as u64;
            self.archive.take(events).await.map_err(|source| {
                let stream = stream.clone();
                CloseError::Archive { stream, from, to, source }
            })?;
            books.archived = Some(to);
            books.revision = desk.note(books, stream).await?;
        }
    }

    async fn next_page(&self, stream: &StreamName, books: &Books) -> Result<Vec<StoredEvent>> {
        let from = books.archived.map_or(Version::FIRST, |archived| archived.plus(1));
        if from > books.through {
            return Ok(Vec::new());
        }
        let mut events =
            self.store().full_page(StreamQuery::forward(stream).from(from)).await?.events;
        events.retain(|event| event.version <= books.through);
        Ok(events)
    }

    /// The events go; with them, in one commit, comes what replaces them.
    async fn finish(
        &self,
        desk: &ClosingLease<'_>,
        stream: &StreamName,
        books: &Books,
    ) -> Result<(), CloseError> {
        let over = Books { done: true, ..books.clone() };
        let mut tries = 0;
        loop {
            tries += 1;
            let removals = leftovers::link_removals(self.store(), stream).await?;
            let commit = removals.into_iter().fold(over.note(desk, stream)?, Commit::wake);
            let commit = match books.plan {
                Plan::StayClosed => commit.trim(stream, books.through, AfterTrim::StayClosed),
                Plan::Restart => {
                    let commit = self.with_snapshot(stream, books.through, commit).await?;
                    commit.trim(stream, books.through, AfterTrim::Reopen)
                }
                Plan::Window { .. } => {
                    let commit = self.with_snapshot(stream, books.through, commit).await?;
                    let shut = Append::closing(stream, ExpectedVersion::Exists);
                    commit.with_append(shut).trim(stream, books.through, AfterTrim::Reopen)
                }
            };
            // The snapshot can have moved, because others keep them too; the next one is as good.
            match desk.commit(commit).await?.committed() {
                Ok(_) => return Ok(()),
                Err(_) if tries < TRIES => {}
                Err(conflict) => return Err(refused(stream, conflict)),
            }
        }
    }

    /// Adds the state to a commit, unless one is kept already that is new enough.
    async fn with_snapshot(
        &self,
        stream: &StreamName,
        through: Version,
        commit: Commit,
    ) -> Result<Commit, CloseError> {
        let folded = self.target.fold().await?;
        if folded.personal {
            return Err(CloseError::Personal { stream: stream.clone() });
        }
        let kept = A::snapshots().write(self.store(), stream, &folded, through).await?;
        Ok(match kept {
            Some(write) => commit.write(write),
            None => {
                commit.guard_record(&crate::events::snapshot_key(stream)?, ExpectedRevision::Exists)
            }
        })
    }

    async fn version_of_closed(&self, stream: &StreamName) -> Result<Version, CloseError> {
        let head = self.store().head(stream).await?;
        head.state.version().ok_or_else(|| CloseError::NoStream { stream: stream.clone() })
    }

    fn store(&self) -> &dyn Store {
        &**self.target.tidelock().store()
    }
}

fn refused(stream: &StreamName, conflict: Conflict) -> CloseError {
    CloseError::Refused { stream: stream.clone(), conflict }
}

impl<A: Aggregate> std::fmt::Debug for Closing<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closing")
            .field("stream", &self.target.stream())
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
