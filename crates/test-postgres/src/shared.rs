//! The server that tests share, and databases on it.

use std::env;
use std::process;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::failure::Failure;
use crate::programs::{Programs, output_of};
use crate::server::Server;

/// The variable by which the command `tidelock-test-postgres` tells its child which server to use.
pub const SHARED_URL: &str = "TIDELOCK_TEST_POSTGRES";

/// What a server that many tests share is started with: many test binaries, each with several pools, at the same time.
pub const SHARED_SETTINGS: [(&str, &str); 2] = [("max_connections", "400"), ("synchronous_commit", "on")];

/// Never dropped: its guardian stops it when this process ends.
static SERVER: LazyLock<Result<Server, Failure>> = LazyLock::new(|| Server::start_with(&SHARED_SETTINGS));

/// The URL of the server that the environment names, or else of one that this process starts once and for all.
pub fn shared_url() -> Result<String, Failure> {
    env::var(SHARED_URL).or_else(|_| SERVER.as_ref().map(Server::url).map_err(Clone::clone))
}

/// How many callers are given the same database. PostgreSQL looks a function up among all of that name, in whichever schema,
/// so that every session of a database with hundreds of stores would read hundreds of rows to find its own.
const TENANTS: usize = 32;

/// How many callers were given a database, and the newest of these.
static GIVEN: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// The URL of a database on that server, for a schema of one's own in it; only some others, of this process, have theirs there.
pub fn shared_database() -> Result<String, Failure> {
    // Whoever panicked while holding it left it as true as it was.
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let (count, newest) = &mut *given;
    if *count % TENANTS == 0 {
        *newest = another_database(&shared_url()?, *count / TENANTS)?;
    }
    *count += 1;
    Ok(newest.clone())
}

fn another_database(server: &str, nth: usize) -> Result<String, Failure> {
    let name = format!("shared_{}_{nth}", process::id());
    let mut psql = Programs::find()?.command("psql");
    output_of(psql.args(["-X", "-q", "-d", server, "-c", &format!("CREATE DATABASE {name}")]))?;
    let (place, _) = server.rsplit_once('/').ok_or_else(|| Failure::new("the URL names no database"))?;
    Ok(format!("{place}/{name}"))
}
