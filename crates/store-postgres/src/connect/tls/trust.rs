//! TLS modes and trust: when a connection is encrypted, and which certificates are accepted.
//!
//! The modes are those of libpq: `disable`; `prefer`, which encrypts if the server can (`allow` is
//! the same here); `require`, which protects against passive listeners; `verify-ca`, which accepts
//! the certificate of a trusted authority for any name; and `verify-full`, which also protects
//! against active attackers. The default is not libpq's `prefer`, but `verify-full`, unless the
//! server is on this machine.
//!
//! The cryptography is ring's, named here and not taken from the process, so that other libraries
//! of a program do not change it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use tidelock_store::{Result, StoreError};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connect::setting::Setting;

/// The protection of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// No TLS.
    Disable,
    /// Encrypted if the server can, without checking its certificate.
    Prefer,
    /// Encrypted, without checking the server's certificate.
    Require,
    /// Encrypted, and the certificate must be issued by a trusted authority, for any host.
    VerifyCa,
    /// Encrypted, and the certificate must be issued by a trusted authority for the host in the
    /// URL.
    VerifyFull,
}

/// The TLS settings of a URL.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    mode: Option<Mode>,
    /// The file with trusted authorities; by default, those of the machine.
    roots: Option<String>,
    /// The file with the client certificate.
    certificate: Option<String>,
    /// The file with that certificate's key.
    key: Option<String>,
}

impl Trust {
    /// Takes a setting if it is one of these; returns whether it did.
    pub(crate) fn take(&mut self, setting: Setting<'_>) -> Result<bool> {
        let file = || Some(setting.value.to_owned());
        match setting.name {
            "sslmode" => self.mode = Some(mode(setting)?),
            "sslrootcert" => self.roots = file(),
            "sslcert" => self.certificate = file(),
            "sslkey" => self.key = file(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The mode for this host and address.
    pub(crate) fn mode_for(&self, host: &str, address: Option<IpAddr>) -> Mode {
        match self.mode {
            // PostgreSQL has no TLS on Unix sockets, which never leave the machine.
            _ if host.starts_with('/') && address.is_none() => Mode::Disable,
            // As libpq has it: a named authority is asked.
            Some(Mode::Require) if self.roots.is_some() => Mode::VerifyCa,
            Some(mode) => mode,
            // Naming a certificate implies using it.
            None if self.names_files() => Mode::VerifyFull,
            None if is_local(host) && address.is_none_or(is_loopback) => Mode::Disable,
            None => Mode::VerifyFull,
        }
    }

    /// Builds the connector for the modes that are `used`. Files are read now, so that a missing
    /// one is reported immediately.
    pub(crate) fn connector(&self, used: &[Mode]) -> Result<MakeRustlsConnect> {
        self.check_no_file_is_ignored()?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring has the cipher suites of every protocol version");
        let builder = if used.contains(&Mode::VerifyFull) {
            builder.with_root_certificates(self.trusted_roots()?)
        } else if used.contains(&Mode::VerifyCa) {
            let roots = Arc::new(self.trusted_roots()?);
            let chain = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
            let chain = chain.build().map_err(|e| {
                StoreError::invalid("the trusted authorities cannot be used").caused_by(e)
            })?;
            let lenient = Lenient { chain: Some(chain), provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        } else if used.contains(&Mode::Require) || used.contains(&Mode::Prefer) {
            let lenient = Lenient { chain: None, provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        } else {
            // It is never used, and would trust no certificate.
            builder.with_root_certificates(RootCertStore::empty())
        };
        Ok(MakeRustlsConnect::new(self.with_client_certificate(builder)?))
    }

    fn names_files(&self) -> bool {
        self.roots.is_some() || self.certificate.is_some() || self.key.is_some()
    }

    fn check_no_file_is_ignored(&self) -> Result<()> {
        match self.mode {
            Some(Mode::Disable) if self.names_files() => Err(StoreError::invalid(
                "sslmode=disable uses no certificates, and the URL names some: write sslmode=verify-full",
            )),
            Some(Mode::Prefer) if self.roots.is_some() => Err(StoreError::invalid(
                "sslmode=prefer checks no certificate, and the URL names a sslrootcert to check with: write \
                 sslmode=verify-full",
            )),
            _ => Ok(()),
        }
    }

    fn trusted_roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Some(file) => roots.add_parsable_certificates(certificates("sslrootcert", file)?),
            None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        };
        if roots.is_empty() {
            return Err(StoreError::invalid(
                "there is no authority to trust: install the machine's (Debian's package ca-certificates), or name the \
                 file of one with sslrootcert=FILE",
            ));
        }
        Ok(roots)
    }

    fn with_client_certificate(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig> {
        let (certificate, key) = match (&self.certificate, &self.key) {
            (None, None) => return Ok(builder.with_no_client_auth()),
            (Some(certificate), Some(key)) => (certificate, key),
            _ => {
                return Err(StoreError::invalid(
                    "sslcert and sslkey go together: name both, or none",
                ));
            }
        };
        let chain = certificates("sslcert", certificate)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable("sslkey", key, e))?;
        builder.with_client_auth_cert(chain, key).map_err(|e| {
            StoreError::invalid(format!("sslcert={certificate}: cannot be used with its sslkey"))
                .caused_by(e)
        })
    }
}

fn mode(setting: Setting<'_>) -> Result<Mode> {
    match setting.value {
        "disable" => Ok(Mode::Disable),
        "allow" | "prefer" => Ok(Mode::Prefer),
        "require" => Ok(Mode::Require),
        "verify-ca" => Ok(Mode::VerifyCa),
        "verify-full" => Ok(Mode::VerifyFull),
        _ => Err(setting.must_be("disable, allow, prefer, require, verify-ca or verify-full")),
    }
}

fn is_local(host: &str) -> bool {
    host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(is_loopback)
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a certificate can be issued for this name at all.
pub(crate) fn is_server_name(host: &str) -> bool {
    ServerName::try_from(host).is_ok()
}

fn certificates(option: &str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(Path::new(file))
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|e| unreadable(option, file, e))?;
    if certificates.is_empty() {
        return Err(StoreError::invalid(format!(
            "{option}={file}: holds no certificate in PEM form"
        )));
    }
    Ok(certificates)
}

fn unreadable(option: &str, file: &str, error: rustls::pki_types::pem::Error) -> StoreError {
    StoreError::invalid(format!("{option}={file}: cannot be read as PEM: {error}")).caused_by(error)
}

/// Checks less than the name and the chain of a certificate. The server must still prove that it
/// has the certificate's key: otherwise a password bound to the certificate (channel binding) would
/// be meaningless.
#[derive(Debug)]
struct Lenient {
    /// Checks the chain, for [`Mode::VerifyCa`]; without it every certificate is accepted.
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let verified =
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is compared last: everything else holds then.
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(settings: &[(&str, &str)]) -> Result<Trust> {
        let mut trust = Trust::default();
        for (name, value) in settings {
            assert!(trust.take(Setting { name, value })?, "{name}");
        }
        Ok(trust)
    }

    #[test]
    fn only_a_server_on_this_machine_goes_unencrypted_without_a_word() {
        let mode =
            |host: &str, address: &str| Trust::default().mode_for(host, address.parse().ok());
        for local in [
            "localhost",
            "LocalHost",
            "127.0.0.1",
            "127.8.9.1",
            "::1",
            "::ffff:127.0.0.1",
            "/run/pg",
        ] {
            assert_eq!(mode(local, ""), Mode::Disable, "{local}");
        }
        for distant in
            ["db.example", "localhost.example", "10.0.0.1", "0.0.0.0", "::", "127.1", "fe80::1"]
        {
            assert_eq!(mode(distant, ""), Mode::VerifyFull, "{distant}");
        }
        assert_eq!(mode("localhost", "127.0.0.2"), Mode::Disable);
        assert_eq!(
            mode("db.example", "127.0.0.1"),
            Mode::VerifyFull,
            "the name is not this machine's"
        );
        assert_eq!(
            mode("localhost", "10.0.0.1"),
            Mode::VerifyFull,
            "the address is not this machine's"
        );
        assert_eq!(mode("/run/pg", "10.0.0.1"), Mode::VerifyFull, "the address is where it goes");
    }

    #[test]
    fn requested_encryption_is_used_on_this_machine_too() {
        let named =
            |settings: &[(&str, &str)]| trust(settings).unwrap().mode_for("localhost", None);
        assert_eq!(named(&[("sslmode", "require")]), Mode::Require);
        assert_eq!(named(&[("sslmode", "verify-full")]), Mode::VerifyFull);
        assert_eq!(named(&[("sslmode", "verify-ca")]), Mode::VerifyCa);
        assert_eq!(named(&[("sslmode", "prefer")]), Mode::Prefer);
        assert_eq!(named(&[("sslmode", "allow")]), Mode::Prefer);
        assert_eq!(named(&[("sslmode", "require"), ("sslrootcert", "ca.pem")]), Mode::VerifyCa);
        assert_eq!(named(&[("sslrootcert", "ca.pem")]), Mode::VerifyFull);
    }

    #[test]
    fn an_unknown_mode_is_refused_with_the_known_ones() {
        for unknown in ["on", "Require", "verify_full", ""] {
            let refused = trust(&[("sslmode", unknown)]).unwrap_err().to_string();
            assert!(refused.contains("prefer, require, verify-ca or verify-full"), "{refused}");
        }
    }

    #[test]
    fn no_named_certificate_is_ignored() {
        let refused = |settings: &[(&str, &str)]| {
            let trust = trust(settings).unwrap();
            trust
                .connector(&[trust.mode_for("db.example", None)])
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        assert!(
            refused(&[("sslmode", "prefer"), ("sslrootcert", "ca.pem")]).contains("verify-full")
        );
        assert!(refused(&[("sslmode", "disable"), ("sslcert", "me.pem")]).contains("verify-full"));
        assert!(refused(&[("sslmode", "require"), ("sslcert", "me.pem")]).contains("go together"));
        assert!(
            refused(&[("sslrootcert", "/no/such/ca.pem")]).contains("sslrootcert=/no/such/ca.pem")
        );
        assert!(refused(&[("sslrootcert", "/dev/null")]).contains("holds no certificate"));
    }
}
