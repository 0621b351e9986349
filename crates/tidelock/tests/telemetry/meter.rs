//! A recorder that keeps every metric.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::capture::CANARY;

/// The values, by name and labels.
type Values = Mutex<BTreeMap<String, f64>>;

static VALUES: OnceLock<Arc<Values>> = OnceLock::new();

/// Counts everything from now on.
pub(crate) fn count() {
    VALUES.get_or_init(|| {
        let values = Arc::default();
        metrics::set_global_recorder(Meter(Arc::clone(&values))).unwrap();
        values
    });
}

/// The value of a metric with these labels: its count, its level, or its number of samples.
pub(crate) fn metric(name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let name = format!("{name} {}", labels.join(" "));
    VALUES.get().unwrap().lock().unwrap().get(name.trim()).copied().unwrap_or_default()
}

/// No payload is in any name or label.
pub(crate) fn assert_discreet() {
    let values = VALUES.get().unwrap().lock().unwrap();
    assert!(values.keys().all(|name| !name.contains(CANARY)), "{values:?}");
}

struct Meter(Arc<Values>);

/// One metric.
struct Hand {
    values: Arc<Values>,
    name: String,
}

impl Meter {
    fn hand(&self, key: &Key) -> Arc<Hand> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        Arc::new(Hand {
            values: self.0.clone(),
            name: format!("{}{}", key.name(), labels.collect::<String>()),
        })
    }
}

impl Hand {
    fn add(&self, more: f64) {
        *self.values.lock().unwrap().entry(self.name.clone()).or_default() += more;
    }
}

impl CounterFn for Hand {
    fn increment(&self, more: u64) {
        self.add(more as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("counters are never set");
    }
}

impl GaugeFn for Hand {
    fn increment(&self, more: f64) {
        self.add(more);
    }

    fn decrement(&self, less: f64) {
        self.add(-less);
    }

    fn set(&self, _: f64) {
        unreachable!("gauges are never set");
    }
}

impl HistogramFn for Hand {
    fn record(&self, _: f64) {
        self.add(1.0);
    }
}

impl Recorder for Meter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.hand(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.hand(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.hand(key))
    }
}
