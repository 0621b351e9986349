//! Processes: did every worker end when it was told to, or because it was killed?

use super::Inquiry;
use crate::evidence::End;
use crate::finding::{Finding, Kind};

pub(super) fn ask(inquiry: &Inquiry<'_>) -> Vec<Finding> {
    let failed = |(who, end): &(String, End)| match end {
        End::Failed(why) => Some(Finding::new(Kind::WorkerFailed, format!("{who}: {why}"))),
        End::Told | End::Killed => None,
    };
    inquiry.evidence.ends.iter().filter_map(failed).collect()
}
