//! Reactions: the progress of routing and handling, and operators' actions on targets.

mod operations;
mod skips;

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::reactions::{ReactionFilter, Reactions, RouteState, TargetInfo};
use tidelock::store::{ItemRef, LaneName, Mark, NamePattern, Position, Priority, StoreExt};
use utoipa::{IntoParams, ToSchema};

use super::cursor::Cursor;
use super::item::LeaseHolderDto;
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::limits::PAGE;
use crate::paging::Page;

pub(crate) use operations::*;
pub(crate) use skips::*;

pub(super) fn reactions(served: &AppState) -> Reactions {
    Reactions::new(Arc::clone(served.tidelock().store()))
}

/// A reaction's progress.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reaction)]
pub(crate) struct ReactionDto {
    /// Its name.
    reaction: String,
    /// The name prefix of the streams that it follows.
    streams: String,
    /// Events are routed at least up to this position.
    #[schema(value_type = u64)]
    position: Position,
    /// It started after this position.
    #[schema(value_type = u64)]
    start: Position,
    /// Positions that its router has yet to read; absent while no process routes it.
    lag: Option<u64>,
    /// The process that routes it, and until when; the lease may have expired.
    holder: Option<LeaseHolderDto>,
    /// Whether routing has stopped until an operator decides how to continue.
    blocked: bool,
    /// Why routing has stopped.
    error: Option<String>,
    /// The number of blocked targets; counted up to 1,000.
    blocked_targets: u64,
}

impl ReactionDto {
    fn new(route: RouteState, lag: Option<u64>, blocked_targets: u64) -> Self {
        Self {
            lag,
            reaction: route.reaction,
            streams: route.streams,
            position: route.position,
            start: route.start,
            holder: route.holder.map(LeaseHolderDto::from),
            blocked: route.blocked,
            error: route.error,
            blocked_targets,
        }
    }
}

/// List all reactions that were ever registered, with their progress.
#[utoipa::path(get, path = "/v1/reactions", tag = "reactions", responses((status = 200, body = Page<ReactionDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
) -> Result<Answer<Page<ReactionDto>>, Problem> {
    let reactions = reactions(&served);
    let (now, end) = (served.store().now().await?, served.store().feed_end().await?);
    let mut shown = Vec::new();
    for route in reactions.routes().await? {
        let blocked = ReactionFilter::named(&route.reaction).blocked(true);
        let page = reactions.list(&blocked).limit(PAGE).await?;
        let lag = route.lag(end, now);
        shown.push(ReactionDto::new(route, lag, page.items.len() as u64));
    }
    Ok(Answer(Page::new(shown, None::<String>)))
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// With names that match this pattern, with `*` and `?`.
    #[param(max_length = 256)]
    target: Option<String>,
    /// Only blocked targets, or only targets that are not blocked.
    blocked: Option<bool>,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// The maximum number of targets.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A target of a reaction, or an event whose route failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Target)]
pub(crate) struct TargetDto {
    /// The reaction.
    reaction: String,
    /// The target; for an event without a route, a reserved name.
    target: String,
    /// Whether this is an event whose route failed.
    unrouted: bool,
    /// The number of events known to wait.
    lag: u64,
    /// Handled up to this mark.
    #[schema(value_type = u64)]
    at: Mark,
    /// Events up to this mark are known to be the target's.
    #[schema(value_type = u64)]
    mark: Mark,
    /// Leases since the last progress.
    attempts: u32,
    /// Failures since the last progress.
    failures: u32,
    /// Leases that expired since the last progress.
    expiries: u32,
    /// Not handled until an operator unblocks it.
    blocked: bool,
    /// The last error.
    error: Option<String>,
    /// The worker that handles it, and until when.
    holder: Option<LeaseHolderDto>,
    /// When it became, or becomes, due.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Not handled before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    hold_until: Option<Timestamp>,
    /// The lane, which selects its workers.
    #[schema(value_type = String)]
    lane: LaneName,
    /// Its priority.
    #[schema(value_type = i16, minimum = -100, maximum = 100)]
    priority: Priority,
}

impl From<TargetInfo> for TargetDto {
    fn from(target: TargetInfo) -> Self {
        Self {
            lag: target.lag(),
            reaction: target.reaction,
            target: target.target,
            unrouted: target.unrouted,
            at: target.at,
            mark: target.mark,
            attempts: target.attempts,
            failures: target.failures,
            expiries: target.expiries,
            blocked: target.blocked,
            error: target.error,
            holder: target.holder.map(LeaseHolderDto::from),
            due_at: target.due,
            hold_until: target.hold,
            lane: target.lane,
            priority: target.priority,
        }
    }
}

/// List the targets of a reaction, by name.
#[utoipa::path(get, path = "/v1/reactions/{reaction}/targets", tag = "reactions",
    params(("reaction" = String, Path, description = "Its name", min_length = 1), ListQuery),
    responses((status = 200, body = Page<TargetDto>)))]
pub(crate) async fn targets(
    State(served): State<AppState>,
    InPath(reaction): InPath<String>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<TargetDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let mut filter = ReactionFilter::named(&reaction);
    if let Some(like) = asked.target {
        filter = filter.targets(NamePattern::like(like));
    }
    if let Some(blocked) = asked.blocked {
        filter = filter.blocked(blocked);
    }
    let after = asked.after.map(|Cursor(place)| place);
    let page = reactions(&served).list(&filter).after(after).limit(limit).await?;
    let targets = page.items.into_iter().map(TargetDto::from).collect();
    Ok(Answer(Page::new(targets, page.next.map(Cursor))))
}
