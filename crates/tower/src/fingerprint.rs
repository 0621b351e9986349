//! The default fingerprint of a request.

use bytes::Bytes;
use http::request::Parts;
use tidelock::claims::Fingerprint;

/// The fingerprint of the method, the path with the query, and the body.
pub(crate) fn of(request: &Parts, body: &Bytes) -> Fingerprint {
    let target = request.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut text =
        Vec::with_capacity(request.method.as_str().len() + target.len() + body.len() + 2);
    text.extend_from_slice(request.method.as_str().as_bytes());
    // Neither a method nor a target contains a space, so the parts cannot be confused.
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
            "in absolute form, as proxies send it"
        );
    }
}
