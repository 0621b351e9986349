//! `tidelock doctor`: why is this not moving?
//!
//! Each kind of finding is a file of its own in `doctor/`. What is looked at is bounded: work items are paged through up to a limit, and of each
//! kind only the first findings are shown, with how many more there are. The doctor changes nothing.

mod exam;
mod finding;

// What is said of the store itself.
mod versions;

// What is wrong with one work item.
mod blocked;
mod expired;
mod expiring;
mod expiry_loop;
mod retrying;
mod unrouted;

// What is wrong with many, or with what is more than an item.
mod ambiguous;
mod held_up;
mod routes;
mod unserved;

use crate::args::DoctorArgs;
use crate::ending::Ending;
use crate::failure::Failure;
use crate::output::{Look, Output};
use crate::place::Place;
use exam::Exam;
use finding::Findings;

pub(crate) async fn run(args: DoctorArgs, place: &Place, out: &mut Output) -> Result<Ending, Failure> {
    let opened = place.open().await?;
    let exam = Exam::begin(&opened.store, &args).await?;
    let mut findings = Findings::new(args.show);
    findings.add(versions::look(place, &opened).await?);
    let routes = routes::look(&exam, &mut findings).await?;
    exam.items(&routes, &mut findings).await?;
    ambiguous::look(&exam, &mut findings).await?;
    if let Some(postgres) = &opened.postgres {
        held_up::look(postgres, &exam, &mut findings).await?;
    }
    tell(&findings, out)?;
    Ok(if findings.sick() == 0 { Ending::Well } else { Ending::Badly })
}

fn tell(findings: &Findings, out: &mut Output) -> Result<(), Failure> {
    findings.tell(out)?;
    if out.is_json() {
        return Ok(());
    }
    match findings.sick() {
        0 => out.line(Look::Proven, "nothing is wrong")?,
        1 => out.line(Look::Alarm, "1 thing is wrong")?,
        n => out.line(Look::Alarm, &format!("{n} things are wrong"))?,
    }
    Ok(())
}
