//! Leases: the work items of every queue, and operators' actions on them.

use axum::Json as Answer;
use axum::extract::State;
use serde::Deserialize;
use tidelock::problem::Problem;
use tidelock::store::{
    Adjustment, ItemFilter, ItemRef, LaneName, Mark, NamePattern, Priority, QueueName,
};
use tidelock::{Missing, Timestamp};
use utoipa::{IntoParams, ToSchema};

use super::bulk_action::{BulkActionDto, no_such};
use super::cursor::Cursor;
use super::durations::Millis;
use super::item::{ItemDto, ItemListing, ItemStateDto, count, pattern, when};
use crate::app_state::AppState;
use crate::extract::{Body, InQuery};
use crate::paging::Page;

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
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
#[utoipa::path(get, path = "/v1/leases", tag = "leases", params(ListQuery), responses((status = 200, body = Page<ItemDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<ItemDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let like = |like: Option<String>| like.map_or(NamePattern::Any, NamePattern::like);
    let filter =
        ItemFilter { queue: like(asked.queue), key: like(asked.key), ..ItemFilter::default() };
    let filter = if asked.holder.is_some() { filter.held(true) } else { filter };
    let listing =
        ItemListing { filter, state: asked.state, holder: asked.holder, after: asked.after, limit };
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
            #[schema(value_type = String, min_length = 1, max_length = 128, example = "mails")]
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
            fn meant(&self) -> Result<Selection, Problem> {
                let filter = ItemFilter {
                    queue: NamePattern::is(self.queue.as_str()),
                    key: pattern(self.key.clone(), self.pattern.clone(), "key")?,
                    lane: self.lane.clone(),
                    blocked: self.blocked,
                    held: None,
                };
                Ok(Selection { filter, dry_run: self.dry_run })
            }
        }
    };
}

/// The items that an operator selected.
struct Selection {
    filter: ItemFilter,
    dry_run: bool,
}

impl Selection {
    async fn adjust(
        self,
        served: &AppState,
        how: Adjustment,
    ) -> Result<Answer<BulkActionDto>, Problem> {
        self.filter.check()?;
        how.check()?;
        let shown = match self.dry_run {
            true => BulkActionDto::would(count(served, vec![self.filter.clone()]).await?),
            false => served.store().adjust(self.filter.clone(), how).await?.into(),
        };
        if shown.is_none()
            && let Some(missing) = Missing::among_items(served.store(), &self.filter).await?
        {
            return Err(no_such(&missing));
        }
        Ok(Answer(shown))
    }
}

of_items! {
    /// Which blocked items to unblock.
    UnblockRequest {}
}

/// Unblock the selected items: they continue where they stopped, at once.
#[utoipa::path(post, path = "/v1/leases/unblock", tag = "leases", request_body = UnblockRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn unblock(
    State(served): State<AppState>,
    Body(asked): Body<UnblockRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let Selection { filter, dry_run } = asked.meant()?;
    Selection { filter: filter.blocked(true), dry_run }.adjust(&served, Adjustment::Unblock).await
}

of_items! {
    /// Which items to start over, and from which mark.
    ResetRequest {
        /// Back to this mark; to the beginning by default.
        #[schema(value_type = Option<u64>, maximum = 9223372036854775807_i64)]
        to: Option<Mark>,
    }
}

/// Start the selected items over. A worker that holds one of them loses its lease.
#[utoipa::path(post, path = "/v1/leases/reset", tag = "leases", request_body = ResetRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn reset(
    State(served): State<AppState>,
    Body(asked): Body<ResetRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    asked.meant()?.adjust(&served, Adjustment::Reset { to: asked.to.unwrap_or(Mark::ZERO) }).await
}

of_items! {
    /// Which items to defer, and until when.
    DeferRequest {
        /// Not before this time.
        #[schema(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
        /// Not before this long from now.
        #[schema(value_type = Option<u64>)]
        in_ms: Option<Millis>,
    }
}

/// Defer the selected items: they are not leased before then. A lease in force is not affected.
#[utoipa::path(post, path = "/v1/leases/defer", tag = "leases", request_body = DeferRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn defer(
    State(served): State<AppState>,
    Body(asked): Body<DeferRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
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
    PrioritizeRequest {
        /// The new priority.
        #[schema(minimum = -100, maximum = 100)]
        priority: i16,
    }
}

/// Set the priority of the selected items.
#[utoipa::path(post, path = "/v1/leases/prioritize", tag = "leases", request_body = PrioritizeRequest,
    responses((status = 200, body = BulkActionDto)))]
pub(crate) async fn prioritize(
    State(served): State<AppState>,
    Body(asked): Body<PrioritizeRequest>,
) -> Result<Answer<BulkActionDto>, Problem> {
    let priority = Priority::new(asked.priority)?;
    asked.meant()?.adjust(&served, Adjustment::Prioritize { priority }).await
}
