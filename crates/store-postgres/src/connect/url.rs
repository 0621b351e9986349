//! PostgreSQL URLs: `postgres://user:password@host:port/database?option=value` to an [`Address`].
//!
//! The driver parses users, passwords, hosts, ports and databases, behind checks that are stricter
//! than its own. An unescaped `/`, `?` or `@` in a password moves the borders between the parts,
//! and half of the password would become a host or a database name and be printed. So an `@` may
//! stand only where the host begins, and no error here quotes the URL.
//!
//! The options never reach the driver. Some are the store's; for others, names and units here are
//! those of libpq, so that a URL that works elsewhere works here. Options without a meaning here
//! are refused by name.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Result, StoreError};
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, TargetSessionAttrs};

use super::address::{Address, Route};
use super::setting::Setting;
use super::tls::{Mode, Trust, is_server_name};
use crate::open::PostgresOptions;

/// The default port.
const USUAL_PORT: u16 = 5432;
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

impl Address {
    /// Parses a `postgres://` or `postgresql://` URL; options of the store go to `options`.
    ///
    /// # Errors
    /// `Invalid` if a part is unknown or missing; the message names the part and never quotes the
    /// URL.
    pub(crate) fn parse(url: &str, options: &mut PostgresOptions) -> Result<Self> {
        let mut parsed = ParsedUrl::of(url)?;
        for (name, value) in std::mem::take(&mut parsed.options) {
            parsed.take(Setting { name: &name, value: &value }, options)?;
        }
        parsed.into_address(options.connect_timeout)
    }
}

/// The settings of a URL, before they are known to be enough for an address.
struct ParsedUrl {
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    /// One for each host, one for all, or none for the default.
    ports: Vec<u16>,
    /// Settings that are the same for all servers.
    config: Config,
    trust: Trust,
    /// Names and values, decoded.
    options: Vec<(String, String)>,
}

impl ParsedUrl {
    /// Splits a URL. Every setting occurs once.
    fn of(url: &str) -> Result<Self> {
        let url = without_scheme(url)?;
        let (authority, rest) = url.split_at(url.find(['/', '?']).unwrap_or(url.len()));
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.split_once('@').unwrap_or(("", authority));
        if hosts.contains('@') || rest.contains('@') {
            return Err(stray_at());
        }
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        for (what, text) in
            [("user", user), ("password", password), ("host or port", hosts), ("dbname", path)]
        {
            decoded(what, text)?;
        }
        let credentials = if password.is_empty() { user } else { credentials };
        let servers = by_driver(&format!("postgres://{hosts}"))?;
        // The driver gives every host a port. If the URL does not, an option can.
        let ports = if names_port(hosts) { servers.get_ports().to_vec() } else { Vec::new() };
        let given = [
            ("user", !user.is_empty()),
            ("password", !password.is_empty()),
            ("host", !hosts.is_empty()),
            ("port", !ports.is_empty()),
            ("dbname", path.len() > 1),
        ];
        Ok(Self {
            hosts: servers.get_hosts().iter().map(text_of).collect(),
            addresses: Vec::new(),
            ports,
            config: with_defaults(by_driver(&format!("postgres://{credentials}@{path}"))?),
            trust: Trust::default(),
            options: options(query, &given)?,
        })
    }

    fn take(&mut self, setting: Setting<'_>, options: &mut PostgresOptions) -> Result<()> {
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
            "port" => {
                let port = |text: &str| if text.is_empty() { Ok(USUAL_PORT) } else { text.parse() };
                self.ports = parts.map(port).collect::<Result<_, _>>().map_err(|_| bad_server())?;
            }
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
    fn into_address(mut self, connect_timeout: Duration) -> Result<Address> {
        if self.hosts.is_empty() {
            self.hosts = self.addresses.iter().map(ToString::to_string).collect();
        }
        self.check_servers()?;
        let user = self.user()?;
        let database = self.config.get_dbname().unwrap_or(&user).to_owned();
        let time_for_one_server =
            connect_timeout / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        // A name may resolve to several machines, of which the first may be down.
        self.config.dbname(&database).connect_timeout(time_for_one_server / 2);
        let routes =
            (0..self.hosts.len()).map(|nth| self.route(nth)).collect::<Result<Vec<_>>>()?;
        let (routes, modes): (Vec<Route>, Vec<Mode>) = routes.into_iter().unzip();
        let label: Vec<&str> = routes.iter().map(Route::host_port).collect();
        Ok(Address {
            label: format!("{}/{database}", label.join(",")),
            connector: self.trust.connector(&modes)?,
            last_good: Arc::default(),
            time_for_one_server,
            routes,
            user,
        })
    }

    fn check_servers(&self) -> Result<()> {
        let (hosts, addresses, ports) = (&self.hosts, &self.addresses, &self.ports);
        if hosts.is_empty() || hosts.iter().any(String::is_empty) || ports.contains(&0) {
            return Err(bad_server());
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

    fn user(&self) -> Result<String> {
        let user = self.config.get_user().filter(|user| !user.is_empty());
        user.map(str::to_owned).ok_or_else(|| {
            StoreError::invalid(
                "the URL names no user: write postgres://USER@HOST/DATABASE, or add user=USER",
            )
        })
    }

    /// The route to one of the servers, and the TLS mode of connections to it.
    fn route(&self, nth: usize) -> Result<(Route, Mode)> {
        let (host, address) = (&self.hosts[nth], self.addresses.get(nth).copied());
        let port = self.ports.get(nth).or(self.ports.first()).copied().unwrap_or(USUAL_PORT);
        let mode = self.trust.mode_for(host, address);
        if mode != Mode::Disable && !is_server_name(host) {
            return Err(StoreError::invalid(format!(
                "host {host:?}: no certificate can have such a name"
            )));
        }
        let mut config = self.config.clone();
        config.host(host).port(port).ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        if let Some(address) = address {
            config.hostaddr(address);
        }
        let host_port = match host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            _ => format!("{host}:{port}"),
        };
        Ok((Route { host_port, config }, mode))
    }
}

/// The driver's error is left out: it could quote a part of the URL.
fn by_driver(url: &str) -> Result<Config> {
    url.parse().map_err(|_| bad_server())
}

fn with_defaults(mut config: Config) -> Config {
    config
        .application_name("tidelock")
        .target_session_attrs(TargetSessionAttrs::ReadWrite)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_COUNT)
        .tcp_user_timeout(UNACKNOWLEDGED);
    config
}

fn text_of(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(folder) => folder.to_string_lossy().into_owned(),
    }
}

/// Whether one of the hosts has a port. The colons of an IPv6 address are in brackets.
fn names_port(hosts: &str) -> bool {
    hosts.split(',').any(|host| host.rsplit(']').next().is_some_and(|end| end.contains(':')))
}

fn without_scheme(url: &str) -> Result<&str> {
    url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")).ok_or_else(|| {
        StoreError::invalid(
            "a PostgreSQL URL begins with postgres:// or postgresql://, and this one does not",
        )
    })
}

fn stray_at() -> StoreError {
    StoreError::invalid(
        "the URL has an @ that does not stand before the host: in a user name, a password, a database's name or an \
         option, write @ as %40, : as %3A, / as %2F, ? as %3F and % as %25",
    )
}

/// Nothing is quoted: a password ends up here when the host after it is missing.
fn bad_server() -> StoreError {
    StoreError::invalid(
        "the URL names no host, or one that makes no sense: write a name or an address, with a colon before its port \
         (a number from 1 to 65535) and an IPv6 address in brackets: postgres://USER@db.example:5432/DATABASE, or \
         [::1]:5432, or for a socket postgres://USER@/DATABASE?host=/run/postgresql",
    )
}

/// Splits the options of a URL, of which the parts before the question mark give some already.
fn options(query: &str, given: &[(&str, bool)]) -> Result<Vec<(String, String)>> {
    let mut options: Vec<(String, String)> = Vec::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            StoreError::invalid(
                "an option of the URL has no value: write NAME=VALUE, and & in a value as %26",
            )
        })?;
        let name = decoded("the name of an option", name)?;
        let value = decoded(&name, value)?;
        if given.contains(&(name.as_str(), true)) || options.iter().any(|(known, _)| *known == name)
        {
            return Err(StoreError::invalid(format!(
                "the URL says {name} twice: leave one of them out"
            )));
        }
        options.push((name, value));
    }
    Ok(options)
}

/// Percent-decodes the text, and refuses what the driver would take as it is. A plus sign stands
/// for itself.
fn decoded(what: &str, text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut pieces = text.split('%');
    bytes.extend(pieces.next().unwrap_or_default().bytes());
    for piece in pieces {
        let byte = piece.get(..2).and_then(byte_of_hex).ok_or_else(|| bad_text(what))?;
        bytes.push(byte);
        bytes.extend(piece.bytes().skip(2));
    }
    String::from_utf8(bytes).map_err(|_| bad_text(what))
}

/// NUL is refused, because it terminates strings in the protocol.
fn byte_of_hex(hex: &str) -> Option<u8> {
    let digits = hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(hex, 16).ok().filter(|byte| digits && *byte != 0)
}

fn bad_text(what: &str) -> StoreError {
    StoreError::invalid(format!(
        "{what} in the URL is not well encoded: after a % there must be two hexadecimal digits, and together they must \
         be UTF-8 text without NUL; write % itself as %25"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> String {
        let parsed = ParsedUrl::of(url).unwrap();
        let config = &parsed.config;
        let password = config.get_password().map(|password| String::from_utf8_lossy(password));
        let ports: Vec<_> = parsed.ports.iter().map(ToString::to_string).collect();
        let parts = [
            ("user", config.get_user().unwrap_or_default()),
            ("password", password.as_deref().unwrap_or_default()),
            ("host", &parsed.hosts.join(",")),
            ("port", &ports.join(",")),
            ("dbname", config.get_dbname().unwrap_or_default()),
        ];
        let parts = parts.into_iter().filter(|(_, value)| !value.is_empty());
        let options = parsed.options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all: Vec<_> =
            parts.chain(options).map(|(name, value)| format!("{name}={value}")).collect();
        all.join(" ")
    }

    #[test]
    fn a_url_is_read_as_libpq_reads_it() {
        let cases = [
            ("postgres://", ""),
            ("postgres://h", "host=h"),
            ("postgresql://u@h/d", "user=u host=h dbname=d"),
            ("postgres://u:p@h:1/d?a=b&c=d", "user=u password=p host=h port=1 dbname=d a=b c=d"),
            ("postgres://u:p:q@h", "user=u password=p:q host=h"),
            ("postgres://u@a,b:2,[::1]:3/d", "user=u host=a,b,::1 port=5432,2,3 dbname=d"),
            ("postgres://u@[fe80::1]", "user=u host=fe80::1"),
            ("postgres://u@%2Frun%2Fpg/d", "user=u host=/run/pg dbname=d"),
            ("postgres://u@/d?host=/run/pg", "user=u dbname=d host=/run/pg"),
            ("postgres://u@h?readers=2", "user=u host=h readers=2"),
            ("postgres://u@h/?a=b&", "user=u host=h a=b"),
            (
                "postgres://u%40x:p%40%2F%3A%3F%25@h/d%20e",
                "user=u@x password=p@/:?% host=h dbname=d e",
            ),
            ("postgres://u:%C3%A9+%2B@h?a=x+y%26z", "user=u password=é++ host=h a=x+y&z"),
            ("postgres://@h/", "host=h"),
        ];
        for (url, expected) in cases {
            assert_eq!(read(url), expected, "{url}");
        }
    }

    #[test]
    fn a_url_that_can_be_misread_is_refused_and_never_quoted() {
        let cases = [
            ("mysql://u:s3cret@h/d", "begins with"),
            ("s3cret", "begins with"),
            ("postgres://u:s3cret@x@h/d", "%40"),
            ("postgres://u:s3c/ret@h/d", "%2F"),
            ("postgres://u:s3c?ret@h/d", "%3F"),
            ("postgres://u@h/d?password=s3cret@x", "%40"),
            ("postgres://u:s3c%ret@h", "password in the URL is not well encoded"),
            ("postgres://u:s3c%", "port in the URL is not well encoded"),
            ("postgres://u:s3c%+1@h", "%25"),
            ("postgres://u:s3c%é@h", "%25"),
            ("postgres://u:s3c%00@h", "without NUL"),
            ("postgres://u:s3c%FFret@h", "UTF-8"),
            ("postgres://u:s3c@h?password=s3cret", "password twice"),
            ("postgres://u@h?password=a&s3cret", "NAME=VALUE"),
            ("postgres://u@h?host=i", "host twice"),
            ("postgres://u@::1", "[::1]:5432"),
            ("postgres://u@[::1", "[::1]:5432"),
            ("postgres://u@[::1]5432", "[::1]:5432"),
            ("postgres://u@:5432", "db.example:5432"),
            ("postgres://u@a,,b", "db.example:5432"),
        ];
        for (url, expected) in cases {
            let refused = Address::parse(url, &mut PostgresOptions::default()).unwrap_err();
            assert!(refused.to_string().contains(expected), "{url}: {refused}");
            assert!(!format!("{refused:?}").contains("s3c"), "{url}: {refused:?}");
        }
    }
}
