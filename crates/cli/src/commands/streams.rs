//! `tidelock streams`: lists names, versions and numbers of events.

use serde::Serialize;
use tidelock::Timestamp;
use tidelock::store::{Head, HeadQuery, StoreExt, StreamName, StreamState, Version};

use super::{Cx, paged};
use crate::args::StreamsArgs;
use crate::failure::Result;
use crate::output::{TableRow, quoted};

#[derive(Debug, Serialize)]
struct Row {
    stream: StreamName,
    state: &'static str,
    version: Option<Version>,
    /// Less than the version once some were trimmed.
    events: u64,
    last_type: Option<String>,
    last_at: Option<Timestamp>,
}

pub(crate) async fn run(args: StreamsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let first = args.after;
    let read = async |after: Option<StreamName>, limit| {
        let after = after.or_else(|| first.clone());
        let query = HeadQuery::Prefix { prefix: args.prefix.clone(), after, limit };
        let page = store.full_page(query).await?;
        Ok((page.heads.into_iter().map(Row::of).collect(), page.next))
    };
    let none = format!("no such stream in {}", store_url.shown());
    let more =
        |next: StreamName| format!("there are more: --after {}, or --all", quoted(next.as_str()));
    paged::list(args.paging, out, read, &none, more).await
}

impl Row {
    fn of(head: Head) -> Self {
        let state = match head.state {
            StreamState::Absent => "absent",
            StreamState::Open(_) => "open",
            StreamState::Closed(_) => "closed",
        };
        let last = head.last.as_ref();
        Self {
            state,
            version: head.state.version(),
            events: head.count,
            last_type: last.map(|event| event.event_type.to_string()),
            last_at: last.map(|event| event.recorded_at),
            stream: head.stream,
        }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["stream", "state", "version", "events", "last event", "at"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.stream.to_string(),
            self.state.to_owned(),
            self.version.map_or_else(String::new, |version| version.to_string()),
            self.events.to_string(),
            self.last_type.clone().unwrap_or_default(),
            self.last_at.map_or_else(String::new, |at| at.to_string()),
        ]
    }
}
