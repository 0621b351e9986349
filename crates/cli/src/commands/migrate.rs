//! `tidelock migrate`: creates a store, or brings its tables up to date.

use serde::Serialize;

use super::Cx;
use crate::args::MigrateArgs;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::output::{Output, Style};

#[derive(Debug, Serialize)]
struct Schema {
    store: String,
    schema: usize,
    up_to_date: bool,
}

pub(crate) async fn run(args: MigrateArgs, Cx { store_url, out }: Cx<'_>) -> Result<ExitStatus> {
    let opened = match (args.check, args.restored) {
        (true, _) => store_url.open().await,
        (false, true) => store_url.open_restored().await,
        (false, false) => store_url.make().await,
    };
    let up_to_date = match (opened, args.check) {
        (Ok(opened), _) => {
            opened.store.close().await?;
            if args.restored {
                out.note(restored(opened.postgres.is_some()))?;
            }
            true
        }
        (Err(Failure::NoStore { what, .. }), true) => {
            out.note(&what)?;
            false
        }
        (Err(failure), _) => return Err(failure),
    };
    tell(
        &Schema { store: store_url.shown(), schema: store_url.schema_version(), up_to_date },
        out,
    )?;
    Ok(if up_to_date { ExitStatus::Success } else { ExitStatus::Failure })
}

fn restored(is_postgres: bool) -> &'static str {
    match is_postgres {
        true => {
            "a restored PostgreSQL database needs no --restored: the first connection detects it"
        }
        false => "positions, fences and revisions continue above all that were issued before",
    }
}

fn tell(schema: &Schema, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return Ok(out.json(schema)?);
    }
    let is = if schema.up_to_date { "is" } else { "is not" };
    Ok(out.line(
        Style::Plain,
        &format!("{} {is} up to date (schema {})", schema.store, schema.schema),
    )?)
}
