//! The doctor's findings, each with the requests that mend it.

mod request;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::doctor::{Doctor, Finding, RemedyAction, Thresholds};
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::InQuery;
use crate::problem::Problem;
use request::{Request, request};

/// What the doctor found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoctorReport {
    /// Nothing is wrong. Notices, which may pass by themselves, do not count.
    healthy: bool,
    /// How many things are wrong, shown or not.
    errors: usize,
    /// The first of each kind.
    findings: Vec<FindingDto>,
    /// How many more of a kind there are.
    #[schema(value_type = Object)]
    more: serde_json::Value,
}

/// One thing that is worth saying.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
struct FindingDto {
    /// What kind of thing is the matter.
    #[schema(value_type = String, example = "blocked")]
    kind: tidelock::doctor::FindingKind,
    /// `info`, `warning` or `error`.
    #[schema(value_type = String, example = "error")]
    severity: tidelock::doctor::Severity,
    /// What it is the matter with.
    subject: String,
    /// Since when, if that is known.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// What is the matter, as a sentence about the thing.
    what: String,
    /// What mends it.
    remedy: RemedyDto,
}

/// What mends it.
#[derive(Debug, Serialize, ToSchema)]
struct RemedyDto {
    /// What people have to do, or to know, before they act.
    advice: Option<String>,
    /// What can then be done; where there are several, one of them.
    actions: Vec<Offered>,
}

/// Something that can be done.
#[derive(Debug, Serialize, ToSchema)]
struct Offered {
    /// The command that does it.
    command: String,
    /// The request that does it, if there is one.
    request: Option<Request>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    action: RemedyAction,
}

/// How far to look.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Far {
    /// How many work items to look at, at most.
    #[param(minimum = 1, maximum = 1000000)]
    scan: Option<usize>,
    /// How many open runs, the newest, to look at one by one.
    #[param(minimum = 1, maximum = 10000)]
    runs: Option<usize>,
}

/// Work items that may be looked at in one request.
const SCAN: usize = 1_000_000;
/// Open runs that may be looked at in one request: the history of each is read.
const RUNS: usize = 10_000;

/// Why something is not moving, and what mends it.
#[utoipa::path(get, path = "/v1/doctor", tag = "server", params(Far), responses((status = 200, body = DoctorReport)))]
pub(crate) async fn examine(
    State(served): State<AppState>,
    InQuery(far): InQuery<Far>,
) -> Result<Json<DoctorReport>, Problem> {
    let own = served.setup.doctor.clone();
    let doctor = own.unwrap_or_else(|| Doctor::over(served.tidelock().store().clone()));
    let bounds = far.bounds(doctor.bounds())?;
    // One after the other: an exam reads much, and more of them at once would not be done sooner.
    let _turn = served.exam.lock().await;
    let diagnosis = doctor.within(bounds).examine().await?;
    let more = serde_json::to_value(&diagnosis.more).unwrap_or_default();
    Ok(Json(DoctorReport {
        healthy: diagnosis.is_healthy(),
        errors: diagnosis.errors,
        findings: diagnosis.findings.into_iter().map(FindingDto::from).collect(),
        more,
    }))
}

impl Far {
    /// The same bounds, but for what is asked for.
    fn bounds(&self, bounds: Thresholds) -> Result<Thresholds, Problem> {
        let scan = self.scan.map_or(Ok(bounds.scan), |scan| checked("scan", scan, SCAN))?;
        let runs = self.runs.map_or(Ok(bounds.runs), |runs| checked("runs", runs, RUNS))?;
        Ok(Thresholds { scan, runs, ..bounds })
    }
}

fn checked(what: &str, asked: usize, most: usize) -> Result<usize, Problem> {
    match asked {
        0 => Err(out_of_bounds(what, asked, most)),
        _ if asked > most => Err(out_of_bounds(what, asked, most)),
        _ => Ok(asked),
    }
}

fn out_of_bounds(what: &str, asked: usize, most: usize) -> Problem {
    Problem::bad_request("scan-invalid", format!("{what} {asked} is not between 1 and {most}"))
}

impl From<Finding> for FindingDto {
    fn from(finding: Finding) -> Self {
        let cure = &finding.remedy;
        let offered = |action: &RemedyAction| Offered {
            command: cure.command(action),
            request: request(action),
            action: action.clone(),
        };
        let actions = cure.actions.iter().map(offered).collect();
        Self {
            kind: finding.kind,
            severity: finding.severity,
            subject: finding.subject.to_string(),
            since: finding.since,
            what: finding.what,
            remedy: RemedyDto { advice: finding.remedy.advice, actions },
        }
    }
}
