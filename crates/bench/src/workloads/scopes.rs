//! Mutations of scopes: in memory, beside a bare lock around the same state; and of one durable
//! scope by all callers, beside what as many callers commit to keys of their own.

mod hot;
mod local;

pub(super) use hot::{measure_counter, measure_field};
pub(super) use local::measure as measure_local;
