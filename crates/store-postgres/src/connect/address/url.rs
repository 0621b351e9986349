//! PostgreSQL URL parser: `postgres://user:password@host:port/database?option=value` to settings.
//!
//! The rules are those of libpq, but stricter where it would guess. An unescaped `/`, `?` or `@` in
//! a password moves the borders between the parts, and half of the password would become a host or
//! a database name and be printed. So an `@` may stand only where the host begins, and no error
//! here quotes the URL.

use tidelock_store::{Result, StoreError};

/// Decoded settings.
type Settings = Vec<(String, String)>;

/// Splits a URL. The parts before the question mark become the settings `user`, `password`, `host`,
/// `port` and `dbname`. Every setting occurs once.
pub(crate) fn settings(url: &str) -> Result<Settings> {
    let url = without_scheme(url)?;
    let (authority, rest) = url.split_at(url.find(['/', '?']).unwrap_or(url.len()));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (credentials, hosts) = authority.split_once('@').unwrap_or(("", authority));
    if hosts.contains('@') || rest.contains('@') {
        return Err(stray_at());
    }
    let mut settings = Settings::new();
    push_credentials(&mut settings, credentials)?;
    push_hosts(&mut settings, hosts)?;
    push(&mut settings, "dbname", path.strip_prefix('/').unwrap_or(path))?;
    push_options(&mut settings, query)?;
    Ok(settings)
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

fn push_credentials(settings: &mut Settings, credentials: &str) -> Result<()> {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    push(settings, "user", user)?;
    push(settings, "password", password)
}

/// Several hosts are separated by commas, each with its own port or the default one.
fn push_hosts(settings: &mut Settings, hosts: &str) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let split = hosts.split(',').map(host_and_port).collect::<Result<Vec<_>>>()?;
    let (hosts, ports): (Vec<_>, Vec<_>) = split.into_iter().unzip();
    push(settings, "host", &hosts.join(","))?;
    // A port that is not in the URL is left out, so that an option can set it.
    match ports.iter().all(|port| port.is_empty()) {
        true => Ok(()),
        false => push(settings, "port", &ports.join(",")),
    }
}

fn host_and_port(text: &str) -> Result<(&str, &str)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(address) => address.split_once(']').ok_or_else(bad_host)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port {
        "" => "",
        port => port.strip_prefix(':').ok_or_else(bad_host)?,
    };
    if host.is_empty() || port.contains(':') { Err(bad_host()) } else { Ok((host, port)) }
}

fn bad_host() -> StoreError {
    StoreError::invalid(
        "the URL's host must be a name or an address, with a colon before its port and an IPv6 address in brackets: \
         db.example:5432, or [::1]:5432",
    )
}

fn push_options(settings: &mut Settings, query: &str) -> Result<()> {
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            StoreError::invalid(
                "an option of the URL has no value: write NAME=VALUE, and & in a value as %26",
            )
        })?;
        let name = decoded("the name of an option", name)?;
        push_once(settings, &name, decoded(&name, value)?)?;
    }
    Ok(())
}

/// Adds a part before the question mark, unless it is empty.
fn push(settings: &mut Settings, name: &str, text: &str) -> Result<()> {
    match text {
        "" => Ok(()),
        text => push_once(settings, name, decoded(name, text)?),
    }
}

fn push_once(settings: &mut Settings, name: &str, value: String) -> Result<()> {
    if settings.iter().any(|(earlier, _)| earlier == name) {
        return Err(StoreError::invalid(format!(
            "the URL says {name} twice: leave one of them out"
        )));
    }
    settings.push((name.to_owned(), value));
    Ok(())
}

/// Percent-decodes the text. A plus sign stands for itself.
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
        let settings = settings(url).unwrap();
        settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_url_is_read_as_libpq_reads_it() {
        let cases = [
            ("postgres://", ""),
            ("postgres://h", "host=h"),
            ("postgresql://u@h/d", "user=u host=h dbname=d"),
            ("postgres://u:p@h:1/d?a=b&c=d", "user=u password=p host=h port=1 dbname=d a=b c=d"),
            ("postgres://u:p:q@h", "user=u password=p:q host=h"),
            ("postgres://u@a,b:2,[::1]:3/d", "user=u host=a,b,::1 port=,2,3 dbname=d"),
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
            let refused = settings(url).unwrap_err();
            assert!(refused.to_string().contains(expected), "{url}: {refused}");
            assert!(!format!("{refused:?}").contains("s3c"), "{url}: {refused:?}");
        }
    }
}
