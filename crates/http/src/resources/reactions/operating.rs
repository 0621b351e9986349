//! What operators do to the targets of reactions.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use tidelock::reactions::{ReactionFilter, Rerouted, ResetEffects, ResetError, StartFrom};
use tidelock::{LaneName, Missing, Priority, Timestamp};
use utoipa::ToSchema;

use super::super::adjusting::AdjustedDto;
use super::super::item::{count, pattern, when};
use super::super::leases::no_time;
use super::super::span::Millis;
use super::reactions;
use crate::app_state::AppState;
use crate::extract::Body;
use crate::idempotency::IdempotencyScope;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// What an operator asks for is which targets are meant, and what is done to them; both stand side
/// by side in the body.
macro_rules! of_targets {
    ($(#[$doc:meta])* $name:ident as $schema:ident { $($(#[$about:meta])* $field:ident: $of:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = $schema)]
        pub(crate) struct $name {
            /// Of this reaction; of all, if this is left out.
            #[schema(min_length = 1)]
            reaction: Option<String>,
            /// This target.
            #[schema(min_length = 1, max_length = 256)]
            target: Option<String>,
            /// Targets whose names are like this, where `*` stands for any characters and `?` for
            /// one.
            #[schema(max_length = 256)]
            pattern: Option<String>,
            /// Fed by streams whose names begin with this.
            source: Option<String>,
            /// In this lane.
            #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
            lane: Option<LaneName>,
            /// Only those that are blocked, or only those that are not.
            blocked: Option<bool>,
            /// Only say how many are meant.
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
    let detail = "say which targets are meant, with reaction, target or pattern; pattern \"*\" means all of them";
    Problem::bad_request("targets-missing", detail)
}

/// How many are meant.
async fn would(served: &AppState, meant: &ReactionFilter) -> Result<Answer<AdjustedDto>, Problem> {
    let filters = reactions(served).item_filters(meant).await?;
    told(served, meant, AdjustedDto::would(count(served, filters).await?)).await
}

/// What came of it; a problem, if nothing was meant because a name is that of nothing there is.
async fn told(
    served: &AppState,
    meant: &ReactionFilter,
    shown: AdjustedDto,
) -> Result<Answer<AdjustedDto>, Problem> {
    if shown.is_none()
        && let Some(missing) = reactions(served).missing(meant).await?
    {
        return Err(missing.into());
    }
    Ok(Answer(shown))
}

of_targets! {
    /// Which blocked targets go on.
    Unblocking as UnblockingTargets {}
}

/// Blocked targets that are meant go on where they stopped, at once.
#[utoipa::path(post, path = "/v1/reactions/unblock", tag = "reactions", request_body = Unblocking,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn unblock(
    State(served): State<AppState>,
    Body(asked): Body<Unblocking>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let meant = asked.meant()?.blocked(true);
    match asked.dry_run {
        true => would(&served, &meant).await,
        false => told(&served, &meant, reactions(&served).unblock(&meant).await?.into()).await,
    }
}

of_targets! {
    /// Which targets begin anew.
    Resetting as ResettingTargets {
        /// Whether what they did outside the store is done again.
        #[serde(default)]
        repeat_effects: bool,
        /// Handle what is left, also where events are gone because the books of their stream were
        /// closed.
        #[serde(default)]
        partial: bool,
    }
}

/// Targets that are meant begin anew: every event is handled again. Whoever is at one of them loses
/// the lease. Where events are gone that a target has handled, nothing is reset, unless `partial`
/// says that it should be.
#[utoipa::path(post, path = "/v1/reactions/reset", tag = "reactions", request_body = Resetting,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 409, description = "Events are gone that would have to be handled again", body = Details, content_type = PROBLEM_JSON),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn reset(
    State(served): State<AppState>,
    Body(asked): Body<Resetting>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let meant = asked.meant()?;
    let effects = if asked.repeat_effects { ResetEffects::Repeat } else { ResetEffects::Keep };
    match (asked.dry_run, asked.partial) {
        (true, _) => would(&served, &meant).await,
        (false, true) => {
            told(&served, &meant, reactions(&served).reset_partial(&meant, effects).await?.into())
                .await
        }
        (false, false) => {
            let reset = reactions(&served).reset(&meant, effects).await.map_err(not_reset)?;
            told(&served, &meant, reset.into()).await
        }
    }
}

fn not_reset(error: ResetError) -> Problem {
    match error {
        ResetError::Store(error) => error.into(),
        gone => Problem::conflict("events-gone", format!("{gone}, with partial: true")),
    }
}

of_targets! {
    /// Which targets are deferred, and until when.
    Deferring as DeferringTargets {
        /// Not before this moment.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Not before so long from now.
        #[schema(value_type = Option<u64>)]
        in_ms: Option<Millis>,
    }
}

/// Targets that are meant are not handled before then.
#[utoipa::path(post, path = "/v1/reactions/defer", tag = "reactions", request_body = Deferring,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn defer(
    State(served): State<AppState>,
    Body(asked): Body<Deferring>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let meant = asked.meant()?;
    let until = when(asked.until, asked.in_ms, "until and in_ms")?.ok_or_else(no_time)?;
    match asked.dry_run {
        true => would(&served, &meant).await,
        false => told(&served, &meant, reactions(&served).defer(&meant, until).await?.into()).await,
    }
}

of_targets! {
    /// Which targets get another priority.
    Prioritizing as PrioritisingTargets {
        /// Which priority.
        #[schema(minimum = -100, maximum = 100)]
        priority: i16,
    }
}

/// Targets that are meant get this priority.
#[utoipa::path(post, path = "/v1/reactions/prioritize", tag = "reactions", request_body = Prioritizing,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn prioritize(
    State(served): State<AppState>,
    Body(asked): Body<Prioritizing>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let meant = asked.meant()?;
    Priority::new(asked.priority)?;
    match asked.dry_run {
        true => would(&served, &meant).await,
        false => {
            told(
                &served,
                &meant,
                reactions(&served).prioritize(&meant, asked.priority).await?.into(),
            )
            .await
        }
    }
}

/// From where events are routed anew.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RerouteFrom)]
pub(crate) enum Whence {
    /// From the first event there is.
    Beginning,
    /// From the next event that comes.
    Now,
}

/// What is routed anew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rerouting {
    /// Which reaction.
    #[schema(min_length = 1, max_length = 64)]
    reaction: String,
    /// From where.
    from: Whence,
}

/// Route a reaction's events anew: for one whose routing has stopped because the log is not the one
/// it knew.
#[utoipa::path(post, path = "/v1/reactions/reroute", tag = "reactions", request_body = Rerouting,
    responses(
        (status = 204, description = "It is routed anew"),
        (status = 404, description = "No such reaction was ever registered", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn reroute(
    State(served): State<AppState>,
    once: IdempotencyScope,
    Body(asked): Body<Rerouting>,
) -> Result<StatusCode, Problem> {
    let from = match asked.from {
        Whence::Beginning => StartFrom::Beginning,
        Whence::Now => StartFrom::Now,
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
            Err(reactions.missing_reaction(&asked.reaction).await?.unwrap_or(unknown).into())
        }
        Rerouted::Contended => Err(Problem::conflict(
            "overtaken",
            format!(
                "reaction {:?}: its events were being routed all the while; send the same again",
                asked.reaction
            ),
        )),
    }
}
