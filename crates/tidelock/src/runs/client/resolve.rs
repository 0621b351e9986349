//! What an operator says became of a step of which nobody knows whether it was done.

use tidelock_store::RawJson;

use super::look::look;
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
    let (there, name) = (look(tidelock, run).await?, StepName::new(step)?);
    let asked = PendingWait::Verdict { step: name.clone() };
    let awaited = status::awaited(&**tidelock.store(), &there).await?;
    let payload = RawJson::new(&Resolution { step: name, verdict })?;
    let letter =
        SignalRequest::reserved(there.run.clone(), keys::RESOLVE, payload, "waits for no verdict");
    let letter = letter.once(operation);
    if there.summary.state.is_ended() || awaited.contains(&asked) {
        return letter.send(tidelock).await;
    }
    match operation.is_some() && letter.is_there(tidelock, &there).await? {
        true => Ok(()),
        false => Err(RunError::NotAmbiguous { run: there.run, step: step.to_owned() }),
    }
}
