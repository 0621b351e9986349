//! What the process counts, in the text that Prometheus reads.
//!
//! The patterns count through the `metrics` facade; whoever runs the process chooses where that
//! goes. [`Metrics::install`] has it kept here, to be asked for under `/metrics`.

use std::fmt;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

/// Bounds of the buckets of what takes time, in seconds.
const BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// What the process counts.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// Something else keeps what the process counts.
#[derive(Debug, thiserror::Error)]
#[error("metrics are kept by something else in this process already: {0}")]
pub struct MetricsTaken(#[from] BuildError);

impl Metrics {
    /// Keeps from now on what this process counts. Once in a process.
    ///
    /// # Errors
    /// If something else keeps it already.
    pub fn install() -> Result<Self, MetricsTaken> {
        Ok(Self { handle: PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()? })
    }

    /// As text.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Sums up what was counted since the last time, which is kept one by one until then.
    pub(crate) fn sum_up(&self) {
        self.handle.run_upkeep();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
