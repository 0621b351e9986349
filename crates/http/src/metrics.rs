//! The metrics of this process, in the text format of Prometheus.
//!
//! The patterns record through the `metrics` facade; the application chooses the recorder.
//! [`Metrics::install`] installs one that `/metrics` serves.

use std::fmt;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

/// Bounds of histogram buckets, in seconds.
const BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The metrics of this process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// Another recorder is already installed.
#[derive(Debug, thiserror::Error)]
#[error("this process already has a metrics recorder: {0}")]
pub struct MetricsTaken(#[from] BuildError);

impl Metrics {
    /// Installs a recorder for this process. Once per process.
    ///
    /// # Errors
    /// If another recorder is already installed.
    pub fn install() -> Result<Self, MetricsTaken> {
        Ok(Self { handle: PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()? })
    }

    /// Renders the metrics as text.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Aggregates histogram samples, which are buffered one by one until then.
    pub(crate) fn sum_up(&self) {
        self.handle.run_upkeep();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
