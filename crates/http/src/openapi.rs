//! The OpenAPI document, generated from the handlers, plus what all routes have in common.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use tidelock::problem::PROBLEM_JSON;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem, Paths};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, InfoBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::codes::CODES;
use crate::routes::Needs;

const BEARER: &str = "token";
const KEY: &str = "Idempotency-Key";

/// Adds to a route what all routes have in common, and returns its method and path. Takes one route
/// at a time.
pub(crate) fn complete(paths: &mut Paths, needs: Needs) -> (Method, String) {
    let (path, item) = paths.paths.iter_mut().next().expect("a route has a path");
    let (method, operation) = operation(item).expect("a route has a method");
    name(operation);
    describe(operation, needs);
    for (status, what) in of_family(path, &method).iter().chain(in_common(needs, &method)) {
        let responses = &mut operation.responses.responses;
        responses
            .entry((*status).to_owned())
            .or_insert_with(|| RefOr::T(ResponseBuilder::new().description(*what).build()));
    }
    operation
        .responses
        .responses
        .iter_mut()
        .for_each(|(status, response)| explain(status, response));
    if needs != Needs::Nothing && method != Method::GET {
        take_a_key(operation);
    }
    (method, path.clone())
}

/// Gives an operation an id that no other has: the tag and the handler. Generators make a method's
/// name of it.
fn name(operation: &mut Operation) {
    let tag = operation.tags.as_ref().and_then(|tags| tags.first());
    if let (Some(tag), Some(handler)) = (tag, &operation.operation_id) {
        operation.operation_id = Some(format!("{tag}_{handler}").replace('-', "_"));
    }
}

/// The names of a route's query parameters. Takes one route at a time.
pub(crate) fn query_parameters(paths: &Paths) -> Arc<[String]> {
    let operations = paths.paths.values().flat_map(|item| {
        [&item.get, &item.put, &item.post, &item.delete, &item.patch].into_iter().flatten()
    });
    let parameters = operations.flat_map(|operation| operation.parameters.iter().flatten());
    let in_query = parameters.filter_map(|parameter| match parameter {
        RefOr::T(parameter) if matches!(parameter.parameter_in, ParameterIn::Query) => {
            Some(parameter.name.clone())
        }
        _ => None,
    });
    in_query.collect()
}

/// Documents `Idempotency-Key` on every route that writes.
fn take_a_key(operation: &mut Operation) {
    let parameters = operation.parameters.get_or_insert_default();
    if parameters.iter().any(|one| matches!(one, RefOr::T(parameter) if parameter.name == KEY)) {
        return;
    }
    let text =
        ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(255));
    let key = ParameterBuilder::new()
        .name(KEY)
        .parameter_in(ParameterIn::Header)
        .required(Required::False);
    let what = "A retry with the same key has no further effect, and gets the first response";
    parameters.push(RefOr::T(key.description(Some(what)).schema(Some(text)).build()));
}

/// Gives a response without a description a default one, and a problem its content.
fn explain(status: &str, response: &mut RefOr<Response>) {
    let RefOr::T(response) = response else { return };
    if response.description.is_empty() {
        response.description = "Success".into();
    }
    if status >= "400" && response.content.is_empty() {
        let schema = RefOr::Ref(Ref::from_schema_name(ProblemDetails::name()));
        response.content.insert(PROBLEM_JSON.to_owned(), RefOr::T(Content::new(Some(schema))));
    }
}

/// The document, as JSON.
pub(crate) fn document(mut document: OpenApi) -> Bytes {
    document.info = InfoBuilder::new()
        .title("Tidelock")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Streams, scopes, claims, work items, runs and reactions of one store."))
        .build();
    let components = document.components.get_or_insert_with(Default::default);
    components.schemas.insert(ProblemDetails::name().into_owned(), ProblemDetails::schema());
    components.security_schemes.insert(
        BEARER.to_owned(),
        RefOr::T(SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer))),
    );
    let mut document = serde_json::to_value(&document).expect("a document is JSON");
    bound(&mut document);
    document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] = CODES.into();
    serde_json::to_vec(&document).expect("a document is JSON").into()
}

/// Adds bounds to every integer that has none: `i64`, or those of its 32-bit format.
fn bound(within: &mut Value) {
    match within {
        Value::Array(several) => several.iter_mut().for_each(bound),
        Value::Object(fields) => {
            fields.values_mut().for_each(bound);
            if is_integer(fields.get("type")) && !fields.contains_key("maximum") {
                let most = most(fields.get("format"), fields.get("minimum"));
                fields.insert("maximum".to_owned(), most.into());
                // The format is of signed numbers, and half of the unsigned ones are beyond it.
                if most > i32::MAX.into()
                    && fields.get("format").is_some_and(|format| format == "int32")
                {
                    fields.insert("format".to_owned(), "int64".into());
                }
            }
        }
        _ => {}
    }
}

fn is_integer(said: Option<&Value>) -> bool {
    match said {
        Some(Value::Array(several)) => several.iter().any(|one| one == "integer"),
        said => said.is_some_and(|one| one == "integer"),
    }
}

fn most(format: Option<&Value>, least: Option<&Value>) -> i64 {
    let is_signed = least.and_then(Value::as_f64).is_none_or(|least| least < 0.0);
    match format.and_then(Value::as_str) {
        Some("int32") if is_signed => i32::MAX.into(),
        Some("int32") => u32::MAX.into(),
        _ => i64::MAX,
    }
}

fn operation(item: &mut PathItem) -> Option<(Method, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let all = [
        (Method::GET, get),
        (Method::PUT, put),
        (Method::POST, post),
        (Method::DELETE, delete),
        (Method::PATCH, patch),
    ];
    all.into_iter().find_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn describe(operation: &mut Operation, needs: Needs) {
    if let Needs::Role(role) = needs {
        let description = operation.description.get_or_insert_default();
        let gap = if description.is_empty() { "" } else { "\n\n" };
        description.push_str(&format!("{gap}Needs the role {role}."));
        operation.security =
            Some(vec![SecurityRequirement::new::<_, [String; 0], String>(BEARER, [])]);
    }
}

/// The problems that every route below a path can answer with.
fn of_family(path: &str, method: &Method) -> &'static [(&'static str, &'static str)] {
    const RUN: &[(&str, &str)] = &[("404", "There is no such run"), ("410", "The run was removed")];
    const SCOPE: &[(&str, &str)] = &[
        ("404", "The scope does not exist"),
        ("410", "The scope was deleted, or has expired"),
        ("412", "The scope is at another revision, or exists"),
    ];
    const CLAIM: &[(&str, &str)] =
        &[("409", "The claim was lost, or has ended differently: discard the work")];
    const BULK: &[(&str, &str)] = &[("404", "A given name does not exist")];
    match path {
        path if path.starts_with("/v1/runs/{id}/") => RUN,
        _ if method == Method::GET => &[],
        path if path.starts_with("/v1/scopes/{kind}/{id}") => SCOPE,
        path if path.starts_with("/v1/claims/{key}/") => CLAIM,
        path if path.starts_with("/v1/leases/") || path.starts_with("/v1/reactions/") => BULK,
        _ => &[],
    }
}

/// The problems that every route can answer with.
fn in_common(needs: Needs, method: &Method) -> &'static [(&'static str, &'static str)] {
    const PUBLIC: &[(&str, &str)] =
        &[("400", "The request is invalid"), ("403", "The host name is unknown")];
    const READ: &[(&str, &str)] = &[
        ("400", "The request is invalid"),
        ("401", "A known token is needed"),
        ("403", "The role is too low, or the host name is unknown"),
        ("500", "Internal error"),
        ("503", "The store is unavailable; try again later"),
    ];
    const WRITE: &[(&str, &str)] = &[
        ("400", "The request is invalid"),
        ("401", "A known token is needed"),
        ("403", "The role is too low, or the host name is unknown"),
        ("409", "A conflict, or a request with this Idempotency-Key is in progress"),
        ("410", "The request was carried out; the response to this Idempotency-Key is gone"),
        ("413", "The body is too large"),
        ("415", "The body is not sent as JSON"),
        ("422", "The Idempotency-Key was used for another request"),
        ("500", "Internal error"),
        ("503", "The store is unavailable; try again later"),
        ("507", "The store's disk is full"),
    ];
    match needs {
        Needs::Nothing => PUBLIC,
        Needs::Role(_) if method == Method::GET => READ,
        Needs::Role(_) => WRITE,
    }
}

/// Problem details, as clients get them; a problem can have further fields.
#[derive(ToSchema)]
#[schema(as = Problem)]
#[allow(dead_code, reason = "only the schema is used")]
struct ProblemDetails {
    /// The type of problem, as a URI; its fragment is the code.
    #[schema(example = "urn:tidelock:problem#version-conflict")]
    r#type: String,
    /// The status, as text.
    title: String,
    /// The status.
    status: u16,
    /// What happened, to which thing, and what to do.
    detail: String,
    /// Identifies the problem to programs.
    #[schema(example = "version-conflict")]
    code: String,
}
