//! TLS for the server: a certificate chain and its key, read from PEM files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::TlsAcceptor;

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or does not contain what it should.
    #[error("cannot read {what} from {path:?}: {reason}")]
    File {
        /// What the file should contain.
        what: &'static str,
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not match, or are of an unsupported kind.
    #[error("the certificate in {path:?} cannot be used with the key: {reason}")]
    Unusable {
        /// The file of the certificate.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads PEM files: the chain, with the server's own certificate first, and the key.
    ///
    /// # Errors
    /// If one of them cannot be read or used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|e| unreadable("a certificate", certificate, &e))?;
        if chain.is_empty() {
            return Err(unreadable("a certificate", certificate, &pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("a key", key, &e))?;
        let unusable = |e: rustls::Error| TlsError::Unusable {
            path: certificate.display().to_string(),
            reason: e.to_string(),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let mut config =
            builder.with_no_client_auth().with_single_cert(chain, key).map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }
}

fn unreadable(what: &'static str, path: &Path, error: &pem::Error) -> TlsError {
    let reason = match error {
        pem::Error::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            "there is no such file".to_owned()
        }
        error => error.to_string(),
    };
    TlsError::File { what, path: path.display().to_string(), reason }
}

impl fmt::Debug for Tls {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
