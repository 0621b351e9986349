//! `tidelock reroute`: routes a reaction's events again, from the beginning or from now.

use tidelock::reactions::{Reactions, Rerouted, StartFrom};

use super::Cx;
use super::confirm::confirm;
use crate::args::{Origin, RerouteArgs};
use crate::failure::{Failure, Result};
use crate::store_url::StoreUrl;

pub(crate) async fn run(args: RerouteArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let reactions = Reactions::new(store_url.open().await?.store);
    if !reactions.routes().await?.iter().any(|route| route.reaction == args.reaction) {
        return Err(unregistered(&args, store_url));
    }
    let (start, what) = match args.from {
        Origin::Beginning => {
            (StartFrom::Beginning, "from the beginning; computed targets handle their events again")
        }
        Origin::Now => (StartFrom::Now, "from now; events that were not routed yet are skipped"),
    };
    if args.dry_run {
        let what =
            format!("events of reaction {:?} are routed {what}; nothing was done", args.reaction);
        return Ok(out.note(&format!("dry run: {what}"))?);
    }
    confirm(&format!("Events of reaction {:?} are routed {what}.", args.reaction), args.yes)?;
    match reactions.reroute(&args.reaction, start).await? {
        Rerouted::Done => {
            Ok(out.done("rerouted", &format!("reaction {:?} is routed {what}", args.reaction))?)
        }
        Rerouted::Unregistered => Err(unregistered(&args, store_url)),
        Rerouted::Contended => Err(Failure::refused(
            format!("reaction {:?}: its events were being routed at the same time", args.reaction),
            "the same command again",
        )),
    }
}

fn unregistered(args: &RerouteArgs, store_url: &StoreUrl) -> Failure {
    Failure::refused(
        format!("reaction {:?} was never registered with {}", args.reaction, store_url.shown()),
        "tidelock reactions --routes, to list the registered ones",
    )
}
