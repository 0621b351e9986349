//! The inspector: a web page that shows a store, live.
//!
//! It consists of plain files without a build step, in `ui/`, compiled into the binary. They
//! contain no data and need no token; the page requests its data from the API with the viewer's
//! token. It loads nothing from elsewhere, and its content security policy enforces that: even if
//! hostile text got into the page as markup, the browser would not run it.

mod files;

use axum::Router;
use axum::extract::{OriginalUri, Path};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION,
};
use http::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, StatusCode};
use tidelock::problem::Problem;

use files::File;

/// The content security policy: own scripts, own styles, own server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Routes to the files, and a redirect from the root.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(to_the_page))
        .route("/ui", get(into_its_folder))
        .route("/ui/", get(async |headers: HeaderMap| file(&headers, "index.html")))
        .route(
            "/ui/{*path}",
            get(async |Path(path): Path<String>, headers: HeaderMap| file(&headers, &path)),
        )
}

/// Redirects the root to the page. The page's own links are relative to its folder, so that it
/// works under every prefix.
async fn to_the_page(OriginalUri(uri): OriginalUri) -> Response {
    // Under a prefix the root may be requested without a trailing slash.
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    let folder = if last.is_empty() { "ui/".to_owned() } else { format!("{last}/ui/") };
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, folder)]).into_response()
}

/// Redirects a request without the trailing slash.
async fn into_its_folder() -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "ui/")]).into_response()
}

fn file(headers: &HeaderMap, path: &str) -> Response {
    match File::named(path) {
        Some(file) if headers.get(IF_NONE_MATCH).is_some_and(|tag| *tag == *file.tag()) => {
            (StatusCode::NOT_MODIFIED, always(file)).into_response()
        }
        Some(file) => (always(file), file.text).into_response(),
        None => Problem::not_found("no-file", "the inspector has no such file: it begins at ui/")
            .into_response(),
    }
}

fn always(file: &File) -> [(http::HeaderName, String); 6] {
    [
        (CONTENT_TYPE, file.media_type().to_owned()),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        // Another binary may serve another page after a restart: cached files are revalidated.
        (CACHE_CONTROL, "no-cache".to_owned()),
        (ETAG, file.tag()),
    ]
}
