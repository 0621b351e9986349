//! TLS connections to a real server: which certificates are trusted, and which are not.
//!
//! The servers are on the loopback and act as remote ones: the URL names `db.example`, and its
//! address.

mod authority;

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use authority::{Authority, Certificate, self_signed};
use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::Server;

/// Requires encryption over TCP.
const ONLY_ENCRYPTED: &str = "local all all trust
hostssl all certified all cert
hostssl all all all scram-sha-256
";

/// A server with or without a certificate, and the files to connect to it.
struct Distant {
    server: Server,
}

impl Distant {
    fn start(certificate: &Certificate, clients: &Authority) -> Self {
        let distant = Self { server: Server::start().expect("a server starts") };
        distant.write("server.pem", &certificate.certificate);
        distant.write("server.key", &certificate.key);
        distant.write("clients.pem", &clients.pem());
        distant.write("pg_hba.conf", ONLY_ENCRYPTED);
        distant.turn_tls_on();
        distant
    }

    fn turn_tls_on(&self) {
        let sql = "CREATE ROLE app SUPERUSER LOGIN PASSWORD 's3cret'; CREATE ROLE certified SUPERUSER LOGIN";
        self.server.run_sql("postgres", sql).expect("roles can be made");
        let settings = [
            ("ssl_cert_file", "server.pem"),
            ("ssl_key_file", "server.key"),
            ("ssl_ca_file", "clients.pem"),
            ("ssl", "on"),
        ];
        for (setting, value) in settings {
            self.server.set(setting, value).expect("the files are there");
        }
    }

    /// Writes a file that belongs to the server's user, as the server requires of keys; returns its
    /// path.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.server.data_folder();
        let (owner, file) = (fs::metadata(folder).expect("the folder is there"), folder.join(name));
        fs::write(&file, text).expect("the folder can be written to");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("the file is ours");
        chown(&file, Some(owner.uid()), Some(owner.gid()))
            .expect("the file is ours, or we are root");
        file
    }

    /// The URL under which the server is known as `host`.
    fn url(&self, user: &str, host: &str, options: &str) -> String {
        let port = self.server.port();
        format!("postgres://{user}@{host}:{port}/postgres?hostaddr=127.0.0.1&{options}")
    }

    async fn open(&self, host: &str, options: &str) -> Result<PostgresStore, StoreError> {
        PostgresStore::open(&self.url("app:s3cret", host, options)).await
    }

    async fn refusal(&self, host: &str, options: &str) -> String {
        let refused = self.open(host, options).await.expect_err("the server is not to be trusted");
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Invalid, RetryAdvice::Never),
            "{refused}"
        );
        assert!(
            refused.context().contains(&format!("{host}:{}/postgres", self.server.port())),
            "{refused}"
        );
        refused.to_string()
    }
}

/// One authority, and a server with a valid certificate of it for `db.example`.
struct Trusted {
    authority: Authority,
    distant: Distant,
    root: String,
}

static TRUSTED: LazyLock<Trusted> = LazyLock::new(|| {
    let authority = Authority::named("authority.example");
    let distant = Distant::start(&authority.sign("db.example"), &authority);
    let root = format!("sslrootcert={}", distant.write("root.pem", &authority.pem()).display());
    Trusted { authority, distant, root }
});

#[tokio::test]
async fn a_server_with_a_trusted_certificate_for_its_name_is_used() {
    let trusted = &*TRUSTED;
    trusted
        .distant
        .open("db.example", &format!("sslmode=verify-full&{}", trusted.root))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_distant_server_is_verified_without_a_word() {
    let trusted = &*TRUSTED;
    trusted.distant.open("db.example", &trusted.root).await.unwrap();
    let refused = trusted.distant.refusal("other.example", &trusted.root).await;
    assert!(refused.contains("certificate is not trusted"), "{refused}");
}

/// The machine's authorities are set by an environment variable, so another process has to try.
#[tokio::test]
async fn the_machines_authorities_are_trusted_when_the_url_names_none() {
    const URL: &str = "TIDELOCK_TEST_TLS_URL";
    if let Ok(url) = env::var(URL) {
        PostgresStore::open(&url).await.unwrap();
        return;
    }
    let opens = |authorities: &Authority, name: &str| {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_machines_authorities_are_trusted_when_the_url_names_none"])
            .env("SSL_CERT_FILE", TRUSTED.distant.write(name, &authorities.pem()))
            .env(URL, TRUSTED.distant.url("app:s3cret", "db.example", ""))
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(opens(&TRUSTED.authority, "machine.pem"));
    assert!(!opens(&Authority::named("stranger.example"), "other-machine.pem"));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let refused = TRUSTED.distant.refusal("other.example", &TRUSTED.root).await;
    assert!(
        refused.contains("other.example") && refused.contains("a name that the certificate has"),
        "{refused}"
    );
    let refused = TRUSTED.distant.refusal("127.0.0.1", &TRUSTED.root).await;
    assert!(
        refused.contains("a name that the certificate has"),
        "an address is a name too: {refused}"
    );
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused() {
    for name in ["stranger.example", "authority.example"] {
        let stranger = TRUSTED.distant.write(&format!("{name}.pem"), &Authority::named(name).pem());
        let refused = TRUSTED
            .distant
            .refusal("db.example", &format!("sslrootcert={}", stranger.display()))
            .await;
        assert!(refused.contains("sslrootcert=FILE"), "{name}: {refused}");
    }
}

#[tokio::test]
async fn a_password_is_bound_to_the_certificate() {
    let (distant, root) = (&TRUSTED.distant, &TRUSTED.root);
    distant.open("db.example", &format!("channel_binding=require&{root}")).await.unwrap();
    distant.open("db.example", "channel_binding=require&sslmode=require").await.unwrap();
}

#[tokio::test]
async fn a_client_without_encryption_is_told_that_the_server_requires_it() {
    let refused = TRUSTED.distant.refusal("db.example", "sslmode=disable").await;
    assert!(
        refused.contains("no encryption") && refused.contains("sslmode=verify-full"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let Trusted { authority, distant, root } = &*TRUSTED;
    let mine = authority.sign("certified");
    let certificate = distant.write("mine.pem", &mine.certificate);
    let key = distant.write("mine.key", &mine.key);
    let options = format!("{root}&sslcert={}&sslkey={}", certificate.display(), key.display());
    PostgresStore::open(&distant.url("certified", "db.example", &options)).await.unwrap();
    let refused =
        PostgresStore::open(&distant.url("certified", "db.example", root)).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused}");
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_is_refused() {
    let authority = Authority::named("authority.example");
    let distant = Distant::start(&authority.sign_expired("db.example"), &authority);
    let root = distant.write("root.pem", &authority.pem());
    let refused = distant.refusal("db.example", &format!("sslrootcert={}", root.display())).await;
    assert!(refused.contains("give the server a new one"), "{refused}");
}

#[tokio::test]
async fn require_accepts_a_self_signed_certificate() {
    let distant =
        Distant::start(&self_signed("db.example"), &Authority::named("authority.example"));
    distant.open("db.example", "sslmode=require").await.unwrap();
    distant.refusal("db.example", &TRUSTED.root).await;
}

#[tokio::test]
async fn verify_ca_accepts_any_name_of_a_trusted_authority() {
    let (distant, root) = (&TRUSTED.distant, &TRUSTED.root);
    for mode in ["verify-ca", "require"] {
        let options = format!("sslmode={mode}&{root}");
        distant.open("other.example", &options).await.unwrap();
        let stranger = Authority::named("authority.example").pem();
        let stranger = distant.write(&format!("{mode}-stranger.pem"), &stranger);
        let options = format!("sslmode={mode}&sslrootcert={}", stranger.display());
        let refused = distant.refusal("db.example", &options).await;
        assert!(refused.contains("certificate is not trusted"), "{refused}");
    }
    let expired = Authority::named("authority.example");
    let distant = Distant::start(&expired.sign_expired("db.example"), &expired);
    let root = distant.write("root.pem", &expired.pem());
    let options = format!("sslmode=verify-ca&sslrootcert={}", root.display());
    assert!(distant.refusal("other.example", &options).await.contains("give the server a new one"));
}

#[tokio::test]
async fn prefer_encrypts_if_the_server_can() {
    // This server refuses a connection without encryption.
    for mode in ["prefer", "allow"] {
        TRUSTED.distant.open("db.example", &format!("sslmode={mode}")).await.unwrap();
    }
    let plain = Distant { server: Server::start().unwrap() };
    let url = |mode: &str| plain.url("postgres", "db.example", &format!("sslmode={mode}"));
    PostgresStore::open(&url("require")).await.unwrap_err();
    PostgresStore::open(&url("prefer")).await.unwrap();
}

#[tokio::test]
async fn a_distant_server_without_encryption_is_refused() {
    let distant = Distant { server: Server::start().unwrap() };
    let root = &TRUSTED.root;
    for options in [root, &format!("sslmode=verify-full&{root}"), "sslmode=require"] {
        let refused = distant.refusal("db.example", options).await;
        assert!(
            refused.contains("does not support TLS") && refused.contains("sslmode=disable"),
            "{refused}"
        );
    }
    PostgresStore::open(&distant.server.url()).await.expect("one on this machine is not");
}
