//! The settings of a URL, before they are known to be enough for an address.
//!
//! Names and units are those of libpq, so that a URL that works elsewhere works here. Settings
//! without a meaning here are refused by name.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Result, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, TargetSessionAttrs};

use super::server::{Server, USUAL_PORT};
use super::{Address, Route};
use crate::connect::setting::Setting;
use crate::connect::tls::{Mode, Trust};
use crate::open::PostgresOptions;

/// TCP keepalive: idle time before the first probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// TCP keepalive: time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// TCP keepalive: probes before the connection is closed.
const KEEPALIVE_COUNT: u32 = 3;
/// How long sent data may stay unacknowledged before the connection is closed. A server that loses
/// power sends nothing, and the system's default is a quarter of an hour, during which its
/// successor would not be tried.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The settings of a URL.
pub(super) struct Typed {
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
    /// Settings that are the same for all servers.
    config: Config,
    trust: Trust,
}

impl Typed {
    pub(super) fn new() -> Self {
        let mut config = Config::new();
        config
            .application_name("tidelock")
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_COUNT)
            .tcp_user_timeout(UNACKNOWLEDGED);
        Self { hosts: vec![], addresses: vec![], ports: vec![], config, trust: Trust::default() }
    }

    pub(super) fn take(
        &mut self,
        setting: Setting<'_>,
        options: &mut PostgresOptions,
    ) -> Result<()> {
        let taken = self.take_server(setting)?
            || self.take_session(setting)?
            || self.take_socket(setting, options)?
            || self.trust.take(setting)?;
        if taken { Ok(()) } else { options.set(setting.name, setting.value) }
    }

    /// Takes the settings that name the servers.
    fn take_server(&mut self, setting: Setting<'_>) -> Result<bool> {
        let parts = setting.value.split(',');
        match setting.name {
            "host" => self.hosts = parts.map(str::to_owned).collect(),
            "hostaddr" => {
                let addresses =
                    parts.map(|part| part.parse().map_err(|_| setting.must_be("IP addresses")));
                self.addresses = addresses.collect::<Result<_>>()?;
            }
            "port" => self.ports = parts.map(port).collect::<Result<_>>()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the settings of the session: user, password, database and the like.
    fn take_session(&mut self, setting: Setting<'_>) -> Result<bool> {
        let (config, value) = (&mut self.config, setting.value);
        match setting.name {
            "user" => config.user(value),
            "password" => config.password(value),
            "dbname" => config.dbname(value),
            "options" => config.options(value),
            "application_name" => config.application_name(value),
            "channel_binding" => config.channel_binding(setting.choice(&[
                ("disable", ChannelBinding::Disable),
                ("prefer", ChannelBinding::Prefer),
                ("require", ChannelBinding::Require),
            ])?),
            "target_session_attrs" => config.target_session_attrs(setting.choice(&[
                ("read-write", TargetSessionAttrs::ReadWrite),
                ("read-only", TargetSessionAttrs::ReadOnly),
                ("any", TargetSessionAttrs::Any),
            ])?),
            _ => return Ok(false),
        };
        Ok(true)
    }

    /// Takes the timeouts, with the names and units of libpq.
    fn take_socket(&mut self, setting: Setting<'_>, options: &mut PostgresOptions) -> Result<bool> {
        let config = &mut self.config;
        match setting.name {
            "connect_timeout" => {
                options.connect_timeout = setting.seconds(1, 600)?;
                config
            }
            "keepalives" => config.keepalives(setting.switch()?),
            "keepalives_count" => config.keepalives_retries(setting.number(1, 100)?),
            "keepalives_idle" => config.keepalives_idle(setting.seconds(1, 86_400)?),
            "keepalives_interval" => config.keepalives_interval(setting.seconds(1, 86_400)?),
            "tcp_user_timeout" => config.tcp_user_timeout(setting.millis(0, 86_400_000)?),
            _ => return Ok(false),
        };
        Ok(true)
    }

    /// Builds the address, with a time limit for connecting.
    pub(super) fn into_address(mut self, connect_timeout: Duration) -> Result<Address> {
        let user = self.user()?;
        let database = self.config.get_dbname().unwrap_or(&user).to_owned();
        let servers = Server::all(&self.hosts, &self.addresses, &self.ports)?;
        let modes =
            servers.iter().map(|server| server.mode(&self.trust)).collect::<Result<Vec<_>>>()?;
        let time_for_one_server =
            connect_timeout / u32::try_from(servers.len()).unwrap_or(u32::MAX);
        // A name may resolve to several machines, of which the first may be down.
        self.config.dbname(&database).connect_timeout(time_for_one_server / 2);
        Ok(Address {
            label: label(&servers, &database),
            routes: servers
                .iter()
                .zip(&modes)
                .map(|(server, mode)| self.route(server, *mode))
                .collect(),
            connector: self.trust.connector(&modes)?,
            last_good: Arc::default(),
            time_for_one_server,
            user,
        })
    }

    fn route(&self, server: &Server, mode: Mode) -> Route {
        Route { host_port: server.to_string(), config: server.config(&self.config, mode) }
    }

    fn user(&self) -> Result<String> {
        let user = self.config.get_user().filter(|user| !user.is_empty());
        user.map(str::to_owned).ok_or_else(|| {
            StoreError::invalid(
                "the URL names no user: write postgres://USER@HOST/DATABASE, or add user=USER",
            )
        })
    }
}

fn label(servers: &[Server], database: &str) -> String {
    let places: Vec<_> = servers.iter().map(ToString::to_string).collect();
    format!("{}/{database}", places.join(","))
}

/// The port is not quoted: a password ends up there when the host after it is missing.
fn port(text: &str) -> Result<u16> {
    match text.parse() {
        _ if text.is_empty() => Ok(USUAL_PORT),
        Ok(port) if port > 0 => Ok(port),
        _ => Err(StoreError::invalid("the URL's port must be a number from 1 to 65535")),
    }
}
