//! `tidelock signal`: tells a run something that it waits for, or will.

use tidelock::Tidelock;
use tidelock::runs::{RunError, SendSignal};

use crate::args::SignalArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

pub(crate) async fn run(args: SignalArgs, place: &Place, out: &mut Output) -> Result<(), Failure> {
    let runs = Tidelock::over(place.open().await?.store).runs();
    let run = runs.run(&args.run);
    let signal = run.signal(&args.signal, &args.payload);
    let signal = args.id.into_iter().fold(signal, SendSignal::id);
    signal.await?;
    out.done("signalled", &format!("run {:?} was sent signal {:?}", args.run, args.signal))?;
    // A signal may come before its run, and a name may be mistyped: only the operator knows which it was.
    if matches!(run.get().await, Err(RunError::NoRun { .. })) {
        out.note("there is no such run yet: it has the signal when it is started; tidelock runs lists those that there are")?;
    }
    Ok(())
}
