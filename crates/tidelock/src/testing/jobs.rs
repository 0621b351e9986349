//! The unfinished jobs of a type, to assert on.

use std::fmt;

use super::TestQueue;
use crate::jobs::Job;

/// The unfinished jobs of a type, as they were when this was read: the ones that are due first come
/// first.
#[derive(Clone)]
pub struct TestJobs<J> {
    jobs: Vec<(String, J)>,
}

impl<J> fmt::Debug for TestJobs<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys()).finish()
    }
}

impl<J> TestJobs<J> {
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.jobs.iter().map(|(key, _)| key.as_str())
    }

    /// Returns the jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &J> {
        self.jobs.iter().map(|(_, job)| job)
    }

    /// Returns the job with this key; `None` if there is none.
    pub fn get(&self, key: &str) -> Option<&J> {
        self.jobs.iter().find(|(there, _)| there == key).map(|(_, job)| job)
    }
}

impl<J: Job> TestJobs<J> {
    #[track_caller]
    pub(super) fn of(queue: &TestQueue) -> Self {
        let job = |key: String| {
            let job = queue.data(&key).unwrap_or_else(|| panic!("job {key:?} has no payload"));
            (key, job)
        };
        Self { jobs: queue.keys().into_iter().map(job).collect() }
    }

    /// Asserts that one of the jobs is as described.
    ///
    /// # Panics
    /// If none is; the message names the jobs that there are.
    #[track_caller]
    pub fn assert_enqueued(&self, is_expected: impl Fn(&J) -> bool) -> &Self {
        assert!(
            self.jobs().any(is_expected),
            "jobs of queue {:?}: none is as expected among {self:?}",
            J::QUEUE
        );
        self
    }

    /// Asserts that there is no unfinished job.
    ///
    /// # Panics
    /// If there is one.
    #[track_caller]
    pub fn assert_none(&self) {
        assert!(
            self.jobs.is_empty(),
            "jobs of queue {:?}: expected none, found {self:?}",
            J::QUEUE
        );
    }
}
