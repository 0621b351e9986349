//! Mutations of scopes: in memory, beside a plain lock around the same state; and of one durable
//! scope by all callers, beside as many callers that commit to separate keys.

mod hot;
mod local;

pub(super) use hot::{measure_counter, measure_field};
pub(super) use local::measure as measure_local;
