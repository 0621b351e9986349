//! `tidelock doctor`: why is this not moving? Prints the findings of [`tidelock::doctor`].

use serde::Serialize;
use tidelock::doctor::{Diagnosis, Doctor, Finding, FindingKind, Severity};

use super::Cx;
use crate::args::DoctorArgs;
use crate::exit_status::ExitStatus;
use crate::failure::Result;
use crate::output::{Output, Style};
use crate::store_url::with_postgres;

/// Findings that are not shown, as JSON.
#[derive(Debug, Serialize)]
struct More {
    kind: FindingKind,
    more: usize,
}

pub(crate) async fn run(args: DoctorArgs, Cx { store_url, out }: Cx<'_>) -> Result<ExitStatus> {
    let opened = store_url.open().await?;
    let bounds = args.bounds();
    let doctor = Doctor::over(opened.store).at(&store_url.shown()).within(bounds);
    let diagnosis = with_postgres(doctor, opened.postgres).examine().await?;
    tell(&diagnosis, out)?;
    Ok(if diagnosis.is_healthy() { ExitStatus::Success } else { ExitStatus::Failure })
}

fn tell(diagnosis: &Diagnosis, out: &mut Output) -> Result<()> {
    for (nth, finding) in diagnosis.findings.iter().enumerate() {
        tell_finding(finding, out)?;
        let is_last = diagnosis.findings.get(nth + 1).is_none_or(|next| next.kind != finding.kind);
        if let Some(more) = diagnosis.more.get(&finding.kind).filter(|_| is_last) {
            tell_more(&More { kind: finding.kind, more: *more }, out)?;
        }
    }
    if out.is_json() {
        return Ok(());
    }
    match diagnosis.errors {
        0 => out.line(Style::Proven, "nothing is wrong")?,
        1 => out.line(Style::Alarm, "1 problem needs attention")?,
        n => out.line(Style::Alarm, &format!("{n} problems need attention"))?,
    }
    Ok(())
}

fn tell_finding(finding: &Finding, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return Ok(out.json(finding)?);
    }
    let look = match finding.severity {
        Severity::Info => Style::Faint,
        Severity::Warning => Style::Plain,
        Severity::Error => Style::Alarm,
    };
    let since = finding.since.map_or_else(String::new, |since| format!(" (since {since})"));
    out.line(look, &format!("{}: {}{since}", finding.subject, finding.what))?;
    if let Some(advice) = &finding.remedy.advice {
        let colon = if finding.remedy.actions.is_empty() { "" } else { ":" };
        out.line(Style::Plain, &format!("  try: {advice}{colon}"))?;
    }
    // Each on its own line, to be copied.
    for action in &finding.remedy.actions {
        out.line(Style::Plain, &format!("    {}", finding.remedy.command(action)))?;
    }
    Ok(())
}

fn tell_more(more: &More, out: &mut Output) -> Result<()> {
    match out.is_json() {
        true => out.json(more)?,
        false => out.line(Style::Faint, &format!("  and {} more like these", more.more))?,
    }
    Ok(())
}
