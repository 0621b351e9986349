//! `tidelock reroute`: a reaction's events are routed anew, from the beginning or from now.

use tidelock::reactions::{Reactions, Start};

use super::confirm::confirm;
use crate::args::{Origin, RerouteArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::place::Place;

pub(crate) async fn run(args: RerouteArgs, place: &Place, out: &mut Output) -> Result<(), Failure> {
    let reactions = Reactions::new(place.open().await?.store);
    if !reactions.routes().await?.iter().any(|route| route.reaction == args.reaction) {
        return Err(Failure::refused(
            format!("reaction {:?} was never registered with {}", args.reaction, place.shown()),
            "tidelock reactions --routes, to see which are",
        ));
    }
    let (start, what) = match args.from {
        Origin::Beginning => {
            (Start::Beginning, "from the beginning; computed targets handle their events again")
        }
        Origin::Now => (Start::Now, "from now; what was not routed yet never will be"),
    };
    if args.dry_run {
        let what = format!("events of reaction {:?} are routed {what}; nothing was done", args.reaction);
        return Ok(out.note(&format!("dry run: {what}"))?);
    }
    confirm(&format!("Events of reaction {:?} are routed {what}.", args.reaction), args.yes)?;
    reactions.reroute(&args.reaction, start).await?;
    Ok(out.done("rerouted", &format!("reaction {:?} is routed {what}", args.reaction))?)
}
