//! `tidelock reset`: starts items over.

use tidelock::reactions::ResetEffects;
use tidelock::store::Adjusted;

use super::Cx;
use super::bulk_action;
use super::confirm::confirm;
use crate::args::ResetArgs;
use crate::failure::Result;
use crate::selection::Selection;

pub(crate) async fn run(args: ResetArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let selection = Selection::new(&store, args.which);
    let selection = if args.blocked { selection.blocked() } else { selection };
    if args.dry_run {
        return bulk_action::would("reset", &selection, out).await;
    }
    let count = selection.look(0).await?.count;
    if count == 0 {
        return bulk_action::was("reset", &selection, Adjusted::default(), out).await;
    }
    let (noun, effects) = (selection.noun(), effects(args.repeat_effects));
    let again = if effects == ResetEffects::Repeat {
        ", and repeats its effects outside the store"
    } else {
        ""
    };
    confirm(
        &format!(
            "{count} {noun}s of {} start over: each does all of its work again{again}.",
            store_url.shown()
        ),
        args.yes,
    )?;
    let adjusted = selection.reset(effects, args.partial).await?;
    bulk_action::was("reset", &selection, adjusted, out).await
}

fn effects(repeat: bool) -> ResetEffects {
    if repeat { ResetEffects::Repeat } else { ResetEffects::Keep }
}
