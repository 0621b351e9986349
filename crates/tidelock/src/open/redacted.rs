//! Redacted store URLs, without secrets.
//!
//! Also for text typed by hand: an invalid URL can contain a password too.

/// URL options with secret values.
const SECRETS: [&str; 3] = ["password", "sslkey", "sslpassword"];

/// Returns a store's URL without passwords, for logs and messages.
///
/// ```
/// assert_eq!(tidelock::redacted_url("postgres://shop:hush@db.example/shop"), "postgres://shop@db.example/shop");
/// ```
#[must_use]
pub fn redacted_url(url: &str) -> String {
    if let Some((name, _)) = url.split_once('=').filter(|(name, _)| !name.contains(':')) {
        // Names and values in libpq's format, not a URL. It is unknown which values are secret.
        return format!("{name}=…");
    }
    let url = without_password(url);
    match url.split_once('?') {
        Some((front, query)) => format!("{front}?{}", without_secrets(query)),
        None => url,
    }
}

/// A password is between the first colon after the slashes and the at sign. A question mark or an
/// at sign in it may be unescaped: removing too much is better than too little.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let front = rest.split_once('?').map_or(rest, |(front, _)| front);
    let Some(at) = front.rfind('@').or_else(|| rest.rfind('@')) else { return url.to_owned() };
    let (login, host) = rest.split_at(at);
    match login.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}{host}"),
        None => url.to_owned(),
    }
}

fn without_secrets(query: &str) -> String {
    let kept = query.split('&').map(|option| match option.split_once('=') {
        Some((name, _)) if SECRETS.contains(&name.to_ascii_lowercase().as_str()) => {
            format!("{name}=…")
        }
        _ => option.to_owned(),
    });
    kept.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_left_in_any_position() {
        for (url, expected) in [
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("postgres://joe:hush@host/shop", "postgres://joe@host/shop"),
            ("postgres://joe:hu@sh@host/shop", "postgres://joe@host/shop"),
            ("postgres://joe:hu?sh@host/shop", "postgres://joe@host/shop"),
            ("postgres://:hush@host", "postgres://@host"),
            (
                "postgres://host:5432/shop?application_name=a",
                "postgres://host:5432/shop?application_name=a",
            ),
            (
                "postgres://joe:hush@host/shop?application_name=a@b",
                "postgres://joe@host/shop?application_name=a@b",
            ),
            (
                "postgres://host/shop?user=joe&password=hush",
                "postgres://host/shop?user=joe&password=…",
            ),
            ("postgres://host/shop?PassWord=hush", "postgres://host/shop?PassWord=…"),
            ("postgress://joe:hush@host/shop?x=1", "postgress://joe@host/shop?x=1"),
            ("host=db password='hush hush'", "host=…"),
            ("password=hu:sh host=db", "password=…"),
            ("sqlite:shop.db?readers=1", "sqlite:shop.db?readers=1"),
        ] {
            assert_eq!(redacted_url(url), expected);
        }
    }
}
