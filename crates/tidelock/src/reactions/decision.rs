//! A decision on fresh state whose events land with a handler's ack.

use std::fmt;

use futures_util::future::BoxFuture;
use tidelock_store::Append;

use super::Failure;

/// Takes the decision on the state as it is now; gives what is to be appended, if anything.
pub(crate) type Take = Box<dyn Fn() -> BoxFuture<'static, Result<Option<Append>, Failure>> + Send + Sync>;

/// A decision that can be taken again.
pub(crate) struct Decision {
    take: Take,
    append: Option<Append>,
}

impl Decision {
    /// A decision that came to this, and how to take it again.
    pub(crate) fn new(take: Take, append: Option<Append>) -> Self {
        Self { take, append }
    }

    /// What it came to.
    pub(crate) fn append(&self) -> Option<Append> {
        self.append.clone()
    }

    /// Takes it again.
    pub(crate) async fn take(&mut self) -> Result<(), Failure> {
        self.append = (self.take)().await?;
        Ok(())
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision").field("append", &self.append).finish_non_exhaustive()
    }
}
