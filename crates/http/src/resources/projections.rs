//! Projections: their rows, and their rebuilds beside the rows that are read.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::reactions::{ProjectionInfo, RebuildInfo, RebuildOutcome};
use tidelock::store::{ItemKey, RawJson, RecordKey};
use tidelock::{Missing, Timestamp};
use utoipa::{IntoParams, ToSchema};

use super::bulk_action::no_such;
use super::reactions::{reactions, reset_problem};
use crate::app_state::AppState;
use crate::extract::{Body, InPath, InQuery};
use crate::paging::Page;

/// A projection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Projection)]
pub(crate) struct ProjectionDto {
    /// Its name, which is also that of its reaction.
    #[schema(example = "totals")]
    projection: String,
    /// Its rebuild, in progress or failed.
    rebuild: Option<RebuildDto>,
    /// Whether rows of an earlier rebuild are being deleted.
    deleting: bool,
}

/// A rebuild beside the rows that are read.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rebuild)]
pub(crate) struct RebuildDto {
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    started_at: Timestamp,
    /// Whether it leaves out deleted events.
    partial: bool,
    /// The number of targets that there were when it began.
    targets: u64,
    /// The number of them that are known to be rebuilt.
    rebuilt: u64,
    /// The number of targets that are left.
    lag: u64,
    /// Why it stopped; the rows that are read are not affected.
    error: Option<String>,
}

impl From<ProjectionInfo> for ProjectionDto {
    fn from(info: ProjectionInfo) -> Self {
        let rebuild = info.rebuild.map(|rebuild| {
            let RebuildInfo { started_at, partial, targets, rebuilt, lag, error, .. } = rebuild;
            RebuildDto { started_at, partial, targets, rebuilt, lag, error }
        });
        Self { projection: info.projection, rebuild, deleting: info.deleting }
    }
}

/// The query of the list of projections.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProjectionsQuery {
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<RecordKey>,
    /// The maximum number of projections.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List the projections that processes have registered, by name.
#[utoipa::path(get, path = "/v1/projections", tag = "projections", params(ProjectionsQuery),
    responses((status = 200, body = Page<ProjectionDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(ProjectionsQuery { after, limit }): InQuery<ProjectionsQuery>,
) -> Result<Answer<Page<ProjectionDto>>, Problem> {
    let limit = served.limits().page(limit)?;
    let page = reactions(&served).projections().after(after).limit(limit).await?;
    Ok(Answer(Page::new(page.items.into_iter().map(ProjectionDto::from).collect(), page.next)))
}

/// Show a projection, and its rebuild.
#[utoipa::path(get, path = "/v1/projections/{projection}", tag = "projections",
    params(("projection" = String, Path, description = "Its name", min_length = 1, max_length = 64)),
    responses(
        (status = 200, body = ProjectionDto),
        (status = 404, description = "No process has registered such a projection"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(projection): InPath<String>,
) -> Result<Answer<ProjectionDto>, Problem> {
    find(&served, &projection).await.map(Answer)
}

async fn find(served: &AppState, projection: &str) -> Result<ProjectionDto, Problem> {
    match reactions(served).projection(projection).await? {
        Some(info) => Ok(info.into()),
        None => Err(missing(served, projection).await?),
    }
}

async fn missing(served: &AppState, projection: &str) -> Result<Problem, Problem> {
    Ok(match reactions(served).missing_reaction(projection).await? {
        Some(Missing::Reaction { name, near }) => no_such(&Missing::Reaction { name, near }),
        _ => {
            let detail = format!("reaction {projection:?} is no projection, or none yet");
            Problem::not_found("no-projection", detail)
        }
    })
}

/// The query of a projection's rows.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RowsQuery {
    /// The cursor: `next` of the previous page, which is a target.
    #[param(value_type = Option<String>, max_length = 256)]
    after: Option<ItemKey>,
    /// The maximum number of rows.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A row of a projection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Row)]
pub(crate) struct RowDto {
    /// The target whose events are folded into it.
    #[schema(example = "shop-7")]
    target: String,
    /// The row.
    #[schema(value_type = Value)]
    row: RawJson,
}

/// List the rows of a projection, by target. During a rebuild these are the rows from before it.
#[utoipa::path(get, path = "/v1/projections/{projection}/rows", tag = "projections",
    params(("projection" = String, Path, description = "Its name", min_length = 1, max_length = 64), RowsQuery),
    responses(
        (status = 200, body = Page<RowDto>),
        (status = 404, description = "No process has registered such a projection"),
    ))]
pub(crate) async fn rows(
    State(served): State<AppState>,
    InPath(projection): InPath<String>,
    InQuery(RowsQuery { after, limit }): InQuery<RowsQuery>,
) -> Result<Answer<Page<RowDto>>, Problem> {
    let limit = served.limits().page(limit)?;
    find(&served, &projection).await?;
    let after = after.map(|target| target.as_str().to_owned());
    let page = reactions(&served).rows(&projection).after(after).limit(limit).await?;
    let rows = page.items.into_iter().map(|(target, row)| RowDto { target, row }).collect();
    Ok(Answer(Page::new(rows, page.next)))
}

/// Read the row of a target.
#[utoipa::path(get, path = "/v1/projections/{projection}/rows/{target}", tag = "projections",
    params(
        ("projection" = String, Path, description = "The projection", min_length = 1, max_length = 64),
        ("target" = String, Path, description = "The target", min_length = 1, max_length = 256),
    ),
    responses(
        (status = 200, body = RowDto),
        (status = 404, description = "There is no such projection, or no such row"),
    ))]
pub(crate) async fn row(
    State(served): State<AppState>,
    InPath((projection, target)): InPath<(String, ItemKey)>,
) -> Result<Answer<RowDto>, Problem> {
    find(&served, &projection).await?;
    let target = target.as_str().to_owned();
    match reactions(&served).row(&projection, &target).await? {
        Some(row) => Ok(Answer(RowDto { target, row })),
        None => {
            let detail = format!("projection {projection:?} has no row for target {target:?}");
            Err(Problem::not_found("no-row", detail))
        }
    }
}

/// How a projection is rebuilt.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebuildRequest {
    /// Build the rows from the remaining events even where others were removed when their stream
    /// was closed.
    #[serde(default)]
    #[schema(example = false)]
    partial: bool,
}

/// Rebuild a projection beside the rows that are read, with the fold that the processes have
/// registered now. When every new row is complete, all of them are read at once, and the old ones
/// are deleted. If one is in progress already, it goes on.
#[utoipa::path(post, path = "/v1/projections/{projection}/rebuild", tag = "projections",
    request_body = RebuildRequest,
    params(("projection" = String, Path, description = "Its name", min_length = 1, max_length = 64)),
    responses(
        (status = 202, body = ProjectionDto, description = "It is in progress"),
        (status = 404, description = "No process has registered such a projection"),
        (status = 409, description = "Events that a target has handled were removed"),
    ))]
pub(crate) async fn rebuild(
    State(served): State<AppState>,
    InPath(projection): InPath<String>,
    Body(RebuildRequest { partial }): Body<RebuildRequest>,
) -> Result<(StatusCode, Answer<ProjectionDto>), Problem> {
    let reactions = reactions(&served);
    let outcome = match partial {
        true => reactions.rebuild_partial(&projection).await?,
        false => reactions.rebuild(&projection).await.map_err(reset_problem)?,
    };
    match outcome {
        RebuildOutcome::Unregistered => Err(missing(&served, &projection).await?),
        _ => Ok((StatusCode::ACCEPTED, Answer(find(&served, &projection).await?))),
    }
}

/// Whether there was a rebuild.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RebuildCancelled {
    /// Whether one was in progress, or had failed.
    existed: bool,
}

/// Give up the rebuild of a projection: the rows that are read stay, and those that it made are
/// deleted.
#[utoipa::path(delete, path = "/v1/projections/{projection}/rebuild", tag = "projections",
    params(("projection" = String, Path, description = "Its name", min_length = 1, max_length = 64)),
    responses(
        (status = 200, body = RebuildCancelled),
        (status = 404, description = "No process has registered such a projection"),
    ))]
pub(crate) async fn cancel(
    State(served): State<AppState>,
    InPath(projection): InPath<String>,
) -> Result<Answer<RebuildCancelled>, Problem> {
    find(&served, &projection).await?;
    let existed = reactions(&served).cancel_rebuild(&projection).await?;
    Ok(Answer(RebuildCancelled { existed }))
}
