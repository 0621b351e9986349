//! Leases: the work items of every queue, and what operators do to them.

use axum::Json as Answer;
use axum::extract::State;
use serde::Deserialize;
use tidelock::{
    Adjustment, ItemFilter, ItemRef, LaneName, Mark, Missing, NamePattern, Priority, QueueName,
    Timestamp,
};
use utoipa::{IntoParams, ToSchema};

use super::adjusting::AdjustedDto;
use super::cursor::Cursor;
use super::item::{ItemDto, ItemStateDto, Listing, count, pattern, when};
use super::span::Millis;
use crate::app_state::AppState;
use crate::extract::{Body, InQuery};
use crate::paging::Page;
use crate::problem::{Details, PROBLEM_JSON, Problem};

/// Which items.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Of queues whose names are like this: `*` stands for any characters, `?` for one.
    #[param(max_length = 128)]
    queue: Option<String>,
    /// With keys like this.
    #[param(max_length = 256)]
    key: Option<String>,
    /// In this state.
    #[param(inline)]
    state: Option<ItemStateDto>,
    /// Held by this worker.
    holder: Option<String>,
    /// Where to go on: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// How many at most: fewer may be in the state that is asked for.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List work items of every queue, by queue and key.
#[utoipa::path(get, path = "/v1/leases", tag = "leases", params(Listed), responses((status = 200, body = Page<ItemDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<Listed>,
) -> Result<Answer<Page<ItemDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let like = |like: Option<String>| like.map_or(NamePattern::Any, NamePattern::like);
    let filter =
        ItemFilter { queue: like(asked.queue), key: like(asked.key), ..ItemFilter::default() };
    let filter = if asked.holder.is_some() { filter.held(true) } else { filter };
    let listing =
        Listing { filter, state: asked.state, holder: asked.holder, after: asked.after, limit };
    Ok(Answer(listing.page(&served).await?))
}

/// What an operator asks for is which items are meant, and what is done to them; both stand side by
/// side in the body.
macro_rules! of_items {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $of:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// Of this queue.
            #[schema(value_type = String, min_length = 1, max_length = 128)]
            queue: QueueName,
            /// With this key.
            #[schema(max_length = 256)]
            key: Option<String>,
            /// With keys like this, where `*` stands for any characters and `?` for one; all of
            /// them, if neither is said.
            #[schema(max_length = 256)]
            pattern: Option<String>,
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
            fn meant(&self) -> Result<Meant, Problem> {
                let filter = ItemFilter {
                    queue: NamePattern::is(self.queue.as_str()),
                    key: pattern(self.key.clone(), self.pattern.clone(), "key")?,
                    lane: self.lane.clone(),
                    blocked: self.blocked,
                    held: None,
                };
                Ok(Meant { filter, dry_run: self.dry_run })
            }
        }
    };
}

/// The items that an operator means.
struct Meant {
    filter: ItemFilter,
    dry_run: bool,
}

impl Meant {
    async fn adjust(
        self,
        served: &AppState,
        how: Adjustment,
    ) -> Result<Answer<AdjustedDto>, Problem> {
        self.filter.check()?;
        how.check()?;
        let shown = match self.dry_run {
            true => AdjustedDto::would(count(served, vec![self.filter.clone()]).await?),
            false => served.store().adjust(self.filter.clone(), how).await?.into(),
        };
        if shown.is_none()
            && let Some(missing) = Missing::among_items(served.store(), &self.filter).await?
        {
            return Err(missing.into());
        }
        Ok(Answer(shown))
    }
}

of_items! {
    /// Which blocked items go on.
    Unblocking {}
}

/// Blocked items that are meant go on where they stopped, at once.
#[utoipa::path(post, path = "/v1/leases/unblock", tag = "leases", request_body = Unblocking,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn unblock(
    State(served): State<AppState>,
    Body(asked): Body<Unblocking>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let Meant { filter, dry_run } = asked.meant()?;
    Meant { filter: filter.blocked(true), dry_run }.adjust(&served, Adjustment::Unblock).await
}

of_items! {
    /// Which items begin anew, and where.
    Resetting {
        /// Back to this mark; to the beginning, if this is left out.
        #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
        to: Option<Mark>,
    }
}

/// Items that are meant begin anew. Whoever holds one of them loses the lease.
#[utoipa::path(post, path = "/v1/leases/reset", tag = "leases", request_body = Resetting,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn reset(
    State(served): State<AppState>,
    Body(asked): Body<Resetting>,
) -> Result<Answer<AdjustedDto>, Problem> {
    asked.meant()?.adjust(&served, Adjustment::Reset { to: asked.to.unwrap_or(Mark::ZERO) }).await
}

of_items! {
    /// Which items are deferred, and until when.
    Deferring {
        /// Not before this moment.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Not before so long from now.
        #[schema(value_type = Option<u64>)]
        in_ms: Option<Millis>,
    }
}

/// Items that are meant are not leased before then. A lease that stands is not touched.
#[utoipa::path(post, path = "/v1/leases/defer", tag = "leases", request_body = Deferring,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn defer(
    State(served): State<AppState>,
    Body(asked): Body<Deferring>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let until = when(asked.until, asked.in_ms, "until and in_ms")?.ok_or_else(no_time)?;
    asked.meant()?.adjust(&served, Adjustment::Defer { until }).await
}

pub(super) fn no_time() -> Problem {
    Problem::bad_request(
        "time-missing",
        "say until when, with until (a moment) or in_ms (so long from now)",
    )
}

of_items! {
    /// Which items get another priority.
    Prioritizing {
        /// Which priority.
        #[schema(minimum = -100, maximum = 100)]
        priority: i16,
    }
}

/// Items that are meant get this priority.
#[utoipa::path(post, path = "/v1/leases/prioritize", tag = "leases", request_body = Prioritizing,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A name that is given is that of nothing there is", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn prioritize(
    State(served): State<AppState>,
    Body(asked): Body<Prioritizing>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let priority = Priority::new(asked.priority)?;
    asked.meant()?.adjust(&served, Adjustment::Prioritize { priority }).await
}
