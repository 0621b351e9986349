//! Speed targets, and whether they are met.
//!
//! A missed target is reported and fails nothing: one machine on one day proves little.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::measure::Measured;
use crate::report::round;

/// The targets of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpeedTarget {
    /// Minimum ratio of operations per second to those of the baseline.
    pub(crate) speed: Option<f64>,
    /// A second measurement to compare with, and its target.
    pub(crate) reference: Option<Reference>,
    /// Maximum ratio of the p99 to that of the baseline.
    pub(crate) p99: Option<f64>,
}

/// A comparison besides the baseline.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reference {
    /// Leasing with few idle items, and the maximum ratio of the times, if there is a target.
    FewIdle(Option<f64>),
    /// The callers of all processes in one, and the minimum ratio of the speeds.
    OneProcess(f64),
}

/// A comparison and its target.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    what: &'static str,
    #[serde(serialize_with = "rounded")]
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
}

impl SpeedTarget {
    pub(crate) const NOTHING: Self = Self { speed: None, reference: None, p99: None };

    /// Compares these figures with the targets.
    pub(crate) fn checks(&self, measured: &Measured) -> Vec<Check> {
        [self.check_speed(measured), self.check_reference(measured), self.check_p99(measured)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn check_speed(&self, measured: &Measured) -> Option<Check> {
        let value = measured.ours.ops_per_s / measured.baseline_ops_per_s()?;
        Some(Check {
            what: "the speed of the baseline",
            value,
            at_least: Some(self.speed?),
            at_most: None,
        })
    }

    fn check_reference(&self, measured: &Measured) -> Option<Check> {
        let value = measured.ours.ops_per_s / measured.reference.as_ref()?.ops_per_s;
        Some(match self.reference? {
            Reference::FewIdle(at_most) => Check {
                what: "the time with 1,000 idle",
                value: 1.0 / value,
                at_least: None,
                at_most,
            },
            Reference::OneProcess(least) => Check {
                what: "the speed of one process",
                value,
                at_least: Some(least),
                at_most: None,
            },
        })
    }

    fn check_p99(&self, measured: &Measured) -> Option<Check> {
        let value = measured.ours.p99.as_secs_f64() / measured.baseline_p99()?.as_secs_f64();
        Some(Check {
            what: "the p99 of the baseline",
            value,
            at_least: None,
            at_most: Some(self.p99?),
        })
    }
}

impl Check {
    fn is_met(&self) -> bool {
        self.at_least.is_none_or(|least| self.value >= least)
            && self.at_most.is_none_or(|most| self.value <= most)
    }
}

fn rounded<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(round(*value, 4))
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}x {}", self.value, self.what)?;
        match (self.at_least, self.at_most) {
            (Some(least), _) => write!(f, " (target: {least:.1} or more")?,
            (_, Some(most)) => write!(f, " (target: {most:.1} or less")?,
            _ => return Ok(()),
        }
        f.write_str(if self.is_met() { ")" } else { ", missed)" })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::Figures;

    fn figures(ops_per_s: f64, millis: u64) -> Figures {
        Figures { ops_per_s, p50: Duration::ZERO, p99: Duration::from_millis(millis) }
    }

    fn shown(target: SpeedTarget) -> Vec<String> {
        let (ours, reference) = (figures(60.0, 8), Some(figures(90.0, 1)));
        let baseline = vec![("driver", figures(40.0, 4)), ("pgbench", figures(50.0, 5))];
        let measured = Measured { ours, reference, baseline, remarks: Vec::new() };
        target.checks(&measured).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_target_is_compared_with_the_best_baseline() {
        let target = SpeedTarget { speed: Some(1.3), p99: Some(3.0), ..SpeedTarget::NOTHING };
        let expected = [
            "1.20x the speed of the baseline (target: 1.3 or more, missed)",
            "2.00x the p99 of the baseline (target: 3.0 or less)",
        ];
        assert_eq!(shown(target), expected);
        assert!(shown(SpeedTarget::NOTHING).is_empty());
    }

    #[test]
    fn a_reference_compares_time_or_speed() {
        let reference =
            |reference| shown(SpeedTarget { reference: Some(reference), ..SpeedTarget::NOTHING });
        assert_eq!(reference(Reference::FewIdle(None)), ["1.50x the time with 1,000 idle"]);
        let expected = ["0.67x the speed of one process (target: 1.0 or more, missed)"];
        assert_eq!(reference(Reference::OneProcess(1.0)), expected);
    }
}
