//! One of the servers that a URL names.

use std::fmt;
use std::net::IpAddr;

use tidelock_store::{Result, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::connect::tls::{Mode, Trust, is_server_name};

/// The default port.
pub(super) const USUAL_PORT: u16 = 5432;

/// A server: host, optional IP address, port.
pub(super) struct Server {
    /// A name, an address, or the folder of a socket.
    host: String,
    /// The address to connect to instead of resolving the host.
    address: Option<IpAddr>,
    port: u16,
}

impl Server {
    /// Combines the lists of hosts, addresses and ports. One port applies to all; a list of
    /// addresses without hosts is enough.
    pub(super) fn all(hosts: &[String], addresses: &[IpAddr], ports: &[u16]) -> Result<Vec<Self>> {
        let hosts = match hosts {
            [] => addresses.iter().map(ToString::to_string).collect(),
            hosts => hosts.to_vec(),
        };
        check_lists(&hosts, addresses, ports)?;
        let servers = hosts.into_iter().enumerate().map(|(i, host)| Self {
            host,
            address: addresses.get(i).copied(),
            port: ports.get(i).or(ports.first()).copied().unwrap_or(USUAL_PORT),
        });
        Ok(servers.collect())
    }

    /// The TLS mode of connections to it.
    pub(super) fn mode(&self, trust: &Trust) -> Result<Mode> {
        let mode = trust.mode_for(&self.host, self.address);
        if mode == Mode::Disable || is_server_name(&self.host) {
            return Ok(mode);
        }
        Err(StoreError::invalid(format!(
            "host {:?}: no certificate can have such a name",
            self.host
        )))
    }

    /// The driver's configuration for this server.
    pub(super) fn config(&self, shared: &Config, mode: Mode) -> Config {
        let mut config = shared.clone();
        config.host(&self.host).port(self.port).ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Require | Mode::VerifyFull => SslMode::Require,
        });
        if let Some(address) = self.address {
            config.hostaddr(address);
        }
        config
    }
}

fn check_lists(hosts: &[String], addresses: &[IpAddr], ports: &[u16]) -> Result<()> {
    if hosts.is_empty() || hosts.iter().any(String::is_empty) {
        return Err(StoreError::invalid(
            "the URL names no host: write postgres://USER@HOST/DATABASE, or for a socket \
             postgres://USER@/DATABASE?host=/run/postgresql",
        ));
    }
    let addresses_fit = addresses.is_empty() || addresses.len() == hosts.len();
    let ports_fit = ports.len() <= 1 || ports.len() == hosts.len();
    if addresses_fit && ports_fit {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "the URL names {} hosts, {} addresses and {} ports: name one of each for every host, or one port for all",
        hosts.len(),
        addresses.len(),
        ports.len()
    )))
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}
