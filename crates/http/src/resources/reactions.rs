//! Reactions: how far each is with routing and handling, and what operators do to their targets.

mod operating;

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::reactions::{ReactionFilter, Reactions, RouteState, TargetInfo};
use tidelock::{ItemRef, LaneName, Mark, NamePattern, Position, Priority, StoreExt, Timestamp};
use utoipa::{IntoParams, ToSchema};

use super::cursor::Cursor;
use super::item::LeaseHolderDto;
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::limits::PAGE;
use crate::paging::Page;
use crate::problem::Problem;

pub(crate) use operating::*;

fn reactions(served: &AppState) -> Reactions {
    Reactions::new(Arc::clone(served.tidelock().store()))
}

/// How far a reaction is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Reaction)]
pub(crate) struct ReactionDto {
    /// Its name.
    reaction: String,
    /// What the names of the streams begin with that it follows.
    streams: String,
    /// Events are routed up to here, at least.
    #[schema(value_type = u64)]
    position: Position,
    /// It began after this.
    #[schema(value_type = u64)]
    start: Position,
    /// How many positions its router has yet to look at; nothing while nobody routes.
    lag: Option<u64>,
    /// Which process routes, and until when; its time may be over.
    holder: Option<LeaseHolderDto>,
    /// Whether routing has stopped until somebody decides how it goes on.
    blocked: bool,
    /// Why.
    error: Option<String>,
    /// How many of its targets are blocked; counted up to 1,000.
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

/// All reactions that were ever registered, and how far each is.
#[utoipa::path(get, path = "/v1/reactions", tag = "reactions", responses((status = 200, body = Page<ReactionDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
) -> Result<Answer<Page<ReactionDto>>, Problem> {
    let reactions = reactions(&served);
    let (now, end) = (served.store().now().await?, served.store().feed_end().await?);
    let mut shown = Vec::new();
    for route in reactions.routes().await? {
        let blocked = ReactionFilter::named(&route.reaction).blocked(true);
        let page = reactions.page(&blocked, None, PAGE).await?;
        let lag = route.lag(end, now);
        shown.push(ReactionDto::new(route, lag, page.targets.len() as u64));
    }
    Ok(Answer(Page::new(shown, None::<String>)))
}

/// Which targets.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Whose names are like this, with `*` and `?`.
    #[param(max_length = 256)]
    target: Option<String>,
    /// Only those that are blocked, or only those that are not.
    blocked: Option<bool>,
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A target of a reaction, or an event whose route failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Target)]
pub(crate) struct TargetDto {
    /// The reaction.
    reaction: String,
    /// The target; for an event without a route, a name of Tidelock's own.
    target: String,
    /// Whether this is an event whose route failed.
    unrouted: bool,
    /// How many events are known to wait.
    lag: u64,
    /// Handled up to here.
    #[schema(value_type = u64)]
    at: Mark,
    /// Events up to here are known to be the target's.
    #[schema(value_type = u64)]
    mark: Mark,
    /// Leases since the last progress.
    attempts: u32,
    /// Failures since the last progress.
    failures: u32,
    /// Leases that ran out since the last progress.
    expiries: u32,
    /// Not to be tried until somebody unblocks it.
    blocked: bool,
    /// What went wrong last.
    error: Option<String>,
    /// Who is at it, and until when.
    holder: Option<LeaseHolderDto>,
    /// Since or from when there is something to do.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// Not to be tried before this.
    #[schema(value_type = Option<String>, format = DateTime)]
    hold_until: Option<Timestamp>,
    /// Which workers serve it.
    #[schema(value_type = String)]
    lane: LaneName,
    /// How urgent it is.
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
    params(("reaction" = String, Path, description = "Its name", min_length = 1), Listed),
    responses((status = 200, body = Page<TargetDto>)))]
pub(crate) async fn targets(
    State(served): State<AppState>,
    InPath(reaction): InPath<String>,
    InQuery(asked): InQuery<Listed>,
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
    let page = reactions(&served).page(&filter, after, limit).await?;
    let targets = page.targets.into_iter().map(TargetDto::from).collect();
    Ok(Answer(Page::new(targets, page.next.map(Cursor))))
}
