//! The doctor's findings, each with the requests that fix it.

mod request;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::doctor::{Finding, RemedyAction, Thresholds};
use tidelock::problem::Problem;
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::InQuery;
use request::{RemedyRequestDto, request};

/// The doctor's report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoctorReport {
    /// Whether there are no errors. Warnings, which may resolve by themselves, do not count.
    healthy: bool,
    /// The number of errors, shown or not.
    errors: usize,
    /// The first findings of each kind.
    findings: Vec<FindingDto>,
    /// How many more findings of a kind there are.
    #[schema(value_type = Object)]
    more: serde_json::Value,
}

/// A finding.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
struct FindingDto {
    /// The kind of finding.
    #[schema(value_type = String, example = "blocked")]
    kind: tidelock::doctor::FindingKind,
    /// `info`, `warning` or `error`.
    #[schema(value_type = String, example = "error")]
    severity: tidelock::doctor::Severity,
    /// What the finding is about.
    subject: String,
    /// When it began, if known.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Timestamp>,
    /// What is wrong, as a sentence about the subject.
    what: String,
    /// How to fix it.
    remedy: RemedyDto,
}

/// How to fix a finding.
#[derive(Debug, Serialize, ToSchema)]
struct RemedyDto {
    /// What to do, or to know, before acting.
    advice: Option<String>,
    /// The actions; where there are several, choose one.
    actions: Vec<RemedyActionDto>,
}

/// An action.
#[derive(Debug, Serialize, ToSchema)]
struct RemedyActionDto {
    /// The command that performs it.
    command: String,
    /// The request that performs it, if there is one.
    request: Option<RemedyRequestDto>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    action: RemedyAction,
}

/// How much to examine.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DoctorQuery {
    /// The maximum number of work items to examine.
    #[param(minimum = 1, maximum = 1000000)]
    scan: Option<usize>,
    /// The maximum number of open runs to examine, newest first.
    #[param(minimum = 1, maximum = 10000)]
    runs: Option<usize>,
}

/// The most work items that one request can examine.
const SCAN: usize = 1_000_000;
/// The most open runs that one request can examine: the history of each is read.
const RUNS: usize = 10_000;

/// Diagnose why something is not moving, and what fixes it.
#[utoipa::path(get, path = "/v1/doctor", tag = "server", params(DoctorQuery), responses((status = 200, body = DoctorReport)))]
pub(crate) async fn examine(
    State(served): State<AppState>,
    InQuery(far): InQuery<DoctorQuery>,
) -> Result<Json<DoctorReport>, Problem> {
    let own = served.setup.doctor.clone();
    let doctor = own.unwrap_or_else(|| served.tidelock().doctor());
    let bounds = far.bounds(doctor.bounds())?;
    // One at a time: an examination reads much, and concurrent ones would not finish sooner.
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

impl DoctorQuery {
    /// The thresholds, with the limits that were requested.
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
        let offered = |action: &RemedyAction| RemedyActionDto {
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
