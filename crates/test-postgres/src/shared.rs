//! The server that tests share, and databases on it.

use std::env;
use std::process::{self, Stdio};
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::failure::Failure;
use crate::programs::{Programs, judge, output_of};
use crate::server::{Server, converse};

/// The variable in which the command `tidelock-test-postgres` passes the server's URL to its child.
pub const SHARED_URL: &str = "TIDELOCK_TEST_POSTGRES";

/// Settings of a shared server: many test binaries, each with several pools, at the same time.
pub(crate) const SHARED_SETTINGS: [(&str, &str); 2] =
    [("max_connections", "400"), ("synchronous_commit", "on")];

/// Never dropped: its guardian stops it when this process ends.
static SERVER: LazyLock<Result<Server, Failure>> = LazyLock::new(Server::start_shared);

/// The URL of the server that the environment names, or else of one that this process starts once.
pub fn shared_url() -> Result<String, Failure> {
    env::var(SHARED_URL).or_else(|_| SERVER.as_ref().map(Server::url).map_err(Clone::clone))
}

/// Number of callers per database. PostgreSQL looks a function up among all of that name, in any
/// schema, so that every session of a database with hundreds of stores would read hundreds of rows
/// to find its own.
const TENANTS: usize = 32;

/// The number of callers so far, and the newest database.
static GIVEN: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// The URL of a database on that server, for a separate schema in it; a few other callers of this
/// process share the database.
pub fn shared_database() -> Result<String, Failure> {
    let mut given = GIVEN.lock();
    let (count, newest) = &mut *given;
    if *count % TENANTS == 0 {
        *newest = another_database(&shared_url()?, *count / TENANTS)?;
    }
    *count += 1;
    Ok(newest.clone())
}

/// Runs statements in the database of this URL, up to the first failure.
pub fn run_script(database: &str, sql: &str) -> Result<(), Failure> {
    let mut psql = Programs::find()?.command("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database]);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let psql = psql.spawn().map_err(Failure::to("start psql"))?;
    let output = converse(psql, sql).map_err(Failure::to("wait for psql"))?;
    judge("psql", &output).map(drop)
}

/// Dumps a schema of the database of this URL, as statements.
pub fn dump(database: &str, schema: &str) -> Result<String, Failure> {
    let mut pg_dump = Programs::find()?.command("pg_dump");
    output_of(pg_dump.args(["--no-owner", "--schema", schema, "-d", database]))
}

fn another_database(server: &str, nth: usize) -> Result<String, Failure> {
    let name = format!("shared_{}_{nth}", process::id());
    let mut psql = Programs::find()?.command("psql");
    output_of(psql.args(["-X", "-q", "-d", server, "-c", &format!("CREATE DATABASE {name}")]))?;
    let (place, _) =
        server.rsplit_once('/').ok_or_else(|| Failure::new("the URL names no database"))?;
    Ok(format!("{place}/{name}"))
}
