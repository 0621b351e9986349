//! A certificate authority that signs valid and invalid certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// A certificate and its key, as PEM.
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn named(name: &str) -> Self {
        let mut params = naming(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, new_key()).expect("an authority signs itself"))
    }

    /// Its certificate, for clients that trust it.
    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a server, or a user, of this name.
    pub(crate) fn sign(&self, name: &str) -> Certificate {
        self.sign_as_it_is(&naming(name))
    }

    /// An expired certificate for a server of this name.
    pub(crate) fn sign_expired(&self, name: &str) -> Certificate {
        let mut params = naming(name);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign_as_it_is(&params)
    }

    fn sign_as_it_is(&self, params: &CertificateParams) -> Certificate {
        let key = new_key();
        let certificate =
            params.signed_by(&key, &self.0).expect("the authority has a key to sign with");
        Certificate { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A self-signed certificate.
pub(crate) fn self_signed(name: &str) -> Certificate {
    let key = new_key();
    let certificate = naming(name).self_signed(&key).expect("a key can sign its own certificate");
    Certificate { certificate: certificate.pem(), key: key.serialize_pem() }
}

fn naming(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).expect("the name is plain");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system has random numbers")
}
