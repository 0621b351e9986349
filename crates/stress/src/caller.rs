//! A worker's connection to the store: every call is journaled, and retried until it has an answer.
//!
//! The advice `Later` and `Unknown` is followed here and checked by the audit: a commit that may
//! have happened is sent again, unchanged, under its id. `Never` is a bug: the workers make no
//! invalid calls.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidelock::Timestamp;
use tidelock::store::Result as StoreResult;
use tidelock::store::{
    Commit, CommitOutcome, LeaseRequest, LeaseToken, Leased, Renewal, Store, StoreError,
};
use tokio::time::{sleep, timeout};

use crate::counts::Counts;
use crate::journal::{self, Entry, Journal};
use crate::trouble::{Told, Trouble};

/// How long a store may fail to answer. No injected fault lasts nearly as long.
const ENDURANCE: Duration = Duration::from_secs(60);

/// An error after which a worker cannot continue: a bug of the store, or of this program.
#[derive(Debug)]
pub(crate) struct Bug(pub(crate) String);

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) store: Arc<dyn Store>,
    journal: Arc<Journal>,
    counts: Arc<Mutex<Counts>>,
    patience: Duration,
}

impl Caller {
    pub(crate) fn new(store: Arc<dyn Store>, journal: Arc<Journal>, patience: Duration) -> Self {
        Self { store, journal, counts: Arc::default(), patience }
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.counts.lock());
    }

    pub(crate) fn note(&self, entry: &Entry) {
        self.journal.note(entry);
    }

    /// Sends a commit, which has an id, for the first time, and retries until there is an answer.
    pub(crate) async fn commit(&self, commit: &Commit) -> Result<CommitOutcome, Bug> {
        self.note(&Entry::Try(commit.clone()));
        self.send(commit).await
    }

    /// Sends a commit that was tried before.
    pub(crate) async fn commit_again(&self, commit: &Commit) -> Result<CommitOutcome, Bug> {
        self.note_again(commit).await?;
        self.send(commit).await
    }

    async fn send(&self, commit: &Commit) -> Result<CommitOutcome, Bug> {
        let id = commit.id.expect("every commit of a worker has an id");
        let mut backoff = Backoff::new();
        loop {
            match self.ask(self.store.commit(commit.clone())).await {
                Ok(outcome) => {
                    self.note(&Entry::answer(id, &outcome));
                    let acknowledged = matches!(outcome, CommitOutcome::Committed(_));
                    self.count(|counts| counts.commits += u64::from(acknowledged));
                    return Ok(outcome);
                }
                Err(trouble) => {
                    self.note(&Entry::Failed { id, trouble: trouble.clone() });
                    self.count(|counts| {
                        counts.doubts += u64::from(trouble.advice == Told::Unknown);
                    });
                    backoff.after(&trouble).await?;
                    self.note_again(commit).await?;
                }
            }
        }
    }

    /// From the clock's reading the audit determines whether the answer belongs to an earlier
    /// attempt.
    async fn note_again(&self, commit: &Commit) -> Result<(), Bug> {
        let id = commit.id.expect("every commit of a worker has an id");
        let now = self.now().await?;
        self.note(&Entry::Again { id, now });
        Ok(())
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, Bug> {
        self.insist("now", || self.store.now()).await
    }

    pub(crate) async fn lease(&self, request: &LeaseRequest) -> Result<Leased, Bug> {
        let asked = journal::now();
        let leased = self.insist("lease", || self.store.lease(request.clone())).await?;
        for lease in &leased.leases {
            self.note(&Entry::Held { asked, at: leased.at, lease: lease.clone() });
        }
        self.count(|counts| counts.leases += leased.leases.len() as u64);
        Ok(leased)
    }

    /// Extends a lease; returns whether it was still valid.
    pub(crate) async fn renew(&self, token: &LeaseToken, duration: Duration) -> Result<bool, Bug> {
        let (tokens, asked) = (std::slice::from_ref(token), journal::now());
        let renewed = self.insist("renew", || self.store.renew(tokens, duration)).await?;
        match renewed.first() {
            Some(Renewal::Renewed(deadline)) => {
                let (lease, deadline) = (token.clone(), *deadline);
                self.note(&Entry::Renewed { asked, lease, deadline });
                Ok(true)
            }
            Some(Renewal::Lost(_)) => Ok(false),
            None => Err(Bug("renew: one token gave no renewal".to_owned())),
        }
    }

    /// Makes an idempotent call, and retries until there is an answer.
    pub(crate) async fn insist<T, F>(&self, what: &str, call: impl Fn() -> F) -> Result<T, Bug>
    where
        F: Future<Output = StoreResult<T>>,
    {
        let mut backoff = Backoff::new();
        loop {
            match self.ask(call()).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => {
                    self.note(&Entry::Stumbled {
                        during: what.to_owned(),
                        trouble: trouble.clone(),
                    });
                    backoff.after(&trouble).await?;
                }
            }
        }
    }

    async fn ask<T>(&self, call: impl Future<Output = StoreResult<T>>) -> Result<T, Trouble> {
        match timeout(self.patience, call).await {
            Ok(answer) => answer.map_err(Trouble::from),
            Err(_) => Err(Trouble::gave_up_after(self.patience)),
        }
    }
}

/// Growing backoff between attempts, with a limit.
#[derive(Debug)]
pub(crate) struct Backoff {
    begun: Instant,
    next: Duration,
}

impl Backoff {
    const LONGEST: Duration = Duration::from_millis(200);

    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), next: Duration::from_millis(5) }
    }

    /// Waits, if a retry can help.
    pub(crate) async fn after(&mut self, trouble: &Trouble) -> Result<(), Bug> {
        if trouble.advice == Told::Never {
            return Err(Bug(format!(
                "the store says that it is of no use to try again: {trouble}"
            )));
        }
        if self.begun.elapsed() > ENDURANCE {
            return Err(Bug(format!("the store has not answered for {ENDURANCE:?}: {trouble}")));
        }
        sleep(self.next).await;
        self.next = (self.next * 2).min(Self::LONGEST);
        Ok(())
    }
}

/// Converts an error of a listing to the store error that it is.
pub(crate) fn store_result<T>(answer: tidelock::Result<T>) -> StoreResult<T> {
    answer.map_err(|error| {
        error
            .details::<StoreError>()
            .cloned()
            .unwrap_or_else(|| StoreError::invalid(error.to_string()))
    })
}
