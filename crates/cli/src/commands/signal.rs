//! `tidelock signal`: sends a signal to a run.

use tidelock::Tidelock;
use tidelock::runs::{RunError, SendSignal};

use super::Cx;
use crate::args::SignalArgs;
use crate::failure::{Failure, Result};

pub(crate) async fn run(args: SignalArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let runs = Tidelock::over(store_url.open().await?.store).runs();
    let run = runs.run(&args.run);
    let signal = run.signal(&args.signal, &args.payload);
    let signal = if args.early { signal } else { signal.to_started() };
    let signal = args.id.into_iter().fold(signal, SendSignal::id);
    signal.await.map_err(not_sent)?;
    out.done("signalled", &format!("run {:?} was sent signal {:?}", args.run, args.signal))?;
    if args.early && matches!(run.get().await, Err(RunError::NoRun { .. })) {
        out.note("there is no such run yet: it receives the signal when it is started; tidelock runs lists the existing ones")?;
    }
    Ok(())
}

/// A signal can precede its run, and a name can be mistyped: only the operator knows which it is.
fn not_sent(error: RunError) -> Failure {
    match error {
        RunError::NoRun { .. } => {
            let hint =
                "tidelock runs, to list the existing ones; --early, if the run is not started yet";
            Failure::refused(error.to_string(), hint)
        }
        error => error.into(),
    }
}
