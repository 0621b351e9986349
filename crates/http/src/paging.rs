//! Paged lists.

use serde::Serialize;
use tidelock::problem::Problem;
use utoipa::ToSchema;

use crate::limits::{Limits, PAGE};

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
