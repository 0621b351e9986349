//! What an operator says became of a step of which nobody knows whether it was done.

use tidelock_store::Json;

use super::look::look;
use super::signal::Letter;
use super::standing;
use crate::handle::Tidelock;
use crate::runs::history::Resolution;
use crate::runs::names::StepName;
use crate::runs::{Awaited, RunError, RunId, Verdict, keys};

pub(super) async fn resolve(
    tidelock: &Tidelock,
    run: &RunId,
    step: &str,
    verdict: Verdict,
    operation: Option<&str>,
) -> Result<(), RunError> {
    let (there, name) = (look(tidelock, run).await?, StepName::new(step)?);
    let asked = Awaited::Verdict { step: name.clone() };
    let awaited = standing::awaited(&**tidelock.store(), &there).await?;
    let payload = Json::new(&Resolution { step: name, verdict })?;
    let letter =
        Letter::reserved(there.run.clone(), keys::RESOLVE, payload, "waits for no verdict");
    let letter = letter.once(operation);
    if there.summary.state.is_ended() || awaited.contains(&asked) {
        return letter.send(tidelock).await;
    }
    match operation.is_some() && letter.is_there(tidelock, &there).await? {
        true => Ok(()),
        false => Err(RunError::NotAmbiguous { run: there.run, step: step.to_owned() }),
    }
}
