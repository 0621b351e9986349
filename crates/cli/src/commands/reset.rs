//! `tidelock reset`: items begin anew.

use tidelock::Adjusted;
use tidelock::reactions::ResetEffects;

use super::adjusted;
use super::confirm::confirm;
use crate::args::ResetArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::place::StoreUrl;
use crate::selection::Selection;

pub(crate) async fn run(
    args: ResetArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let selection = Selection::new(&store, args.which);
    let selection = if args.blocked { selection.blocked() } else { selection };
    if args.dry_run {
        return adjusted::would("reset", &selection, out).await;
    }
    let count = selection.look(0).await?.count;
    if count == 0 {
        return adjusted::was("reset", &selection, Adjusted::default(), out).await;
    }
    let (noun, effects) = (selection.noun(), effects(args.repeat_effects));
    let again = if effects == ResetEffects::Repeat {
        ", and repeats what it did outside the store"
    } else {
        ""
    };
    confirm(
        &format!(
            "{count} {noun}s of {} begin anew: each does all of its work again{again}.",
            place.shown()
        ),
        args.yes,
    )?;
    let adjusted = selection.reset(effects, args.partial).await?;
    adjusted::was("reset", &selection, adjusted, out).await
}

fn effects(repeat: bool) -> ResetEffects {
    if repeat { ResetEffects::Repeat } else { ResetEffects::Keep }
}
