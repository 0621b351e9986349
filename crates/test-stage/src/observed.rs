//! A log of what handlers observed.

use std::sync::{Arc, Mutex};

use crate::until;

/// Lines, in the order in which they were added. Clones are handles on the same log.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Observed {
    /// Adds a line.
    pub fn note(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
    }

    /// All lines.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The number of lines.
    pub fn count(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// Waits until there are this many lines.
    pub async fn until(&self, count: usize) {
        until(&format!("{count} were seen, of {:?}", self.lines()), async || self.count() >= count)
            .await;
    }
}
