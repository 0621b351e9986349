//! Why a commit was refused: every part that does not hold.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tidelock::claims::Claims;
use tidelock::problem::Problem;
use tidelock::store::{Conflict, RecordKey, ViolationReason};

use super::CommitRequest;
use crate::keys;

/// The parts that were refused before the commit.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<Value>);

impl Refusals {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a refusal; another error ends the request.
    pub(super) fn note<T>(
        &mut self,
        parts: &'static str,
        nth: usize,
        subject: Subject,
        staged: Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        match staged {
            Ok(staged) => Ok(Some(staged)),
            Err(problem) if is_refusal(&problem) => {
                self.0.push(part(parts, nth, &about(problem, subject)));
                Ok(None)
            }
            Err(problem) => Err(super::about(parts, nth)(problem)),
        }
    }
}

/// What a part is about: the fields that name it in the request.
pub(super) type Subject = Vec<(&'static str, Value)>;

/// Adds the subject. A field of the problem itself goes first.
fn about(problem: Problem, subject: Subject) -> Problem {
    let told: Value = serde_json::from_str(&problem.to_json()).unwrap_or_default();
    let missing = subject.into_iter().filter(|(field, _)| told.get(*field).is_none());
    missing.fold(problem, |problem, (field, value)| problem.with(field, value))
}

/// Whether the request makes sense, and the state says no.
fn is_refusal(problem: &Problem) -> bool {
    matches!(
        problem.status(),
        StatusCode::CONFLICT
            | StatusCode::NOT_FOUND
            | StatusCode::GONE
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::TOO_MANY_REQUESTS
    )
}

/// A refused part: which one, and its own problem.
fn part(parts: &str, nth: usize, problem: &Problem) -> Value {
    let mut part: Value = serde_json::from_str(&problem.to_json()).unwrap_or_default();
    if let Some(fields) = part.as_object_mut() {
        for common in ["type", "title", "status"] {
            fields.remove(common);
        }
        fields.insert("part".to_owned(), format!("{parts}[{nth}]").into());
    }
    part
}

/// The problem of a refused commit, with what the store refused besides.
pub(super) fn commit_refused(
    mut refused: Refusals,
    conflict: &Conflict,
    request: &CommitRequest,
    claims: &Claims,
) -> Problem {
    for violation in &conflict.violations {
        if let Some(part) = by_store(&violation.reason, request, claims)
            && !refused.0.iter().any(|known| is_same(known, &part))
        {
            refused.0.push(part);
        }
    }
    if refused.0.is_empty() {
        // Only what the parts rest on has changed.
        let detail = "nothing was written: others changed what the commit rests on; send it again";
        return Problem::conflict("contended", detail).retry_after(Duration::from_secs(1));
    }
    let names: Vec<_> = refused.0.iter().filter_map(|part| part["part"].as_str()).collect();
    let detail = format!(
        "nothing was written, because of {}; read again, and decide again",
        names.join(", ")
    );
    Problem::conflict("commit-refused", detail).with("parts", refused.0)
}

/// Whether both are about the same part. Each item of a settlement has a problem of its own.
fn is_same(one: &Value, other: &Value) -> bool {
    one["part"] == other["part"]
        && (one["code"] != "fence-lost" || one["key"] == other["key"] || one["key"].is_null())
}

/// The part that the store refused; none for the write that makes it judge the others.
fn by_store(reason: &ViolationReason, request: &CommitRequest, claims: &Claims) -> Option<Value> {
    let detail = reason.to_string();
    match reason {
        ViolationReason::Stream { stream, expected, found } => {
            let problem = Problem::conflict("version-conflict", detail)
                .with("stream", stream)
                .with("expected", expected)
                .with("found", found.version());
            Some(append(request, stream.as_str(), &problem))
        }
        ViolationReason::Closed { stream, version } => {
            let problem = Problem::conflict("stream-closed", detail)
                .with("stream", stream)
                .with("version", version);
            Some(append(request, stream.as_str(), &problem))
        }
        ViolationReason::Record { key, .. } if *key == keys::refused_commit() => None,
        ViolationReason::Record { key, expected, found } => {
            let found = found.live().map(|record| record.revision);
            let problem = Problem::conflict("revision-conflict", detail)
                .with("expected", expected)
                .with("found", found);
            record(request, claims, key, problem)
        }
        ViolationReason::Bound { key, found, within, .. } => {
            let problem = Problem::conflict("bound-exceeded", detail)
                .with("found", found)
                .with("min", within.min)
                .with("max", within.max);
            record(request, claims, key, problem)
        }
        ViolationReason::NotACounter { found } => {
            record(request, claims, &found.key, Problem::conflict("not-a-counter", detail))
        }
        ViolationReason::Unfit { key, .. } => {
            record(request, claims, key, Problem::conflict("scope-unfit", detail))
        }
        ViolationReason::LeaseLost { lease, .. } => {
            let problem = Problem::conflict("fence-lost", detail)
                .with("queue", &lease.item.queue)
                .with("key", &lease.item.key)
                .with("fence", lease.fence);
            let nth = request.settlements.iter().position(|part| {
                part.queue == lease.item.queue.as_str()
                    && part.items.iter().any(|item| item.key == lease.item.key.as_str())
            });
            Some(part("settlements", nth.unwrap_or_default(), &problem))
        }
        _ => Some(part("commit", 0, &Problem::conflict("conflict", detail))),
    }
}

fn append(request: &CommitRequest, stream: &str, problem: &Problem) -> Value {
    let nth = request.appends.iter().position(|part| part.stream.as_str() == stream);
    part("appends", nth.unwrap_or_default(), problem)
}

fn record(
    request: &CommitRequest,
    claims: &Claims,
    key: &RecordKey,
    problem: Problem,
) -> Option<Value> {
    if let Some(nth) = request.records.iter().position(|part| part.key == *key) {
        return Some(part("records", nth, &problem.with("key", key)));
    }
    // Any other record is one that a part rests on, and no part of the request.
    let nth = request.completions.iter().position(|part| part.is_of(claims, key))?;
    let lost = "another claimant has acquired the claim since: discard this work";
    let problem = about(Problem::conflict("fence-lost", lost), request.completions[nth].subject());
    Some(part("completions", nth, &problem))
}
