//! Subjects of personal data: what the store has of one, and its erasure.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::InPath;

/// The subject of the path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SubjectPath {
    /// The subject, as events name it.
    #[param(min_length = 1, example = "user-7")]
    subject: String,
}

/// What the store has of a subject.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subject)]
pub(crate) struct SubjectDto {
    /// The subject.
    subject: String,
    /// Events with personal data of it; more than 0 after an erasure that was interrupted.
    events: u64,
    /// When its erasure began.
    #[schema(value_type = Option<String>, format = DateTime)]
    erased_at: Option<Timestamp>,
}

/// Read how many events have personal data of a subject, and when it was erased.
#[utoipa::path(get, path = "/v1/subjects/{subject}", tag = "subjects", params(SubjectPath),
    responses(
        (status = 200, body = SubjectDto),
        (status = 404, description = "There is no personal data of this subject, and never was an erasure"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(SubjectPath { subject }): InPath<SubjectPath>,
) -> Result<Answer<SubjectDto>, Problem> {
    let info = served.tidelock().subject(&subject).await?;
    if info.events == 0 && info.erased_at.is_none() {
        let detail = format!("there is no personal data of subject {subject:?}");
        return Err(Problem::not_found("no-subject", detail));
    }
    let (events, erased_at) = (info.events, info.erased_at);
    Ok(Answer(SubjectDto { subject, events, erased_at }))
}

/// An erasure.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErasedDto {
    /// The subject.
    subject: String,
    /// How many events lost their personal data.
    events: usize,
}

/// Erase the personal data of a subject: the events stay, without it. From then on nothing about
/// the subject can be read or added. After an interruption, send the same again.
#[utoipa::path(post, path = "/v1/subjects/{subject}/erase", tag = "subjects", params(SubjectPath),
    responses(
        (status = 200, body = ErasedDto),
        (status = 404, description = "There is no personal data of this subject, and never was an erasure"),
    ))]
pub(crate) async fn erase(
    State(served): State<AppState>,
    InPath(path): InPath<SubjectPath>,
) -> Result<Answer<ErasedDto>, Problem> {
    let subject = path.subject.clone();
    let _there = show(State(served.clone()), InPath(path)).await?;
    let events = served.tidelock().erase_subject(&subject).await?;
    Ok(Answer(ErasedDto { subject, events }))
}
