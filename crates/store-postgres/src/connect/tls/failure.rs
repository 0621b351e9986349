//! Connection failures: why there is no connection, and what to do about it.
//!
//! Temporary failures are `Unavailable` and worth a retry: a server that is down, starting, full or
//! a standby. Failures that need a change are `Invalid`: the user, the password, the database, a
//! certificate.

use std::error::Error;
use std::io;
use std::time::Duration;

use rustls::CertificateError;
use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::DbError;

/// Combines the failures of all servers into one error. If one of them is temporary, a retry may
/// help.
pub(super) fn of_all(mut failures: Vec<(&str, StoreError)>) -> StoreError {
    let each: Vec<_> = failures
        .iter()
        .map(|(server, failure)| format!("{server}: {}", failure.context()))
        .collect();
    let passing = failures.iter().position(|(_, failure)| failure.advice() == RetryAdvice::Later);
    let (_, cause) = failures.swap_remove(passing.unwrap_or_default());
    if failures.is_empty() {
        return cause;
    }
    let context = format!("none of the servers can be used: {}", each.join("; "));
    StoreError::new(cause.kind(), cause.advice(), StoreOperation::Open, context).caused_by(cause)
}

/// The server exceeded the time limit.
pub(super) fn timed_out(limit: Duration) -> StoreError {
    passing(format!(
        "no connection within {limit:?}: is something between here and the server dropping what is sent?"
    ))
}

/// The server, or the network, refused a connection for which such a server was wanted.
pub(super) fn refused(error: tokio_postgres::Error, wanted: TargetSessionAttrs) -> StoreError {
    let failure = match error.source() {
        Some(source) => meaning(source, wanted),
        None if error.is_closed() => {
            passing("the server closed the connection before it was ready".to_owned())
        }
        None => lasting(format!("{error}: is this a PostgreSQL server?")),
    };
    failure.caused_by(error)
}

fn meaning(source: &(dyn Error + 'static), wanted: TargetSessionAttrs) -> StoreError {
    if let Some(error) = source.downcast_ref::<DbError>() {
        return refused_by_server(error);
    }
    match source.downcast_ref::<io::Error>() {
        Some(error) => refused_on_the_way(error, wanted),
        None => refused_by_driver(&source.to_string()),
    }
}

fn refused_by_server(error: &DbError) -> StoreError {
    let (code, message) = (error.code().code(), error.message());
    let advice = match code {
        "28P01" => "check the user and the password in the URL",
        "28000" => {
            "check the user in the URL, and what the server's pg_hba.conf allows; if it demands encryption, write \
             sslmode=verify-full"
        }
        "3D000" => "create the database, or check its name in the URL",
        "42501" => "grant the user CONNECT on the database",
        "42704" | "22023" | "55P02" => "check what options= sets in the URL",
        "53300" => "raise max_connections on the server, or open fewer stores with fewer readers",
        "57P03" => "the server is starting or stopping",
        _ => "",
    };
    let what = match advice {
        "" => format!("the server refuses the connection: {message} ({code})"),
        advice => format!("the server refuses the connection: {message} ({code}): {advice}"),
    };
    // Errors about the role, the database or a parameter are permanent; a lack of resources is
    // temporary.
    let lasts = ["22", "28", "3D", "42"].iter().any(|class| code.starts_with(class));
    if lasts { lasting(what) } else { passing(what) }
}

fn refused_on_the_way(error: &io::Error, wanted: TargetSessionAttrs) -> StoreError {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return not_encrypted(error);
    }
    // The driver's own error for a server that is read-only when it should not be, or the reverse;
    // errors of the system have a number.
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return passing(format!("{error}: {}", other_than(wanted)));
    }
    passing(format!(
        "cannot be reached: {error}: is the server running, and is this its host and port?"
    ))
}

/// What to do about a server that does not match `target_session_attrs`.
fn other_than(wanted: TargetSessionAttrs) -> &'static str {
    match wanted {
        TargetSessionAttrs::ReadWrite => {
            "it is a standby, so name the primary; or default_transaction_read_only is on for this role or database, so switch \
             it off, or, if this program only reads, write target_session_attrs=any"
        }
        _ => "a store is read from where it is written, so leave target_session_attrs out",
    }
}

fn not_encrypted(error: &rustls::Error) -> StoreError {
    let rustls::Error::InvalidCertificate(reason) = error else {
        return lasting(format!("no encrypted connection can be agreed on: {error}"));
    };
    let advice = match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "connect by a name that the certificate has, or give the server one for this name; sslmode=verify-ca accepts the names of every server of the authority"
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "name the file of the authority that signed it with sslrootcert=FILE; sslmode=require encrypts without checking who answers"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "give the server a new one"
        }
        _ => "give the server one that can be checked",
    };
    lasting(format!("the server's certificate is not trusted: {error}: {advice}"))
}

/// The driver tells these apart only by their text.
fn refused_by_driver(message: &str) -> StoreError {
    let advice = match message {
        "server does not support TLS" => {
            "turn ssl on in the server; or, if the network is trusted, write sslmode=disable, or sslmode=prefer to encrypt as soon as it can"
        }
        "password missing" => {
            "the server asks for one: write postgres://USER:PASSWORD@HOST/DATABASE"
        }
        _ => "check how the server lets this user in",
    };
    lasting(format!("{message}: {advice}"))
}

fn passing(context: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, RetryAdvice::Later, StoreOperation::Open, context)
}

fn lasting(context: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, RetryAdvice::Never, StoreOperation::Open, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_that_may_come_back_makes_it_worth_trying_again() {
        let (down, wrong) = (passing("down".into()), lasting("wrong password".into()));
        let both = of_all(vec![("a", wrong.clone()), ("b", down)]);
        assert_eq!((both.kind(), both.advice()), (StoreErrorKind::Unavailable, RetryAdvice::Later));
        assert_eq!(both.context(), "none of the servers can be used: a: wrong password; b: down");
        assert_eq!(
            of_all(vec![("a", wrong.clone()), ("b", wrong.clone())]).advice(),
            RetryAdvice::Never
        );
        assert_eq!(of_all(vec![("a", wrong)]).context(), "wrong password");
    }
}
