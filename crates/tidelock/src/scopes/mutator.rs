//! Mutators: the uniform form of all mutations, independent of where the scope is kept.
//!
//! A mutator may run several times, each time on another state. It does not know where the state
//! came from, and its result is only a proposal.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde_json::Value;
use tidelock_store::{RawJson, Unfit, unfit};

use super::document::Doc;
use super::state::ScopeState;

pub(crate) trait Mutator<S> {
    type Answer;
    type Refusal;
    /// A named type that borrows nothing, so that a mutation can be spawned on any thread.
    type Running: Future<Output = Result<Done<S, Self::Answer>, Fault<Self::Refusal>>> + Unpin;

    /// Starts the mutator on a document.
    fn start(&mut self, to: &Doc<S>) -> Self::Running;
}

/// Result of a mutator.
#[derive(Debug)]
pub(crate) struct Done<S, R> {
    /// The new state; `None` if it is unchanged.
    pub(crate) next: Option<Next<S>>,
    pub(crate) answer: R,
}

/// The new state of a scope.
#[derive(Debug)]
pub(crate) struct Next<S> {
    pub(crate) state: Arc<S>,
    /// The whole document, if it may contain fields unknown to the type.
    document: Option<Value>,
}

/// Why a mutator failed.
#[derive(Debug)]
pub(crate) enum Fault<X> {
    Refused(X),
    Unfit(String),
}

impl<X> From<Unfit> for Fault<X> {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit.0)
    }
}

impl<S: ScopeState> Next<S> {
    /// Encodes the document for the store.
    pub(crate) fn encode(&self) -> tidelock_store::Result<RawJson> {
        match &self.document {
            Some(document) => RawJson::new(document),
            None => RawJson::new(&*self.state),
        }
    }
}

/// A function on the state.
pub(crate) struct SyncMutator<F>(pub(crate) F);

impl<S: ScopeState, R, X, F: FnMut(&mut S) -> Result<R, X>> Mutator<S> for SyncMutator<F> {
    type Answer = R;
    type Refusal = X;
    type Running = Ready<Result<Done<S, R>, Fault<X>>>;

    fn start(&mut self, to: &Doc<S>) -> Self::Running {
        let mut state = S::clone(&to.state);
        let answer = (self.0)(&mut state).map_err(Fault::Refused);
        ready(answer.map(|answer| Done { next: changed(&*to.state, state), answer }))
    }
}

fn changed<S: PartialEq>(before: &S, state: S) -> Option<Next<S>> {
    (*before != state).then(|| Next { state: Arc::new(state), document: None })
}

/// An async function on the state.
pub(crate) struct AsyncMutator<F>(pub(crate) F);

impl<S, R, X, F, Later> Mutator<S> for AsyncMutator<F>
where
    S: ScopeState,
    F: FnMut(S) -> Later,
    Later: Future<Output = Result<(S, R), X>>,
{
    type Answer = R;
    type Refusal = X;
    type Running = RunningMutator<S, Later>;

    fn start(&mut self, to: &Doc<S>) -> Self::Running {
        RunningMutator { before: to.state.clone(), later: Box::pin((self.0)(S::clone(&to.state))) }
    }
}

/// An async function in progress.
pub(crate) struct RunningMutator<S, Later> {
    before: Arc<S>,
    later: Pin<Box<Later>>,
}

impl<S: ScopeState, R, X, Later: Future<Output = Result<(S, R), X>>> Future
    for RunningMutator<S, Later>
{
    type Output = Result<Done<S, R>, Fault<X>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = std::task::ready!(self.later.as_mut().poll(context));
        Poll::Ready(match result {
            Ok((state, answer)) => Ok(Done { next: changed(&*self.before, state), answer }),
            Err(reason) => Err(Fault::Refused(reason)),
        })
    }
}

/// A function on the JSON document. The result must be readable as the state's type.
pub(crate) struct DocumentMutator<F>(pub(crate) F);

impl<S: ScopeState, R, F: FnMut(&mut Value) -> Result<R, Unfit>> Mutator<S> for DocumentMutator<F> {
    type Answer = R;
    type Refusal = std::convert::Infallible;
    type Running = Ready<Result<Done<S, R>, Fault<Self::Refusal>>>;

    fn start(&mut self, to: &Doc<S>) -> Self::Running {
        ready(change(to, &mut self.0).map_err(Fault::from))
    }
}

fn change<S: ScopeState, R>(
    to: &Doc<S>,
    change: &mut impl FnMut(&mut Value) -> Result<R, Unfit>,
) -> Result<Done<S, R>, Unfit> {
    let before = document(to)?;
    let mut document = before.clone();
    let answer = change(&mut document)?;
    if document == before {
        return Ok(Done { next: None, answer });
    }
    let state = S::deserialize(&document).map_err(|e| {
        Unfit(format!("the state would not be a {}: {}", std::any::type_name::<S>(), unfit(&e)))
    })?;
    Ok(Done { next: Some(Next { state: Arc::new(state), document: Some(document) }), answer })
}

fn document<S: ScopeState>(of: &Doc<S>) -> Result<Value, Unfit> {
    match &of.text {
        Some(text) => text.to(),
        None => RawJson::new(&*of.state).and_then(|text| text.to()),
    }
    .map_err(|e| Unfit(e.context().to_owned()))
}
