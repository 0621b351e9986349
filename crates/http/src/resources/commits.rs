//! Commits: any mix of parts of every pattern, all or none.

mod part;
mod refusal;
mod response;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use tidelock::problem::Problem;
use tidelock::store::{
    ExpectedRevision, NewEvent, RawJson, RecordKey, RecordWrite, Revision, When, limits as most,
};
use tidelock::{Outcome, Tx};
use utoipa::ToSchema;

use crate::app_state::AppState;
use crate::extract::Body;
use crate::idempotency::IdempotencyScope;
use crate::{keys, limits};

pub(crate) use part::*;
use refusal::{Refusals, commit_refused};
pub(crate) use response::*;

/// The parts of a commit. Each names what it is about; the rest is the body of its own route.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommitRequest {
    /// Events to append, one entry for each stream.
    #[serde(default)]
    appends: Vec<AppendPart>,
    /// Records to write, one entry for each key.
    #[serde(default)]
    records: Vec<RecordPart>,
    /// Changes of scopes, in this order.
    #[serde(default)]
    scopes: Vec<ScopePart>,
    /// Units to take from quotas.
    #[serde(default)]
    quotas: Vec<QuotaPart>,
    /// Units to take from rate limits.
    #[serde(default)]
    rates: Vec<RatePart>,
    /// Claims to complete under the fences they were won with.
    #[serde(default)]
    completions: Vec<CompletionPart>,
    /// Items to enqueue.
    #[serde(default)]
    enqueues: Vec<EnqueuePart>,
    /// Leased items to settle under the fences they were leased with.
    #[serde(default)]
    settlements: Vec<SettlementPart>,
    /// Runs to start.
    #[serde(default)]
    runs: Vec<RunPart>,
    /// Signals to send.
    #[serde(default)]
    signals: Vec<SignalPart>,
    /// What must hold besides, without being written.
    #[serde(default)]
    guards: Vec<GuardPart>,
}

/// The parts of a commit that remember what the request was answered.
const OF_THE_KEY: usize = 2;

/// What a request is answered.
enum Told {
    Now(CommitResponse),
    /// It was committed by an earlier attempt.
    Earlier(CommitResponse),
}

/// A request that was checked, and the events under the ids that they keep.
struct Parts {
    request: CommitRequest,
    events: Vec<Vec<NewEvent>>,
}

/// Commit parts of every pattern: all of them or none.
///
/// Each part is judged on the state at the commit. If one does not hold, nothing is written, and
/// the response names every part that does not hold. The `Idempotency-Key` is the commit's id: a
/// request repeated under it is committed once.
#[utoipa::path(post, path = "/v1/commits", tag = "commits", request_body = CommitRequest,
    responses(
        (status = 201, description = "Committed", body = CommitResponse),
        (status = 200, description = "The commit had been made by an earlier attempt", body = CommitResponse),
        (status = 409, description = "Nothing was written; `parts` has what did not hold, with what was expected and found"),
    ))]
pub(crate) async fn commit(
    State(served): State<AppState>,
    once: IdempotencyScope,
    Body(request): Body<CommitRequest>,
) -> Result<Response, Problem> {
    let marker = once.operation().map(|operation| keys::commit(&operation)).transpose()?;
    let parts = Parts::of(request, marker.is_some())?;
    let mut reused = BTreeSet::new();
    loop {
        let refused = match attempt(&served, marker.as_ref(), &parts, &reused).await {
            Err(refused) if refused.code() == "id-reused" => refused,
            answered => return answered.map_err(without_internals),
        };
        // The store does not judge the other parts of such a commit: they are judged without it.
        match parts.reusing(&served, &refused).filter(|nth| reused.insert(*nth)) {
            Some(_) => {}
            None => return Err(refused),
        }
    }
}

/// Commits the parts, or tells which do not hold. The ids of these signals are known to be those of
/// others.
async fn attempt(
    served: &AppState,
    marker: Option<&RecordKey>,
    parts: &Parts,
    reused: &BTreeSet<usize>,
) -> Result<Response, Problem> {
    let refusals = Mutex::new(Refusals::default());
    let committed = served.tidelock().transact(async |tx: Tx| -> Result<Told, Problem> {
        if let Some(marker) = marker
            && let Some(earlier) = tx.get::<CommitResponse>(marker.as_str()).await?
        {
            return Ok(Told::Earlier(earlier));
        }
        let mut refused = Refusals::default();
        let response = parts.stage(served, &tx, reused, &mut refused).await?;
        match (marker, refused.is_empty()) {
            // The store judges the other parts, and writes nothing.
            (_, false) => tx.write(impossible()?)?,
            (Some(marker), true) => tx.write(remembered(marker, &response)?)?,
            (None, true) => {}
        }
        *refusals.lock().unwrap_or_else(PoisonError::into_inner) = refused;
        Ok(Told::Now(response))
    });
    match committed.outcome().await? {
        Outcome::Granted((Told::Now(mut response), committed)) => {
            response.complete(committed.as_ref());
            Ok((StatusCode::CREATED, Answer(response)).into_response())
        }
        Outcome::Granted((Told::Earlier(response), _)) => Ok(Answer(response).into_response()),
        Outcome::Refused(conflict) => {
            let refused = refusals.into_inner().unwrap_or_else(PoisonError::into_inner);
            let claims = served.tidelock().claims();
            Err(commit_refused(refused, &conflict, &parts.request, &claims))
        }
    }
}

impl Parts {
    /// Checks what can be checked without the store.
    fn of(mut request: CommitRequest, is_keyed: bool) -> Result<Self, Problem> {
        let mut events = Vec::with_capacity(request.appends.len());
        for (nth, part) in request.appends.iter_mut().enumerate() {
            events.push(part.take_events().map_err(about("appends", nth))?);
        }
        let parts = Self { request, events };
        parts.check(is_keyed)?;
        Ok(parts)
    }

    /// The signal whose id the store says was used for another event.
    fn reusing(&self, served: &AppState, refused: &Problem) -> Option<usize> {
        let (runs, refused) = (served.tidelock().runs(), refused.to_json());
        self.request.signals.iter().position(|part| part.is_of(&runs, &refused))
    }

    fn check(&self, is_keyed: bool) -> Result<(), Problem> {
        let CommitRequest { appends, records, .. } = &self.request;
        once_each("appends", appends.iter().map(|part| part.stream.as_str()))?;
        once_each("records", records.iter().map(|part| part.key.as_str()))?;
        let most = most::PARTS_PER_COMMIT - if is_keyed { OF_THE_KEY } else { 0 };
        match self.count() {
            0 => Err(Problem::bad_request("commit-empty", "the commit has no parts: add some")),
            count if count > most => {
                let keyed = if is_keyed { " with an Idempotency-Key" } else { "" };
                let detail = format!("the commit has {count} parts; the limit is {most}{keyed}");
                Err(Problem::bad_request("limit-exceeded", detail))
            }
            _ => Ok(()),
        }
    }

    fn count(&self) -> usize {
        let of = &self.request;
        let named = [
            of.appends.len(),
            of.records.len(),
            of.scopes.len(),
            of.quotas.len(),
            of.rates.len(),
            of.completions.len(),
            of.runs.len(),
            of.signals.len(),
            of.guards.len(),
        ];
        let enqueued: usize = of.enqueues.iter().map(|part| part.items.len()).sum();
        let settled: usize = of.settlements.iter().map(|part| part.items.len()).sum();
        named.iter().sum::<usize>() + enqueued + settled
    }

    /// Stages every part, and notes those that are refused.
    async fn stage(
        &self,
        served: &AppState,
        tx: &Tx,
        reused: &BTreeSet<usize>,
        refused: &mut Refusals,
    ) -> Result<CommitResponse, Problem> {
        let of = &self.request;
        let mut response = CommitResponse::replayed();
        for (nth, (part, events)) in of.appends.iter().zip(&self.events).enumerate() {
            response.appends.push(part.stage(tx, events).map_err(about("appends", nth))?);
        }
        for (nth, part) in of.records.iter().enumerate() {
            response.records.push(part.stage(tx).map_err(about("records", nth))?);
        }
        for (nth, part) in of.scopes.iter().enumerate() {
            response.scopes.extend(refused.note(
                "scopes",
                nth,
                part.subject(),
                part.stage(served, tx).await,
            )?);
        }
        for (nth, part) in of.quotas.iter().enumerate() {
            response.quotas.extend(refused.note(
                "quotas",
                nth,
                part.subject(),
                part.stage(served, tx).await,
            )?);
        }
        for (nth, part) in of.rates.iter().enumerate() {
            response.rates.extend(refused.note(
                "rates",
                nth,
                part.subject(),
                part.stage(served, tx).await,
            )?);
        }
        for (nth, part) in of.completions.iter().enumerate() {
            refused.note("completions", nth, part.subject(), part.stage(served, tx).await)?;
        }
        for (nth, part) in of.enqueues.iter().enumerate() {
            part.stage(served, tx).map_err(about("enqueues", nth))?;
        }
        for (nth, part) in of.settlements.iter().enumerate() {
            part.stage(served, tx).await.map_err(about("settlements", nth))?;
        }
        for (nth, part) in of.runs.iter().enumerate() {
            refused.note("runs", nth, part.subject(), part.stage(tx).await)?;
        }
        for (nth, part) in of.signals.iter().enumerate() {
            let staged = match reused.contains(&nth) {
                true => Err(part.reused()),
                false => part.stage(tx, nth).await,
            };
            refused.note("signals", nth, part.subject(), staged)?;
        }
        for (nth, part) in of.guards.iter().enumerate() {
            refused.note("guards", nth, Vec::new(), part.stage(tx).await)?;
        }
        Ok(response)
    }
}

/// A commit that lost every race has a reason of its own, which no client can use.
fn without_internals(problem: Problem) -> Problem {
    match problem.code() {
        "contended" => problem.map_detail(|_| {
            "nothing was written: others changed what the commit rests on, every time that it was \
             tried; send it again"
                .to_owned()
        }),
        _ => problem,
    }
}

/// Names the part in a problem that ends the request.
fn about(parts: &'static str, nth: usize) -> impl Fn(Problem) -> Problem {
    move |problem| problem.map_detail(|detail| format!("{parts}[{nth}]: {detail}"))
}

/// Refuses two parts about one thing, of which only one could be reported.
fn once_each<'a>(parts: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Problem> {
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let detail = format!("{parts}: {:?} is named twice: make it one part", pair[0]);
            Err(Problem::bad_request("part-twice", detail))
        }
    }
}

/// A write that is always refused.
fn impossible() -> Result<RecordWrite, Problem> {
    let never = ExpectedRevision::Revision(Revision::new(i64::MAX as u64)?);
    Ok(RecordWrite::delete(&keys::refused_commit(), never))
}

/// The response, for the attempts after the first.
fn remembered(marker: &RecordKey, response: &CommitResponse) -> Result<RecordWrite, Problem> {
    let write = RecordWrite::put(marker, ExpectedRevision::Any, RawJson::new(response)?);
    Ok(write.expiring(When::In(limits::IDEMPOTENCY)))
}
