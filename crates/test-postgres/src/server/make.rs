//! Creation of a server's data: new, or as a copy of a running server.
//!
//! The programs work in the server's folder, where its guardian finds them if this process dies.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::failure::Failure;
use crate::folder::Folder;
use crate::programs::{Programs, output_of};
use crate::server::Server;

/// What differs from PostgreSQL's own defaults, and why.
const SETTINGS: [(&str, &str); 5] = [
    // The promise under test. It is the default; it is spelled out because everything depends on
    // it.
    ("fsync", "on"),
    // Tests run concurrently, each with several pools.
    ("max_connections", "200"),
    // Several servers share a small machine.
    ("shared_buffers", "64MB"),
    // Kept in the data folder, so that it goes with it when the server is killed.
    ("dynamic_shared_memory_type", "mmap"),
    // A standby that lost its primary reconnects within a test's timeout.
    ("wal_retrieve_retry_interval", "100ms"),
];

/// Creates the data of an empty server. Copying a template would be faster, but would give all
/// servers the same system identifier.
pub(super) fn fresh(
    programs: &Programs,
    folder: &Folder,
    settings: &[(&str, &str)],
) -> Result<(), Failure> {
    let mut initdb = programs.command("initdb");
    initdb.current_dir(folder.path()).arg("-D").arg(folder.data());
    initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]);
    // A machine that loses power before the first start loses an empty server.
    initdb.arg("--no-sync");
    output_of(&mut initdb)?;
    append(&folder.data().join("postgresql.conf"), SETTINGS.iter().chain(settings))
}

/// Creates the data of a standby with its primary's address.
///
/// The backup is made by hand, because a server's `pg_basebackup` is a client program, and a
/// package of the server alone has none.
pub(super) fn copy_of(
    primary: &Server,
    programs: &Programs,
    folder: &Folder,
    name: &str,
) -> Result<(), Failure> {
    let source = format!(
        "host=127.0.0.1 port={} user=postgres application_name={}",
        primary.port(),
        quote(name)
    );
    let data = folder.data();
    let label = primary.run_sql("postgres", &backup(primary.data_folder(), data))?;
    for (file, content) in [("backup_label", label + "\n"), ("standby.signal", String::new())] {
        let file = data.join(file);
        fs::write(&file, content).map_err(Failure::to(format!("write {}", file.display())))?;
        programs.hand_over(&file)?;
    }
    // The copied file names the standbys of the primary. Promoted, this server would wait for
    // itself.
    let settings = [("primary_conninfo", source.as_str()), ("synchronous_standby_names", "")];
    append(&data.join("postgresql.auto.conf"), &settings)
}

/// A script of `psql` that copies the data of a running server, and returns the backup's label.
/// Files can vanish while they are copied; what they were is in the log, which the standby reads.
fn backup(from: &Path, to: &Path) -> String {
    let (from, to) = (from.display(), to.display());
    format!(
        r"SELECT current_setting('server_version_num')::int >= 150000 AS renamed \gset
\if :renamed
SELECT pg_backup_start('standby', true) \g /dev/null
\else
SELECT pg_start_backup('standby', true, false) \g /dev/null
\endif
\! mkdir -p '{to}' && chmod 700 '{to}' && cp -a '{from}/.' '{to}' 2>/dev/null; rm -f '{to}'/postmaster.*
\if :renamed
SELECT labelfile FROM pg_backup_stop(false);
\else
SELECT labelfile FROM pg_stop_backup(false, false);
\endif
"
    )
}

/// Adds settings at the end of a file, where they win over those above.
fn append<'a>(
    file: &Path,
    settings: impl IntoIterator<Item = &'a (&'a str, &'a str)>,
) -> Result<(), Failure> {
    let lines: String =
        settings.into_iter().map(|(name, value)| format!("{name} = {}\n", quote(value))).collect();
    let written = File::options()
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(Failure::to(format!("write {}", file.display())))
}

/// Quotes a value for a settings file or a connection string; both take a backslash as an escape.
fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}
