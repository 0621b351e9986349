//! Paged lists.

use serde::{Deserialize, Serialize};
use tidelock::problem::Problem;
use tidelock::store::RecordKey;
use utoipa::{IntoParams, ToSchema};

use crate::limits::{Limits, PAGE};

/// The query of a list by name.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PrefixQuery {
    /// A prefix of their names.
    #[serde(default)]
    pub(crate) prefix: String,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    pub(crate) after: Option<RecordKey>,
    /// The maximum number of entries.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The page's entries.
    pub(crate) items: Vec<T>,
    /// Pass this as `after` to read the next page; absent on the last page.
    pub(crate) next: Option<String>,
}

impl<T> Page<T> {
    pub(crate) fn new(items: Vec<T>, next: Option<impl ToString>) -> Self {
        Self { items, next: next.map(|next| next.to_string()) }
    }
}

impl Limits {
    /// The page size for this requested limit.
    pub(crate) fn page(&self, asked: Option<usize>) -> Result<usize, Problem> {
        match asked.unwrap_or(self.page) {
            limit @ 1..=PAGE => Ok(limit),
            limit => {
                let detail = format!(
                    "limit {limit} is not between 1 and {PAGE}: read a long list page by page"
                );
                Err(Problem::bad_request("limit-invalid", detail))
            }
        }
    }
}
