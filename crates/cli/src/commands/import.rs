//! `tidelock import`: reads an export into another store.

use super::Cx;
use crate::args::ImportArgs;
use crate::failure::Result;
use crate::transfer::{Import, Imported, Source, Totals};

pub(crate) async fn run(args: ImportArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let source = Source::named(&args.file)?;
    let import = Import::check(&source, args.reactions)?;
    if args.dry_run {
        let Totals { events, records, items } = import.totals();
        let what = format!("{events} events, {records} records and {items} work items");
        return Ok(
            out.note(&format!("dry run: {what} would be imported into {}", store_url.shown()))?
        );
    }
    let store = store_url.make().await?.store;
    let imported = import.into(&store).await;
    store.close().await?;
    let (verb, totals) = match imported? {
        Imported::Done(totals) => ("imported", totals),
        Imported::Already(totals) => ("already imported:", totals),
    };
    if out.is_json() {
        return Ok(out.json(&totals)?);
    }
    let Totals { events, records, items } = totals;
    Ok(out.note(&format!(
        "{verb} {events} events, {records} records and {items} work items: {}",
        store_url.shown()
    ))?)
}
