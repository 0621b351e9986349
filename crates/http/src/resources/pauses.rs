//! Pauses: queues, reactions and workflows of which nothing new is leased.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::store::ItemFilter;
use tidelock::{Missing, PauseInfo, PauseSubject, Tidelock, Timestamp};
use utoipa::ToSchema;

use super::bulk_action::no_such;
use crate::app_state::AppState;
use crate::extract::Body;

/// Something that is paused: one of the three names is present.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pause)]
pub(crate) struct PauseDto {
    /// The queue.
    queue: Option<String>,
    /// The reaction.
    reaction: Option<String>,
    /// The workflow.
    workflow: Option<String>,
    /// Why.
    reason: String,
    /// Since when.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
}

impl From<PauseInfo> for PauseDto {
    fn from(info: PauseInfo) -> Self {
        let (mut queue, mut reaction, mut workflow) = (None, None, None);
        match info.subject {
            PauseSubject::Queue(name) => queue = Some(name),
            PauseSubject::Reaction(name) => reaction = Some(name),
            PauseSubject::Workflow(name) => workflow = Some(name),
            _ => {}
        }
        Self { queue, reaction, workflow, reason: info.reason, since: info.since }
    }
}

/// What is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pauses {
    /// All of it.
    items: Vec<PauseDto>,
}

/// What to pause: one of the three names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseRequest {
    /// A queue: its jobs and items.
    #[schema(min_length = 1, max_length = 128, example = "mail")]
    queue: Option<String>,
    /// The handlers of a reaction.
    #[schema(min_length = 1, max_length = 64)]
    reaction: Option<String>,
    /// The runs of a workflow.
    #[schema(min_length = 1, max_length = 64)]
    workflow: Option<String>,
    /// Why.
    #[schema(min_length = 1)]
    reason: String,
}

/// What to resume: one of the three names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeRequest {
    /// A queue.
    #[schema(min_length = 1, max_length = 128, example = "mail")]
    queue: Option<String>,
    /// A reaction.
    #[schema(min_length = 1, max_length = 64)]
    reaction: Option<String>,
    /// A workflow.
    #[schema(min_length = 1, max_length = 64)]
    workflow: Option<String>,
}

/// Whether something was changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PauseChanged {
    /// False, if it was so before.
    changed: bool,
}

fn which(
    queue: Option<String>,
    reaction: Option<String>,
    workflow: Option<String>,
) -> Result<PauseSubject, Problem> {
    match (queue, reaction, workflow) {
        (Some(name), None, None) => Ok(PauseSubject::Queue(name)),
        (None, Some(name), None) => Ok(PauseSubject::Reaction(name)),
        (None, None, Some(name)) => Ok(PauseSubject::Workflow(name)),
        _ => {
            Err(Problem::bad_request("subject-invalid", "give one of queue, reaction and workflow"))
        }
    }
}

/// Refuses a name that nothing has.
async fn check(tidelock: &Tidelock, subject: &PauseSubject) -> Result<(), Problem> {
    let missing = match subject {
        PauseSubject::Reaction(name) => tidelock.reactions().missing_reaction(name).await?,
        PauseSubject::Workflow(name) => tidelock.runs().missing_workflow(name).await?,
        PauseSubject::Queue(name) => {
            Missing::among_items(&**tidelock.store(), &ItemFilter::queue(name)).await?
        }
        _ => None,
    };
    missing.map_or(Ok(()), |missing| Err(no_such(&missing)))
}

/// List what is paused.
#[utoipa::path(get, path = "/v1/pauses", tag = "pauses", responses((status = 200, body = Pauses)))]
pub(crate) async fn list(State(served): State<AppState>) -> Result<Answer<Pauses>, Problem> {
    let items = served.tidelock().pauses().await?.into_iter().map(PauseDto::from).collect();
    Ok(Answer(Pauses { items }))
}

/// Pause a queue, a reaction or a workflow. Every process honors it within two seconds; what runs
/// is not interrupted.
#[utoipa::path(post, path = "/v1/pauses", tag = "pauses", request_body = PauseRequest,
    responses(
        (status = 200, body = PauseChanged),
        (status = 404, description = "There is no such reaction or workflow"),
    ))]
pub(crate) async fn pause(
    State(served): State<AppState>,
    Body(asked): Body<PauseRequest>,
) -> Result<Answer<PauseChanged>, Problem> {
    let (tidelock, why) = (served.tidelock(), asked.reason.as_str());
    let subject = which(asked.queue, asked.reaction, asked.workflow)?;
    // The first items of a queue may come while it is paused.
    if !matches!(subject, PauseSubject::Queue(_)) {
        check(tidelock, &subject).await?;
    }
    let changed = match subject {
        PauseSubject::Reaction(name) => tidelock.reactions().pause(&name, why).await?,
        PauseSubject::Workflow(name) => tidelock.runs().pause(&name, why).await?,
        PauseSubject::Queue(name) => tidelock.jobs().pause(&name, why).await?,
        _ => false,
    };
    Ok(Answer(PauseChanged { changed }))
}

/// Resume a queue, a reaction or a workflow.
#[utoipa::path(post, path = "/v1/pauses/resume", tag = "pauses", request_body = ResumeRequest,
    responses(
        (status = 200, body = PauseChanged),
        (status = 404, description = "It was not paused, and there is no such thing"),
    ))]
pub(crate) async fn resume(
    State(served): State<AppState>,
    Body(asked): Body<ResumeRequest>,
) -> Result<Answer<PauseChanged>, Problem> {
    let tidelock = served.tidelock();
    let subject = which(asked.queue, asked.reaction, asked.workflow)?;
    let changed = match subject.clone() {
        PauseSubject::Reaction(name) => tidelock.reactions().resume(&name).await?,
        PauseSubject::Workflow(name) => tidelock.runs().resume(&name).await?,
        PauseSubject::Queue(name) => tidelock.jobs().resume(&name).await?,
        _ => false,
    };
    if !changed {
        check(tidelock, &subject).await?;
    }
    Ok(Answer(PauseChanged { changed }))
}
