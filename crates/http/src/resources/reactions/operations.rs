//! Operators' actions on the targets of reactions.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use tidelock::problem::Problem;
use tidelock::reactions::{
    ReactionFilter, Reactions, Rerouted, ResetEffects, ResetError, StartFrom,
};
use tidelock::store::{Adjusted, LaneName, Priority};
use tidelock::{Missing, Timestamp};
use utoipa::ToSchema;

use super::super::bulk_action::{BulkActionDto, no_such};
use super::super::durations::Millis;
use super::super::item::{count, pattern, when};
use super::super::leases::no_time;
use super::reactions;
use crate::app_state::AppState;
use crate::extract::Body;
use crate::idempotency::IdempotencyScope;

/// Defines a request body: which targets are selected, and the fields of the action, side by side.
macro_rules! of_targets {
    ($(#[$doc:meta])* $name:ident as $schema:ident { $($(#[$about:meta])* $field:ident: $of:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = $schema)]
        pub(crate) struct $name {
            /// Of this reaction; of all reactions by default.
            #[schema(min_length = 1, example = "receipts")]
            reaction: Option<String>,
            /// This target.
            #[schema(min_length = 1, max_length = 256)]
            target: Option<String>,
            /// Targets that match this pattern, where `*` matches any characters and `?` one.
            #[schema(max_length = 256)]
            pattern: Option<String>,
            /// Fed by streams with this name prefix.
            source: Option<String>,
            /// In this lane.
            #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
            lane: Option<LaneName>,
            /// Only blocked targets, or only targets that are not blocked.
            blocked: Option<bool>,
            /// Only count the selected targets.
            #[serde(default)]
            dry_run: bool,
            $($(#[$about])* $field: $of,)*
        }

        impl $name {
            fn meant(&self) -> Result<ReactionFilter, Problem> {
                if self.reaction.is_none() && self.target.is_none() && self.pattern.is_none() {
                    return Err(too_wide());
                }
                let mut filter = ReactionFilter::all()
                    .reactions(pattern(self.reaction.clone(), None, "reaction")?)
                    .targets(pattern(self.target.clone(), self.pattern.clone(), "target")?);
                if let Some(source) = &self.source {
                    filter = filter.sources(source);
                }
                if let Some(lane) = &self.lane {
                    filter = filter.lane(lane.clone());
                }
                if let Some(blocked) = self.blocked {
                    filter = filter.blocked(blocked);
                }
                Ok(filter)
            }
        }
    };
}

fn too_wide() -> Problem {
    let detail =
        "select targets with reaction, target or pattern; pattern \"*\" selects all of them";
    Problem::bad_request("targets-missing", detail)
}

/// Acts on the selected targets, or counts them; a problem if nothing was selected because a given
/// name does not exist.
async fn act(
    served: &AppState,
    meant: &ReactionFilter,
    dry_run: bool,
    action: impl AsyncFnOnce(Reactions) -> Result<Adjusted, Problem>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let reactions = reactions(served);
    let shown: BulkActionDto = match dry_run {
        true => {
            let filters = reactions.item_filters(meant).await?;
            BulkActionDto::would(count(served, filters).await?)
        }
        false => action(reactions.clone()).await?.into(),
    };
    if shown.is_none()
        && let Some(missing) = reactions.missing(meant).await?
    {
        return Err(no_such(&missing));
    }
    Ok(Answer(shown))
}

of_targets! {
    /// Which blocked targets to unblock.
    UnblockRequest as UnblockTargetsRequest {}
}

/// Unblock the selected targets: they continue where they stopped, at once.
#[utoipa::path(post, path = "/v1/reactions/unblock", tag = "reactions", request_body = UnblockRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn unblock(
    State(served): State<AppState>,
    Body(asked): Body<UnblockRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let meant = asked.meant()?.blocked(true);
    act(&served, &meant, asked.dry_run, async |reactions| Ok(reactions.unblock(&meant).await?))
        .await
}

of_targets! {
    /// Which targets to start over.
    ResetRequest as ResetTargetsRequest {
        /// Whether effects outside the store are repeated.
        #[serde(default)]
        repeat_effects: bool,
        /// Handle the remaining events even where others were removed when their stream was closed.
        #[serde(default)]
        partial: bool,
    }
}

/// Start the selected targets over: every event is handled again. A worker that handles one of them
/// loses its lease. If events that a target has handled were removed, nothing is reset unless
/// `partial` is set.
#[utoipa::path(post, path = "/v1/reactions/reset", tag = "reactions", request_body = ResetRequest,
    responses(
        (status = 200, body = BulkActionDto),
        (status = 409, description = "Events that would have to be handled again were removed"),
    ))]
pub(crate) async fn reset(
    State(served): State<AppState>,
    Body(asked): Body<ResetRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let meant = asked.meant()?;
    let effects = if asked.repeat_effects { ResetEffects::Repeat } else { ResetEffects::Keep };
    act(&served, &meant, asked.dry_run, async |reactions| match asked.partial {
        true => Ok(reactions.reset_partial(&meant, effects).await?),
        false => reactions.reset(&meant, effects).await.map_err(reset_problem),
    })
    .await
}

/// The problem of a reset or a rebuild that was refused.
pub(crate) fn reset_problem(error: ResetError) -> Problem {
    match error {
        ResetError::Store(error) => error.into(),
        gone => Problem::conflict("events-gone", format!("{gone}, with partial: true")),
    }
}

of_targets! {
    /// Which targets to defer, and until when.
    DeferRequest as DeferTargetsRequest {
        /// Not before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Not before this long from now.
        #[schema(value_type = Option<u64>)]
        in_ms: Option<Millis>,
    }
}

/// Defer the selected targets: they are not handled before then.
#[utoipa::path(post, path = "/v1/reactions/defer", tag = "reactions", request_body = DeferRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn defer(
    State(served): State<AppState>,
    Body(asked): Body<DeferRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let meant = asked.meant()?;
    let until = when(asked.until, asked.in_ms, "until and in_ms")?.ok_or_else(no_time)?;
    act(&served, &meant, asked.dry_run, async |reactions| {
        Ok(reactions.defer(&meant, until).await?)
    })
    .await
}

of_targets! {
    /// Which targets to prioritize.
    PrioritizeRequest as PrioritizeTargetsRequest {
        /// The new priority.
        #[schema(minimum = -100, maximum = 100)]
        priority: i16,
    }
}

/// Set the priority of the selected targets.
#[utoipa::path(post, path = "/v1/reactions/prioritize", tag = "reactions", request_body = PrioritizeRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn prioritize(
    State(served): State<AppState>,
    Body(asked): Body<PrioritizeRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let meant = asked.meant()?;
    Priority::new(asked.priority)?;
    act(&served, &meant, asked.dry_run, async |reactions| {
        Ok(reactions.prioritize(&meant, asked.priority).await?)
    })
    .await
}

/// Where routing starts over.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RerouteFrom)]
pub(crate) enum RerouteFrom {
    /// At the first event of the log.
    Beginning,
    /// At the next event that is appended.
    Now,
}

/// A request to reroute a reaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RerouteRequest {
    /// The reaction.
    #[schema(min_length = 1, max_length = 64, example = "receipts")]
    reaction: String,
    /// Where routing starts over.
    from: RerouteFrom,
}

/// Route a reaction's events again: for one whose routing has stopped because the log is not the
/// one that it knew.
#[utoipa::path(post, path = "/v1/reactions/reroute", tag = "reactions", request_body = RerouteRequest,
    responses(
        (status = 204, description = "Rerouted"),
        (status = 404, description = "The reaction was never registered"),
    ))]
pub(crate) async fn reroute(
    State(served): State<AppState>,
    once: IdempotencyScope,
    Body(asked): Body<RerouteRequest>,
) -> Result<StatusCode, Problem> {
    let from = match asked.from {
        RerouteFrom::Beginning => StartFrom::Beginning,
        RerouteFrom::Now => StartFrom::Now,
    };
    let reactions = reactions(&served);
    let rerouted = match once.operation() {
        Some(id) => reactions.reroute_once(&asked.reaction, from, id).await?,
        None => reactions.reroute(&asked.reaction, from).await?,
    };
    match rerouted {
        Rerouted::Done => Ok(StatusCode::NO_CONTENT),
        Rerouted::Unregistered => {
            let unknown = Missing::Reaction { name: asked.reaction.clone(), near: None };
            let missing = reactions.missing_reaction(&asked.reaction).await?;
            Err(no_such(&missing.unwrap_or(unknown)))
        }
        Rerouted::Contended => Err(Problem::conflict(
            "overtaken",
            format!(
                "reaction {:?}: its events were being routed at the same time; send the same again",
                asked.reaction
            ),
        )),
    }
}
