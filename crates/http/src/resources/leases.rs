//! Leases: the work items of every queue, and operators' actions on them.

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

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Of queues that match this pattern: `*` matches any characters, `?` one.
    #[param(max_length = 128)]
    queue: Option<String>,
    /// With keys that match this pattern.
    #[param(max_length = 256)]
    key: Option<String>,
    /// In this state.
    #[param(inline)]
    state: Option<ItemStateDto>,
    /// Held by this worker.
    holder: Option<String>,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<Cursor<ItemRef>>,
    /// The maximum number of items: fewer may be in the requested state.
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

/// Defines a request body: which items are selected, and the fields of the action, side by side.
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
            /// With keys that match this pattern, where `*` matches any characters and `?` one; all
            /// items by default.
            #[schema(max_length = 256)]
            pattern: Option<String>,
            /// In this lane.
            #[schema(value_type = Option<String>, min_length = 1, max_length = 64)]
            lane: Option<LaneName>,
            /// Only blocked items, or only items that are not blocked.
            blocked: Option<bool>,
            /// Only count the selected items.
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

/// The items that an operator selected.
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
    /// Which blocked items to unblock.
    Unblocking {}
}

/// Unblock the selected items: they continue where they stopped, at once.
#[utoipa::path(post, path = "/v1/leases/unblock", tag = "leases", request_body = Unblocking,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A given name does not exist", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn unblock(
    State(served): State<AppState>,
    Body(asked): Body<Unblocking>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let Meant { filter, dry_run } = asked.meant()?;
    Meant { filter: filter.blocked(true), dry_run }.adjust(&served, Adjustment::Unblock).await
}

of_items! {
    /// Which items to start over, and from which mark.
    Resetting {
        /// Back to this mark; to the beginning by default.
        #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
        to: Option<Mark>,
    }
}

/// Start the selected items over. A worker that holds one of them loses its lease.
#[utoipa::path(post, path = "/v1/leases/reset", tag = "leases", request_body = Resetting,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A given name does not exist", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn reset(
    State(served): State<AppState>,
    Body(asked): Body<Resetting>,
) -> Result<Answer<AdjustedDto>, Problem> {
    asked.meant()?.adjust(&served, Adjustment::Reset { to: asked.to.unwrap_or(Mark::ZERO) }).await
}

of_items! {
    /// Which items to defer, and until when.
    Deferring {
        /// Not before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Not before this long from now.
        #[schema(value_type = Option<u64>)]
        in_ms: Option<Millis>,
    }
}

/// Defer the selected items: they are not leased before then. A lease in force is not affected.
#[utoipa::path(post, path = "/v1/leases/defer", tag = "leases", request_body = Deferring,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A given name does not exist", body = Details, content_type = PROBLEM_JSON),
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
        "give the end with until (a time) or in_ms (a duration from now)",
    )
}

of_items! {
    /// Which items to prioritize.
    Prioritizing {
        /// The new priority.
        #[schema(minimum = -100, maximum = 100)]
        priority: i16,
    }
}

/// Set the priority of the selected items.
#[utoipa::path(post, path = "/v1/leases/prioritize", tag = "leases", request_body = Prioritizing,
    responses(
        (status = 200, body = AdjustedDto),
        (status = 404, description = "A given name does not exist", body = Details, content_type = PROBLEM_JSON),
    ))]
pub(crate) async fn prioritize(
    State(served): State<AppState>,
    Body(asked): Body<Prioritizing>,
) -> Result<Answer<AdjustedDto>, Problem> {
    let priority = Priority::new(asked.priority)?;
    asked.meant()?.adjust(&served, Adjustment::Prioritize { priority }).await
}
