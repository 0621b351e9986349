//! What a request is told from others by, unless a route has its own way.

use bytes::Bytes;
use http::request::Parts;
use tidelock::claims::Fingerprint;

/// Of the method, the path with the query, and the body, byte by byte.
pub(crate) fn of(request: &Parts, body: &Bytes) -> Fingerprint {
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut text =
        Vec::with_capacity(request.method.as_str().len() + target.len() + body.len() + 2);
    text.extend_from_slice(request.method.as_str().as_bytes());
    // Neither a method nor a target has a space in it, so nothing can be moved from one part to the
    // next.
    text.push(b' ');
    text.extend_from_slice(target.as_bytes());
    text.push(b' ');
    text.extend_from_slice(body);
    Fingerprint::of_bytes(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn print(method: &str, target: &str, body: &'static str) -> Fingerprint {
        let request = Request::builder().method(method).uri(target).body(()).unwrap();
        of(&request.into_parts().0, &Bytes::from(body))
    }

    #[test]
    fn method_path_query_and_body_count() {
        let first = print("POST", "/pay?by=card", "7");
        assert_eq!(first, print("POST", "/pay?by=card", "7"));
        for other in [
            print("PATCH", "/pay?by=card", "7"),
            print("POST", "/pays?by=card", "7"),
            print("POST", "/pay?by=cash", "7"),
            print("POST", "/pay", "7"),
            print("POST", "/pay?by=card", "8"),
            print("POST", "/pay?by=card", ""),
        ] {
            assert_ne!(first, other);
        }
        assert_eq!(
            first,
            print("POST", "http://shop.example/pay?by=card", "7"),
            "as proxies write it"
        );
    }
}
