//! Periods, as requests express them.

use std::time::Duration;

use serde::Deserialize;
use tidelock::claims::{Period, TimeZone};
use tidelock::problem::Problem;
use utoipa::ToSchema;

use super::durations::Millis;

/// A shorter period would be over before the response arrives.
const LEAST: Duration = Duration::from_secs(1);

/// A calendar period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Period)]
pub(crate) enum Per {
    /// One period without end.
    Ever,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// The requested period: a calendar period, or a duration from first use.
pub(super) fn period(per: Option<Per>, every_ms: Option<Millis>) -> Result<Period, Problem> {
    match (per, every_ms) {
        (None | Some(Per::Ever), None) => Ok(Period::Ever),
        (Some(Per::Hour), None) => Ok(Period::Hour),
        (Some(Per::Day), None) => Ok(Period::Day),
        (Some(Per::Week), None) => Ok(Period::Week),
        (Some(Per::Month), None) => Ok(Period::Month),
        (Some(Per::Year), None) => Ok(Period::Year),
        (None, Some(every)) if every.span() >= LEAST => Ok(Period::Every(every.span())),
        (None, Some(every)) => Err(Problem::bad_request(
            "period-invalid",
            format!(
                "every_ms {} is too short: use {} or more",
                every.span().as_millis(),
                LEAST.as_millis()
            ),
        )),
        (Some(_), Some(_)) => Err(Problem::bad_request(
            "period-invalid",
            "per and every_ms exclude each other: send one of them",
        )),
    }
}

/// The time zone of days and hours.
pub(super) fn zone(name: Option<&str>) -> Result<TimeZone, Problem> {
    let Some(name) = name else { return Ok(TimeZone::UTC) };
    TimeZone::get(name).map_err(|_| {
        Problem::bad_request(
            "zone-invalid",
            format!("there is no time zone {name:?}: send a name like Europe/Berlin"),
        )
    })
}
