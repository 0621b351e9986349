//! `tidelock serve`: serves the HTTP API of a store, until it is interrupted.

use std::net::SocketAddr;

use tidelock::Tidelock;
use tidelock::doctor::Doctor;
use tidelock_http::{Api, Commits, Metrics, ServeError, Tls, Tokens};
use tokio::net::TcpListener;

use super::Cx;
use crate::args::ServeArgs;
use crate::commands::interrupt::interrupted;
use crate::failure::{Failure, Result};
use crate::log;
use crate::store_url::{OpenedStore, with_postgres};

/// Tokens without a file.
const VARIABLE: &str = "TIDELOCK_TOKENS";

pub(crate) async fn run(args: ServeArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let _logging = log::begin(args.log, args.log_format)?;
    let (tokens, tls) = (tokens(&args)?, tls(&args)?);
    check_is_protected(&args.listen, tokens.as_ref())?;
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| cannot_listen(&args.listen, &error))?;
    let was_missing = store_url.is_missing();
    let OpenedStore { store, postgres } = store_url.serve(args.migrate).await?;
    let (store, commits) = Commits::counted(store);
    let scheme = if tls.is_some() { "https" } else { "http" };
    let remarks = remarks(tokens.is_some(), was_missing);
    let address = listener.local_addr()?;
    let end = interrupted();
    // For people, and for the parent process.
    out.note(&format!("serving {} at {scheme}://{address}{remarks}", store_url.shown()))?;
    let doctor = with_postgres(Doctor::over(store.clone()).at(&store_url.shown()), postgres);
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

fn metrics() -> Result<Metrics> {
    Metrics::install().map_err(|error| {
        Failure::failed(error.to_string(), "the same command again: this is a bug")
    })
}

fn tokens(args: &ServeArgs) -> Result<Option<Tokens>> {
    let (text, source) = match &args.tokens {
        Some(path) => {
            let source = path.display().to_string();
            (
                Some(
                    std::fs::read_to_string(path)
                        .map_err(|e| Failure::file("read", &source, &e))?,
                ),
                source,
            )
        }
        None => (std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()), VARIABLE.to_owned()),
    };
    let read = text.map(|text| Tokens::read(&text)).transpose();
    read.map_err(|error| {
        Failure::usage(format!("the tokens of {source} cannot be used: {error}"), "fix that line")
    })
}

fn tls(args: &ServeArgs) -> Result<Option<Tls>> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let tls = Tls::read(certificate, key);
    tls.map(Some).map_err(|error| {
        Failure::usage(
            error.to_string(),
            "--tls-cert and --tls-key with PEM files that belong together",
        )
    })
}

/// Checked before a store is opened: a mistyped address should not create one.
fn check_is_protected(listen: &SocketAddr, tokens: Option<&Tokens>) -> Result<()> {
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

/// Remarks about unexpected settings.
fn remarks(protected: bool, was_missing: bool) -> String {
    let rights = if protected { "" } else { ", read-only (use --tokens to allow writes)" };
    let new = if was_missing { ", a new and empty store" } else { "" };
    format!("{rights}{new}")
}
