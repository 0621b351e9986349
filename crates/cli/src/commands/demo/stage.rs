//! The environment of the scenes: a store opened twice, unique names, and the output.

use std::sync::Arc;

use tempfile::TempDir;
use tidelock::store::{
    CommitId, CommitOutcome, QueueName, RecordKey, Store, StreamName, WorkerName,
};
use tokio::task::JoinHandle;

use crate::failure::{Failure, Result};
use crate::output::{Output, Style};
use crate::store_url::StoreUrl;

/// What a scene needs.
pub(super) struct Stage<'a> {
    /// One handle to the store.
    pub(super) store: Arc<dyn Store>,
    /// A second handle, opened separately where the store allows it: a stand-in for another
    /// process.
    pub(super) other: Arc<dyn Store>,
    url: String,
    /// In an existing store, names have a unique prefix.
    prefix: String,
    scene: u8,
    out: &'a mut Output,
    /// Removed with its contents when the story is over.
    folder: Option<TempDir>,
}

impl<'a> Stage<'a> {
    pub(super) async fn set(url: Option<String>, out: &'a mut Output) -> Result<Self> {
        let (url, folder) = match url {
            Some(url) => (url, None),
            None => {
                let folder = tempfile::Builder::new().prefix("tidelock-demo-").tempdir()?;
                (format!("sqlite:{}", folder.path().join("demo.db").display()), Some(folder))
            }
        };
        let store = open(&url).await?;
        let can = store.capabilities();
        let other = if can.shared { open(&url).await? } else { store.clone() };
        let prefix = if folder.is_none() && can.durable { own_prefix() } else { String::new() };
        out.line(Style::Faint, &format!("the store is {}", tidelock::redacted_url(&url)))?;
        Ok(Self { store, other, url: tidelock::redacted_url(&url), prefix, scene: 0, out, folder })
    }

    /// The store's URL, redacted.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Closes the store, and removes it if it was created for the demo.
    pub(super) async fn clear(self, tell: bool) -> Result<()> {
        self.other.close().await?;
        self.store.close().await?;
        let left = match self.folder {
            Some(folder) => {
                folder.close()?;
                "the file is removed".to_owned()
            }
            None if self.store.capabilities().durable => {
                format!("what was written stays, under names with {} in them", self.prefix)
            }
            None => "what was written is gone with the process".to_owned(),
        };
        if tell {
            self.out.line(Style::Plain, "")?;
            self.out.line(Style::Proven, &format!("all {} promises were kept", self.scene))?;
            self.out.line(Style::Faint, &left)?;
        }
        Ok(())
    }

    /// Begins the next scene.
    pub(super) fn scene(&mut self, title: &str) -> Result<()> {
        self.scene += 1;
        self.out.line(Style::Plain, "")?;
        Ok(self.out.line(Style::Heading, &format!("{}. {title}", self.scene))?)
    }

    /// Prints a step.
    pub(super) fn say(&mut self, what: &str) -> Result<()> {
        Ok(self.out.line(Style::Plain, &format!("   {what}"))?)
    }

    /// Prints a line immediately.
    pub(super) fn announce(&mut self, what: &str) -> Result<()> {
        self.out.line(Style::Heading, what)?;
        Ok(self.out.flush()?)
    }

    /// Prints a claim that was verified in the store, or ends the story if it does not hold.
    pub(super) fn prove(&mut self, claim: &str, holds: bool, found: &str) -> Result<()> {
        if !holds {
            return self.broken(claim, found);
        }
        Ok(self.out.line(Style::Proven, &format!("   ✓ {claim}"))?)
    }

    /// Ends the story: a claim does not hold.
    pub(super) fn broken<T>(&self, claim: &str, found: &str) -> Result<T> {
        Err(Failure::Broken(format!(
            "scene {} on store {:?}: {claim}: this does not hold; found {found}",
            self.scene, self.url
        )))
    }

    /// Checks that a commit without conflicts was accepted.
    pub(super) fn committed(&self, outcome: CommitOutcome) -> Result<()> {
        match outcome {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict(conflict) => {
                self.broken("this commit has no conflict", &conflict.to_string())
            }
        }
    }

    /// How these two handles were opened.
    pub(super) fn how_opened(&self, who: &str) -> String {
        if self.store.capabilities().shared {
            format!("{who} each open the store separately, as two processes would")
        } else {
            format!("{who} share the handle, for this store lives in one process")
        }
    }

    pub(super) fn stream(&self, name: &str) -> Result<StreamName> {
        Ok(StreamName::new(self.name(name))?)
    }

    pub(super) fn record(&self, name: &str) -> Result<RecordKey> {
        Ok(RecordKey::new(self.name(name))?)
    }

    pub(super) fn queue(&self, name: &str) -> Result<QueueName> {
        Ok(QueueName::new(self.name(name))?)
    }

    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

pub(super) fn worker(name: &str) -> Result<WorkerName> {
    Ok(WorkerName::new(name)?)
}

/// A task's result. No task of the story is cancelled, so it can only fail by a panic.
pub(super) async fn joined<T>(task: JoinHandle<T>) -> Result<T> {
    task.await
        .map_err(|e| Failure::Broken(format!("a task of the demo ended before its time: {e}")))
}

/// The random end of a new id is unique enough, and short enough to read.
fn own_prefix() -> String {
    let id = CommitId::fresh().to_string();
    format!("demo-{}-", &id[id.len() - 8..])
}

async fn open(url: &str) -> Result<Arc<dyn Store>> {
    tidelock::open(url).await.map_err(|e| StoreUrl::meant(Some(url.to_owned())).not_opened(e))
}
