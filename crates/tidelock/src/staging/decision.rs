//! A staged decision: a function of the current state that can be evaluated again.

use std::fmt;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{AfterAppend, Append, Commit, ExpectedVersion, Guard, StreamName};

use crate::handler_error::HandlerError;
use crate::worker::panic_message;

/// Evaluates the decision on the current state, and returns the parts of a commit.
pub(crate) type Take =
    Box<dyn Fn() -> BoxFuture<'static, Result<Commit, HandlerError>> + Send + Sync>;

/// A decision that can be taken again.
pub(crate) struct Decision {
    take: Take,
    parts: Commit,
}

impl Decision {
    /// Evaluates it for the first time.
    pub(crate) async fn new(take: Take) -> Result<Self, HandlerError> {
        let parts = take().await?;
        Ok(Self::taken(take, parts))
    }

    /// A decision that was evaluated to these parts.
    pub(crate) fn taken(take: Take, parts: Commit) -> Self {
        Self { take, parts }
    }

    /// Whether it appends to this stream, or guards it.
    pub(crate) fn is_about(&self, stream: &StreamName) -> bool {
        let guards =
            |guard: &Guard| matches!(guard, Guard::Stream { stream: of, .. } if of == stream);
        self.parts.appends.iter().any(|append| append.stream == *stream)
            || self.parts.guards.iter().any(guards)
    }

    /// Evaluates it again, outside the code that staged it: a panic is a failure of that code.
    pub(crate) async fn again(&mut self) -> Result<(), HandlerError> {
        let taking = async { (self.take)().await };
        let taken = AssertUnwindSafe(taking).catch_unwind().await;
        self.parts = taken.unwrap_or_else(|panic| {
            Err(HandlerError::again(format!("it panicked: {}", panic_message(&*panic))))
        })?;
        Ok(())
    }

    /// Adds its parts to a commit.
    pub(crate) fn add_to(&self, commit: &mut Commit) {
        let Commit { appends, writes, wakes, guards, trims, .. } = self.parts.clone();
        appends.into_iter().for_each(|append| add_append(commit, append));
        commit.writes.extend(writes);
        commit.wakes.extend(wakes);
        commit.guards.extend(guards);
        commit.trims.extend(trims);
    }
}

/// Joins appends without expectations: a commit has at most one append to each stream.
fn add_append(commit: &mut Commit, append: Append) {
    let joins = |there: &&mut Append| {
        there.stream == append.stream && is_undemanding(there) && is_undemanding(&append)
    };
    match commit.appends.iter_mut().find(joins) {
        Some(there) => there.events.extend(append.events),
        None => commit.appends.push(append),
    }
}

fn is_undemanding(append: &Append) -> bool {
    append.expected == ExpectedVersion::Any && append.then == AfterAppend::StayOpen
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision").field("parts", &self.parts).finish_non_exhaustive()
    }
}
