//! Changes of a scope's document as a part of a unit of work, as data.

use serde_json::Value;
use tidelock_store::{Commit, Edit, ExpectedRevision, Unfit};

use super::error::ScopeError;
use super::proposal::ScopeRead;
use super::scope::Scope;
use super::state::ScopeState;
use crate::staging::Tx;

/// A change of a scope's document, for a caller that has it as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// Replaces the document.
    Set(Value),
    /// Edits the document. Its value is the number that the edit gives.
    Edit(Edit),
    /// Deletes the scope. Its value is whether there was one.
    Delete,
}

impl DocumentChange {
    /// Applies the change to a document, and returns its value.
    fn apply(&self, document: &mut Value) -> Result<Value, Unfit> {
        match self {
            Self::Set(value) => document.clone_from(value),
            Self::Edit(edit) => return edit.apply(document).map(Value::from),
            Self::Delete => {}
        }
        Ok(Value::Null)
    }
}

impl Tx {
    /// Stages a change of a scope's document, if the scope is as expected, and returns the change's
    /// value, or `null`. A second change in the same unit of work sees the first one.
    ///
    /// # Errors
    /// Those of [`Tx::try_mutate`]; `Moved`, `Gone` or `Taken` if the scope is not as expected;
    /// `Unfit` if the change does not fit the document.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # use tidelock::scopes::DocumentChange;
    /// # use tidelock::store::{Edit, ExpectedRevision};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let user = tidelock.scope::<serde_json::Value>(ScopeKind::USER, "ada");
    /// let visit = DocumentChange::Edit(Edit::Increment { at: "visits".into(), by: 1 });
    /// tidelock
    ///     .transact(async |tx: Tx| -> tidelock::Result<()> {
    ///         let visits = tx.change(&user, ExpectedRevision::Any, &visit).await?;
    ///         tx.put("last-visit", &visits)
    ///     })
    ///     .await?;
    /// assert_eq!(user.get().await?["visits"], 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn change<S: ScopeState>(
        &self,
        scope: &Scope<S>,
        expected: ExpectedRevision,
        change: &DocumentChange,
    ) -> Result<Value, ScopeError> {
        let read = match self.read_scope(scope).await {
            Err(ScopeError::Gone { .. }) if creates(expected, change) => {
                return self.create_again(scope, change);
            }
            read => read?,
        };
        let changed = read.check(expected).and_then(|()| changed(&read, change));
        let (parts, value) = match changed {
            Ok(changed) => changed,
            Err(refused) => {
                self.pin([read.guard()])?;
                return Err(refused);
            }
        };
        match parts {
            Some(parts) => self.staged(|staged| staged.replace(parts))?,
            None => {
                // The deletion of what only this unit of work has created.
                if *change == DocumentChange::Delete {
                    self.staged(|staged| staged.unstage(&read.guard()))?;
                }
                self.pin([read.guard()])?;
            }
        }
        Ok(value)
    }

    /// Stages the creation of a scope that is gone.
    fn create_again<S: ScopeState>(
        &self,
        scope: &Scope<S>,
        change: &DocumentChange,
    ) -> Result<Value, ScopeError> {
        let key = scope.key()?;
        let deletion = self.staged(|staged| staged.writes_to(key).cloned())?;
        let expected = deletion.map_or(ExpectedRevision::Absent, |write| write.expected);
        let write = scope.creation(expected, |document| {
            change.apply(document).map(drop).map_err(|Unfit(reason)| reason)
        })?;
        self.staged(|staged| staged.replace(Commit::new().write(write)))?;
        Ok(Value::Null)
    }
}

/// Whether a change makes a scope that is gone again: only on request.
fn creates(expected: ExpectedRevision, change: &DocumentChange) -> bool {
    expected == ExpectedRevision::Absent && matches!(change, DocumentChange::Set(_))
}

/// The parts that make a change, if they change anything, and its value.
fn changed<S: ScopeState>(
    read: &ScopeRead<'_, S>,
    change: &DocumentChange,
) -> Result<(Option<Commit>, Value), ScopeError> {
    if *change == DocumentChange::Delete {
        let existed = Value::from(read.exists());
        return Ok((read.deletion().map(|write| Commit::new().write(write)), existed));
    }
    let mut document = read.document()?;
    let value = change.apply(&mut document).map_err(|Unfit(reason)| read.unfit(reason))?;
    let state = S::deserialize(document).map_err(|error| read.unfit(error.to_string()))?;
    let (write, ()) = read.change(|before| {
        *before = state;
        Ok::<_, std::convert::Infallible>(())
    })?;
    Ok((write.map(|write| Commit::new().write(write)), value))
}
