//! Connections: from the URL of a database to sessions that lead to its store.

mod address;
mod connect_failures;
mod connector;
mod identity;
mod lazy_connection;
mod pool;
mod readers;
mod schema_name;
pub(crate) mod server_checks;
mod session;
mod setting;
mod tls;
mod url;

pub(crate) use address::Address;
pub(crate) use connector::Connector;
pub(crate) use lazy_connection::LazyConnection;
pub(crate) use pool::{Borrowed, Pool};
pub(crate) use readers::Readers;
pub use schema_name::SchemaName;
pub(crate) use session::{BEGIN, Parameters, Session};
pub(crate) use setting::Setting;
