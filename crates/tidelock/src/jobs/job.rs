//! [`Job`]: a payload that names its queue.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::JobOptions;

/// A job: the payload of a work item, and the queue that it goes to.
///
/// The type names the queue, so that the code that enqueues and the code that handles cannot
/// disagree. The payload is stored as JSON; a process that was deployed later has to read what an
/// earlier one wrote, so add fields with `#[serde(default)]`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tidelock::jobs::JobOptions;
/// use tidelock::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize { image: String, width: u32 }
///
/// impl Job for Resize {
///     const QUEUE: &'static str = "images";
///
///     fn options() -> JobOptions {
///         JobOptions::new().timeout(Duration::from_secs(60)).max_concurrency(2)
///     }
/// }
/// ```
///
/// Or derived; `options` and `concurrency_key` are paths of functions, and can be left out:
///
/// ```
/// # use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tidelock::jobs::JobOptions;
/// use tidelock::prelude::*;
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(queue = "images", options = slow)]
/// struct Resize { image: String, width: u32 }
///
/// fn slow() -> JobOptions {
///     JobOptions::new().timeout(Duration::from_secs(60))
/// }
/// # assert_eq!(Resize::QUEUE, "images");
/// # assert_eq!(format!("{:?}", Resize::options()), format!("{:?}", slow()));
/// ```
///
/// A job without a queue does not compile, and neither does one with parameters:
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// # use tidelock::prelude::*;
/// #[derive(Serialize, Deserialize, Job)]
/// struct Resize { image: String }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The queue. It belongs to this type alone: an application that registers two types for one
    /// queue is not built.
    const QUEUE: &'static str;

    /// The options under which jobs of this type are enqueued and handled.
    fn options() -> JobOptions {
        JobOptions::new()
    }

    /// The key under which jobs are limited together, by
    /// [`JobOptions::concurrency_per_key`](JobOptions::concurrency_per_key): a customer, a host, an
    /// account. Jobs without a key are not limited by it.
    ///
    /// It has to be the same for the same job, in every process.
    fn concurrency_key(&self) -> Option<String> {
        None
    }
}
