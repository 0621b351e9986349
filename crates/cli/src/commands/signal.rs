//! `tidelock signal`: tells a run something that it waits for, or will.

use tidelock::Tidelock;
use tidelock::runs::SendSignal;

use crate::args::SignalArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

pub(crate) async fn run(args: SignalArgs, place: &Place, out: &mut Output) -> Result<(), Failure> {
    let runs = Tidelock::over(place.open().await?.store).runs();
    let signal = runs.run(&args.run).signal(&args.signal, &args.payload);
    let signal = args.id.into_iter().fold(signal, SendSignal::id);
    signal.await?;
    Ok(out.done("signalled", &format!("run {:?} was sent signal {:?}", args.run, args.signal))?)
}
