//! What is asked of a figure, and whether it holds.
//!
//! Nothing fails because of it: one machine on one day proves little. It is said, and people judge.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::measure::Measured;
use crate::report::round;

/// What is asked of a case, as far as anything is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpeedTarget {
    /// Operations per second, at least so many times those of the bare limit.
    pub(crate) speed: Option<f64>,
    /// The yardstick that it is measured with, if there is one, and how it must compare.
    pub(crate) yardstick: Option<Yardstick>,
    /// The time of one call in a hundred, at most so many times that of the bare limit.
    pub(crate) p99: Option<f64>,
}

/// What a workload is compared with besides its bare limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Yardstick {
    /// Leasing with few idle items, which may at most be so many times quicker, if anything is
    /// asked.
    FewIdle(Option<f64>),
    /// The callers of all processes in one, of whose speed it must have at least so much.
    OneProcess(f64),
}

/// A comparison, and what is asked of it.
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
    pub(crate) const NOTHING: Self = Self { speed: None, yardstick: None, p99: None };

    /// What can be said of these figures.
    pub(crate) fn checks(&self, measured: &Measured) -> Vec<Check> {
        [self.check_speed(measured), self.check_yardstick(measured), self.check_p99(measured)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn check_speed(&self, measured: &Measured) -> Option<Check> {
        let value = measured.ours.ops_per_s / measured.bare_ops_per_s()?;
        Some(Check { what: "the speed of bare", value, at_least: Some(self.speed?), at_most: None })
    }

    fn check_yardstick(&self, measured: &Measured) -> Option<Check> {
        let value = measured.ours.ops_per_s / measured.yardstick.as_ref()?.ops_per_s;
        Some(match self.yardstick? {
            Yardstick::FewIdle(at_most) => Check {
                what: "the time with 1,000 idle",
                value: 1.0 / value,
                at_least: None,
                at_most,
            },
            Yardstick::OneProcess(least) => Check {
                what: "the speed of one process",
                value,
                at_least: Some(least),
                at_most: None,
            },
        })
    }

    fn check_p99(&self, measured: &Measured) -> Option<Check> {
        let value = measured.ours.p99.as_secs_f64() / measured.bare_p99()?.as_secs_f64();
        Some(Check { what: "the p99 of bare", value, at_least: None, at_most: Some(self.p99?) })
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
            (Some(least), _) => write!(f, " (asked: {least:.1} or more")?,
            (_, Some(most)) => write!(f, " (asked: {most:.1} or less")?,
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

    fn said(asked: SpeedTarget) -> Vec<String> {
        let (ours, yardstick) = (figures(60.0, 8), Some(figures(90.0, 1)));
        let bare = vec![("driver", figures(40.0, 4)), ("pgbench", figures(50.0, 5))];
        let measured = Measured { ours, yardstick, bare, remarks: Vec::new() };
        asked.checks(&measured).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_asked_is_held_against_the_best_that_is_bare() {
        let asked = SpeedTarget { speed: Some(1.3), p99: Some(3.0), ..SpeedTarget::NOTHING };
        let expected = [
            "1.20x the speed of bare (asked: 1.3 or more, missed)",
            "2.00x the p99 of bare (asked: 3.0 or less)",
        ];
        assert_eq!(said(asked), expected);
        assert!(said(SpeedTarget::NOTHING).is_empty());
    }

    #[test]
    fn a_yardstick_is_one_of_time_or_one_of_speed() {
        let yardstick =
            |yardstick| said(SpeedTarget { yardstick: Some(yardstick), ..SpeedTarget::NOTHING });
        assert_eq!(yardstick(Yardstick::FewIdle(None)), ["1.50x the time with 1,000 idle"]);
        let expected = ["0.67x the speed of one process (asked: 1.0 or more, missed)"];
        assert_eq!(yardstick(Yardstick::OneProcess(1.0)), expected);
    }
}
