//! The routing progress of a reaction, as a row.

use serde::Serialize;
use tidelock::Timestamp;
use tidelock::reactions::RouteState;
use tidelock::store::Position;

use crate::output::{TableRow, cut};

/// The length at which an error is truncated, unless shown in full.
const ERROR: usize = 80;

#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    route: RouteState,
    /// The router's lag; `None` without a router.
    lag: Option<u64>,
    #[serde(skip)]
    full: bool,
}

impl Row {
    pub(super) fn new(route: RouteState, end: Position, now: Timestamp, full: bool) -> Self {
        Self { lag: route.lag(end, now), route, full }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["reaction", "routed to", "lag", "started after", "state", "by", "until", "error"];

    fn cells(&self) -> Vec<String> {
        let route = &self.route;
        let holder = route.holder.as_ref();
        let state = match (route.blocked, self.lag) {
            (true, _) => "blocked",
            (false, Some(_)) => "routing",
            (false, None) => "not routed",
        };
        let error = route.error.as_deref().unwrap_or_default();
        vec![
            route.reaction.clone(),
            route.position.to_string(),
            self.lag.map_or_else(String::new, |lag| lag.to_string()),
            route.start.to_string(),
            state.to_owned(),
            holder.map_or_else(String::new, |holder| holder.worker.to_string()),
            holder.map_or_else(String::new, |holder| holder.deadline.to_string()),
            if self.full { error.to_owned() } else { cut(error, ERROR).into_owned() },
        ]
    }
}
