//! Mutex used by `fair_mutex.rs`. The test that explores its schedules substitutes another one.

pub(crate) use std::sync::{Mutex, MutexGuard};
