//! The mutex of group commit. The test that explores its schedules substitutes another one.

pub(super) use std::sync::{Mutex, MutexGuard};
