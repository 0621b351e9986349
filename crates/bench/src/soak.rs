//! Soak test: short-lived work of every kind, until all of it is finished and past its retention,
//! and what is left of it.
//!
//! Ten slices of runs, keyed requests, queue items, operations and scopes. After each slice the
//! store's clock is set nine days forward, so that the store deletes what the slice left while the
//! next one runs. Reported are the operations per second of each slice, and the rows and bytes left
//! at the end, beside those of an empty store.

mod aging_store;
mod load;

use std::time::{Duration, Instant};

use serde::Serialize;
use tidelock::Tidelock;
use tokio::task::block_in_place;

use crate::args::SoakArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::target::Target;
use aging_store::{AgingStore, Size};
use load::Load;

const SLICES: usize = 10;

/// Longer than everything here is kept, ids of commits (seven days) included.
const PAST_RETENTION: Duration = Duration::from_secs(9 * 24 * 3600);

/// Rows that a store may keep of finished work: one for each workflow, and registrations.
const ROWS_LEFT: u64 = 20;
/// Bytes that it may keep.
const BYTES_LEFT: u64 = 1 << 20;
/// Minimum speed of the last slice relative to the first, for slices long enough to tell.
const LEAST_RATIO: f64 = 0.9;

/// The result of a soak test.
#[derive(Debug, Serialize)]
struct Soaked {
    store: String,
    of_each_kind: usize,
    ops_per_s: Vec<f64>,
    last_over_first: f64,
    empty: Size,
    fullest: Size,
    left: Size,
}

pub(crate) async fn measure_all(args: &SoakArgs) -> Result<(), Failure> {
    let mut progress = Progress::new(args.urls.len(), SLICES as u64);
    for url in &args.urls {
        let target = block_in_place(|| Target::parse(url))?;
        progress.begin(&format!("soak {target}"));
        let soaked = soak(args, &target, &progress).await?;
        progress.print(|| soaked.print(args.json))?;
        soaked.check(args)?;
    }
    Ok(())
}

async fn soak(args: &SoakArgs, target: &Target, progress: &Progress) -> Result<Soaked, Failure> {
    let aging_store = AgingStore::open(target).await?;
    let tidelock = Tidelock::over(aging_store.store());
    let load = Load::start(&tidelock, args.count, args.callers).await?;
    let empty = aging_store.size().await?;
    let (mut ops_per_s, mut fullest) = (Vec::new(), empty);
    for slice in 0..SLICES {
        let begun = Instant::now();
        let operations = load.slice(slice, SLICES).await?;
        #[allow(clippy::cast_precision_loss)] // a few million
        ops_per_s.push(operations as f64 / begun.elapsed().as_secs_f64());
        fullest = fullest.max(aging_store.rows().await?);
        aging_store.pass(PAST_RETENTION).await?;
        progress.step(&format!("slice {}", slice + 1));
    }
    // A worker removes runs, and what that leaves is past its retention only later.
    load.until_runs_are_removed(&aging_store).await?;
    load.stop().await?;
    for _ in 0..2 {
        aging_store.pass(PAST_RETENTION).await?;
        aging_store.sweep().await?;
    }
    let left = aging_store.size().await?;
    aging_store.remove().await?;
    let last_over_first = ops_per_s[SLICES - 1] / ops_per_s[0];
    let store = target.to_string();
    Ok(Soaked { store, of_each_kind: args.count, ops_per_s, last_over_first, empty, fullest, left })
}

impl Soaked {
    fn print(&self, json: bool) -> std::io::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self).map_err(std::io::Error::other)?);
            return Ok(());
        }
        let speeds: Vec<_> = self.ops_per_s.iter().map(|speed| format!("{speed:.0}")).collect();
        println!("{}: {} of each of {} kinds", self.store, self.of_each_kind, load::KINDS);
        println!("  operations/s by slice  {}", speeds.join("  "));
        println!("  last slice / first     {:.2} (target {LEAST_RATIO})", self.last_over_first);
        println!("  empty store            {}", self.empty);
        println!("  fullest                {} rows", self.fullest.rows);
        println!("  left at the end        {}", self.left);
        Ok(())
    }

    /// Rows and bytes are always checked; speed only where a slice is long enough to tell.
    fn check(&self, args: &SoakArgs) -> Result<(), Failure> {
        if self.left.rows > self.empty.rows + ROWS_LEFT
            || self.left.bytes > self.empty.bytes + BYTES_LEFT
        {
            return Err(Failure::Answer(format!(
                "{} is left of everything that is past its retention; an empty store has {}",
                self.left, self.empty
            )));
        }
        if args.check_speed && self.last_over_first < LEAST_RATIO {
            return Err(Failure::Answer(format!(
                "the last slice ran at {:.2} of the first one's speed; the target is {LEAST_RATIO}",
                self.last_over_first
            )));
        }
        Ok(())
    }
}
