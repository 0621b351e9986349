//! The metrics of this process, in the text format of Prometheus.
//!
//! The patterns record through the `metrics` facade; the application chooses the recorder.
//! [`Metrics::install`] installs one that `/metrics` serves.

use std::fmt;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tidelock::telemetry::{self, MetricInfo};

use crate::requests;
use crate::resources::metrics as endpoint;

/// Bounds of histogram buckets, in seconds.
const BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Bounds of the buckets of what takes longer than a request, in seconds: up to a month.
const LONG_BUCKETS: [f64; 10] =
    [0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0];

/// Histograms of what takes longer than a request.
const LONG: [&str; 2] = [telemetry::RUN_SECONDS, telemetry::SCHEDULE_DELAY];

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
    /// Installs a recorder for this process, and describes every metric to it. Once per process.
    ///
    /// # Errors
    /// If another recorder is already installed.
    pub fn install() -> Result<Self, MetricsTaken> {
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS)?;
        let builder = LONG.into_iter().try_fold(builder, |builder, name| {
            builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &LONG_BUCKETS)
        })?;
        let handle = builder.install_recorder()?;
        telemetry::describe();
        tidelock_tower::telemetry::describe();
        requests::METRICS.iter().for_each(MetricInfo::describe);
        Ok(Self { handle })
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

/// Returns every metric that `/metrics` of a server can show.
pub fn all_metrics() -> Vec<MetricInfo> {
    let recorded = [telemetry::METRICS, tidelock_tower::telemetry::METRICS, requests::METRICS];
    recorded.into_iter().flatten().chain(endpoint::METRICS).copied().collect()
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
