//! The server over TLS.

use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidelock_http::{Api, Tls};
use tidelock_test_stage::TestStore;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// HTTP-21.
async fn requests_are_answered_over_tls_only(stage: TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Tls::read(&certificate, &key).unwrap();
    let swapped = Tls::read(&key, &certificate).unwrap_err().to_string();
    assert!(swapped.contains("key.pem"), "{swapped}");

    let tidelock = stage.tidelock().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(tidelock_http::serve(
        listener,
        Api::over(&tidelock),
        Some(tls),
        std::future::pending(),
    ));

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(made.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/health")
        .header("host", "localhost")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), r#"{"status":"ok"}"#);

    let plain = crate::harness::Client::to(address, "");
    assert!(plain.try_send(plain.request(http::Method::GET, "/health", None)).await.is_none());
    serving.abort();
}

over_sockets!(requests_are_answered_over_tls_only);
