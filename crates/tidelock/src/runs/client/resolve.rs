//! An operator's verdict on a step whose outcome is unknown.

use tidelock_store::RawJson;

use super::info::load_summary;
use super::signal::SignalRequest;
use super::status;
use crate::handle::Tidelock;
use crate::runs::history::Resolution;
use crate::runs::names::StepName;
use crate::runs::{PendingWait, RunError, RunId, Verdict, keys};

pub(super) async fn resolve(
    tidelock: &Tidelock,
    run: &RunId,
    step: &str,
    verdict: Verdict,
    operation: Option<&str>,
) -> Result<(), RunError> {
    let (there, name) = (load_summary(tidelock, run).await?, StepName::new(step)?);
    let asked = PendingWait::Verdict { step: name.clone() };
    let pending = status::pending_waits(&**tidelock.store(), &there).await?;
    let payload = RawJson::new(&Resolution { step: name, verdict })?;
    let request =
        SignalRequest::reserved(there.run.clone(), keys::RESOLVE, payload, "waits for no verdict");
    let request = request.once(operation);
    if there.summary.state.is_ended() || pending.contains(&asked) {
        return request.send(tidelock).await;
    }
    match operation.is_some() && request.is_there(tidelock, &there).await? {
        true => Ok(()),
        false => Err(RunError::NotAwaitingVerdict { run: there.run, step: step.to_owned() }),
    }
}
