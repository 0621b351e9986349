//! Commits from several processes at once, and from as many callers in one.
//!
//! Both are separate processes, and write to the same store alternately, each caller to its own
//! stream. The baseline has as many clients as there are callers.

mod member;
mod team;

use super::{Bench, Case};
use crate::baseline;
use crate::failure::Failure;
use crate::fixture::Fixture;
use crate::measure::{self, Comparison, Measured};

pub(crate) use member::{Done, serve};
pub(crate) use team::Team;

const PROCESSES: usize = 4;

pub(super) async fn measure(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let fixture = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let url = bench.target.url();
    let many = Team::start(&url, PROCESSES, case.callers / PROCESSES, 0)?;
    let one = Team::start(&url, 1, case.callers, case.callers)?;
    let baseline = baseline::commits(&fixture, case.baseline, 1).await?;
    let comparison = Comparison::of(many).compared_with(one).against(baseline);
    let measured = measure::measure(comparison, bench.time, bench.progress).await?;
    fixture.clear().await?;
    Ok(measured)
}
