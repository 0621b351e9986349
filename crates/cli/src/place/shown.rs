//! A store's URL as it may be shown: without whatever is secret in it.

/// Options of a URL whose value nobody else should see.
const SECRETS: [&str; 3] = ["password", "sslkey", "sslpassword"];

/// The URL without passwords, wherever a URL can have one.
pub(crate) fn shown(url: &str) -> String {
    let url = without_password(url);
    match url.split_once('?') {
        Some((front, query)) => format!("{front}?{}", without_secrets(query)),
        None => url,
    }
}

/// A password stands between the first colon after the slashes and the at sign. Somebody may have forgotten to write a
/// question mark or an at sign in it as they should be: rather too much is left out than too little.
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
        Some((name, _)) if SECRETS.contains(&name.to_ascii_lowercase().as_str()) => format!("{name}=…"),
        _ => option.to_owned(),
    });
    kept.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_left_wherever_it_stands() {
        for (url, expected) in [
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("postgres://joe:hush@host/shop", "postgres://joe@host/shop"),
            ("postgres://joe:hu@sh@host/shop", "postgres://joe@host/shop"),
            ("postgres://joe:hu?sh@host/shop", "postgres://joe@host/shop"),
            ("postgres://:hush@host", "postgres://@host"),
            ("postgres://host:5432/shop?application_name=a", "postgres://host:5432/shop?application_name=a"),
            (
                "postgres://joe:hush@host/shop?application_name=a@b",
                "postgres://joe@host/shop?application_name=a@b",
            ),
            ("postgres://host/shop?user=joe&password=hush", "postgres://host/shop?user=joe&password=…"),
            ("postgres://host/shop?PassWord=hush", "postgres://host/shop?PassWord=…"),
            ("postgress://joe:hush@host/shop?x=1", "postgress://joe@host/shop?x=1"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
