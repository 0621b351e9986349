//! A process of a team: opens the store, and lets its callers commit whenever it is told to.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;

use crate::args::MemberArgs;
use crate::child::{be_told, say_ready};
use crate::clock;
use crate::failure::Failure;
use crate::measure::{Side, Slice};
use crate::report::write_line;
use crate::workloads::commits::writers;

/// The result of one slice of a process. All times are in microseconds; absolute ones are from the
/// machine's clock.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) ops: u64,
    pub(super) times: Vec<u64>,
}

/// Runs the process: it reads the URL first, and then repeatedly the number of microseconds to
/// work.
pub(crate) async fn serve(args: &MemberArgs) -> Result<(), Failure> {
    let url = told()?.unwrap_or_default();
    let store = tidelock::open(&url).await?;
    let mut callers = writers(&store, args.first, args.callers, 1)?;
    say_ready()?;
    while let Some(slice) = told()? {
        let slice = slice.parse().map_err(|_| Failure::Answer(format!("{slice:?} is no time")))?;
        let begun = clock::now();
        let done = Done::new(begun, &callers.run_slice(Duration::from_micros(slice)).await?);
        write_line(&serde_json::to_string(&done).expect("numbers are JSON"))?;
    }
    Ok(store.close().await?)
}

fn told() -> Result<Option<String>, Failure> {
    Ok(block_in_place(be_told)?)
}

impl Done {
    fn new(begun: u64, run_slice: &Slice) -> Self {
        let times = run_slice.times.iter().copied().map(micros).collect();
        Self { begun, ended: begun + micros(run_slice.elapsed), ops: run_slice.ops, times }
    }
}

impl Slice {
    /// The slices of several processes as one: from the first start to the last end.
    pub(crate) fn all_of(done: impl IntoIterator<Item = Done>) -> Self {
        let (mut all, mut begun, mut ended) = (Self::default(), u64::MAX, 0);
        for one in done {
            (begun, ended) = (begun.min(one.begun), ended.max(one.ended));
            all.ops += one.ops;
            all.times.extend(one.times.into_iter().map(Duration::from_micros));
        }
        all.elapsed = Duration::from_micros(ended.saturating_sub(begun));
        all
    }
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
