//! Arguments of the server.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::log::Level;

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; with port 0, at a port that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7171")]
    pub(crate) listen: SocketAddr,
    /// Make the store if there is none, and bring its tables up to date
    #[arg(long)]
    pub(crate) migrate: bool,
    /// File of tokens, a line for each: ROLE NAME TOKEN, where ROLE is reader, writer or operator
    /// [default: the lines in `TIDELOCK_TOKENS`]
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Name under which clients know this server, besides localhost; can be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// File with the certificate chain, as PEM: speak TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// From which level on to say what happens, on standard error
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "warn")]
    pub(crate) log: Level,
}
