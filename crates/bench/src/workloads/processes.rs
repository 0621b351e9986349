//! Commits from several processes at once, and from as many callers in one.
//!
//! Both are processes of their own, and write to the same store in turns, each caller to a stream
//! of its own. The bare clients are as many as all callers.

mod member;
mod team;

use super::{Bench, Case};
use crate::bare;
use crate::failure::Failure;
use crate::measure::{self, Comparison, Measured};
use crate::site::Fixture;
use team::Team;

pub(crate) use member::serve;

const PROCESSES: usize = 4;

pub(super) async fn measure(bench: &Bench<'_>, case: &Case) -> Result<Measured, Failure> {
    let site = Fixture::filled(bench.target, async |_| Ok(())).await?;
    let url = bench.target.url();
    let many = Team::start(&url, PROCESSES, case.callers / PROCESSES, 0)?;
    let one = Team::start(&url, 1, case.callers, case.callers)?;
    let bare = bare::commits(&site, case.bare, 1).await?;
    let contest = Comparison::of(many).compared_with(one).against(bare);
    let measured = measure::measure(contest, bench.time, bench.progress).await?;
    site.clear().await?;
    Ok(measured)
}
