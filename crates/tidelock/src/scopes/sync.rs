//! The lock that the queue of turns is built on. The test that explores its schedules puts another
//! one in this place.

pub(crate) use std::sync::{Mutex, MutexGuard};
