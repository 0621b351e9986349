//! The server that tests share, each in a database of its own.

use std::env;
use std::sync::LazyLock;

use crate::failure::Failure;
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
