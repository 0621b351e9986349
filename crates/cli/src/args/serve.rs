//! Arguments of the server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tracing::level_filters::LevelFilter;

/// The levels of the log.
const LEVELS: [&str; 5] = ["off", "error", "warn", "info", "debug"];

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For machines
    Json,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7171")]
    pub(crate) listen: SocketAddr,
    /// Create the store if it does not exist, and bring its tables up to date
    #[arg(long)]
    pub(crate) migrate: bool,
    /// File of tokens, one per line: ROLE NAME TOKEN, where ROLE is reader, writer or operator
    /// [default: the lines in `TIDELOCK_TOKENS`]
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Host name of this server, besides localhost; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// File with the certificate chain, as PEM: use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Log messages from this level on, on standard error [default: the filter in `RUST_LOG`, else
    /// warn]
    #[arg(long, value_name = "LEVEL",
        value_parser = PossibleValuesParser::new(LEVELS).try_map(|level| level.parse::<LevelFilter>()))]
    pub(crate) log: Option<LevelFilter>,
    /// Format of the log: text for people, or json, one object per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}
