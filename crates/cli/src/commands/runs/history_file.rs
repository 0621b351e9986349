//! `tidelock runs ID --export FILE`: the history of a run as a file, for
//! `tidelock::testing::replay`.

use std::io::Write;
use std::path::Path;

use tidelock::runs::RunExport;

use crate::commands::new_file;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::store_url::StoreUrl;

/// Writes the file, which is complete or not there.
pub(super) fn write(
    export: &RunExport,
    file: &Path,
    store: &StoreUrl,
    overwrite: bool,
    out: &mut Output,
) -> Result<()> {
    if file.as_os_str() == "-" {
        return Ok(writeln!(std::io::stdout(), "{export}")?);
    }
    let failed = |e: std::io::Error| Failure::file("write", &file.to_string_lossy(), &e);
    new_file::check_free(file, store, overwrite)?;
    let mut partial = new_file::beside(file).map_err(failed)?;
    writeln!(partial, "{export}").map_err(failed)?;
    partial.as_file().sync_all().map_err(failed)?;
    new_file::put_in_place(partial.into_temp_path(), file, overwrite).map_err(failed)?;
    Ok(out.note(&format!(
        "exported {} entries of run {:?} to {}",
        export.entries().len(),
        export.run().as_str(),
        file.display()
    ))?)
}
