//! `tidelock signal`: tells a run something that it waits for, or will.

use tidelock::Tidelock;
use tidelock::runs::{RunError, SendSignal};

use crate::args::SignalArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;

pub(crate) async fn run(
    args: SignalArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let runs = Tidelock::over(place.open().await?.store).runs();
    let run = runs.run(&args.run);
    let signal = run.signal(&args.signal, &args.payload);
    let signal = if args.early { signal } else { signal.to_started() };
    let signal = args.id.into_iter().fold(signal, SendSignal::id);
    signal.await.map_err(not_sent)?;
    out.done("signalled", &format!("run {:?} was sent signal {:?}", args.run, args.signal))?;
    if args.early && matches!(run.get().await, Err(RunError::NoRun { .. })) {
        out.note("there is no such run yet: it has the signal when it is started; tidelock runs lists those that there are")?;
    }
    Ok(())
}

/// A signal may come before its run, and a name may be mistyped: only the operator knows which it
/// is.
fn not_sent(error: RunError) -> Failure {
    match error {
        RunError::NoRun { .. } => {
            let hint = "tidelock runs, to see which there are; --early, if it is to wait for a run that is not started yet";
            Failure::refused(error.to_string(), hint)
        }
        error => error.into(),
    }
}
