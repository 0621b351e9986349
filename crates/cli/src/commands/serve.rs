//! `tidelock serve`: the HTTP API of a store, until somebody wants it to end.

use std::net::SocketAddr;

use tidelock::Tidelock;
use tidelock::doctor::Doctor;
use tidelock_http::{Api, Commits, Metrics, ServeError, Tls, Tokens};
use tokio::net::TcpListener;

use crate::args::ServeArgs;
use crate::commands::interrupt::interrupted;
use crate::failure::Failure;
use crate::log;
use crate::output::Output;
use crate::place::{Opened, StoreUrl};

/// Where tokens can be given without a file.
const VARIABLE: &str = "TIDELOCK_TOKENS";

pub(crate) async fn run(
    args: ServeArgs,
    place: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    log::begin(args.log);
    let (tokens, tls) = (tokens(&args)?, tls(&args)?);
    check_is_protected(&args.listen, tokens.as_ref())?;
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| cannot_listen(&args.listen, &error))?;
    let was_missing = place.is_missing();
    let Opened { store, postgres } = place.serve(args.migrate).await?;
    let (store, commits) = Commits::counted(store);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let remarks = remarks(tokens.is_some(), was_missing);
    let address = listener.local_addr()?;
    let end = interrupted();
    // For people, and for whoever started it.
    out.note(&format!("serving {} at {scheme}://{address}{remarks}", place.shown()))?;
    let doctor = Doctor::over(store.clone()).at(&place.shown());
    let doctor = postgres.into_iter().fold(doctor, Doctor::with_postgres);
    let mut api = Api::over(&Tidelock::over(store.clone()))
        .hosts(args.host)
        .doctor(doctor)
        .metrics(metrics()?);
    api = api.commits(commits);
    if let Some(tokens) = tokens {
        api = api.tokens(tokens);
    }
    tidelock_http::serve(listener, api, tls, end).await.map_err(not_served)?;
    Ok(store.close().await?)
}

fn metrics() -> Result<Metrics, Failure> {
    Metrics::install().map_err(|error| {
        Failure::failed(error.to_string(), "the same command again: this is a bug")
    })
}

fn tokens(args: &ServeArgs) -> Result<Option<Tokens>, Failure> {
    let (text, place) = match &args.tokens {
        Some(path) => {
            let place = path.display().to_string();
            (
                Some(std::fs::read_to_string(path).map_err(|e| Failure::file("read", &place, &e))?),
                place,
            )
        }
        None => (std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()), VARIABLE.to_owned()),
    };
    let read = text.map(|text| Tokens::read(&text)).transpose();
    read.map_err(|error| {
        Failure::usage(format!("the tokens of {place} cannot be used: {error}"), "mend that line")
    })
}

fn tls(args: &ServeArgs) -> Result<Option<Tls>, Failure> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let tls = Tls::read(certificate, key);
    tls.map(Some).map_err(|error| {
        Failure::usage(
            error.to_string(),
            "--tls-cert and --tls-key with PEM files that belong together",
        )
    })
}

/// Before anything is opened, as the address is taken: whoever mistypes it should not have a store
/// made first.
fn check_is_protected(listen: &SocketAddr, tokens: Option<&Tokens>) -> Result<(), Failure> {
    match tokens.is_none() && !listen.ip().is_loopback() {
        true => Err(not_served(ServeError::Unprotected { address: *listen })),
        false => Ok(()),
    }
}

fn not_served(error: ServeError) -> Failure {
    match error {
        ServeError::Unprotected { .. } => Failure::usage(
            error.to_string(),
            format!("--tokens FILE, or the same lines in {VARIABLE}"),
        ),
        error => Failure::failed(error.to_string(), "another --listen address"),
    }
}

fn cannot_listen(address: &SocketAddr, error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("cannot listen on {address}: {error}"),
        "another --listen address; with port 0, a port that is free",
    )
}

/// What people might not expect.
fn remarks(protected: bool, was_missing: bool) -> String {
    let rights = if protected { "" } else { ", read-only (give it --tokens to write)" };
    let new = if was_missing { ", a new and empty store: there was none" } else { "" };
    format!("{rights}{new}")
}
