//! The server's own certificate authority, its certificate and the bearer token, kept in the data folder.

use std::{
    fmt, fs,
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::jiff::{Timestamp, tz::TimeZone};
use rand::RngCore;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject},
};

const FOLDER: &str = "pki";
const AUTHORITY_NAME: &str = "modelway-ca";
/// Nobody renews a local platform's certificates by hand.
const VALID_YEARS: i16 = 10;
/// Clocks that were set back a little still accept new certificates.
const BACKDATED: Duration = Duration::from_hours(24);
const TOKEN_BYTES: usize = 32;

/// Why keys, certificates or the token cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot {action} {path}: {source}; check that the data folder is writable")]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot make the certificates of the API server: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS for the API server: {0}")]
    Tls(#[from] rustls::Error),
}

/// The secret that clients send. Its text appears in no log.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// Wraps a known text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Compares in time that does not depend on where the texts differ.
    pub fn matches(&self, offered: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differing = own.iter().zip(offered).fold(0, |sum, (left, right)| sum | (left ^ right));
        own.len() == offered.len() && std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(..)")
    }
}

/// Everything that a TLS listener and its clients need.
#[derive(Clone, Debug)]
pub struct Pki {
    authority_pem: Arc<str>,
    token: Token,
    server: Arc<rustls::ServerConfig>,
}

impl Pki {
    /// Reads the authority and the token of a data folder, made anew where they are missing or unusable. The server's
    /// certificate is made at every start and lives in memory only.
    pub fn open(data_dir: &Path, now: SystemTime) -> Result<Self, PkiError> {
        let folder = data_dir.join(FOLDER);
        fs::create_dir_all(&folder).map_err(|source| PkiError::File {
            action: "create",
            path: folder.clone(),
            source,
        })?;
        let authority = match Authority::read(&folder, now) {
            Some(authority) => authority,
            None => Authority::create(&folder, now)?,
        };
        let token = read_token(&folder.join("token"))?;
        let server = Arc::new(authority.server_config(now)?);
        Ok(Self { authority_pem: authority.certificate_pem.into(), token, server })
    }

    /// The certificate of the authority, in PEM.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    pub fn token(&self) -> &Token {
        &self.token
    }

    /// TLS with the server's certificate, for HTTP/2 and HTTP/1.1.
    pub fn server_config(&self) -> Arc<rustls::ServerConfig> {
        self.server.clone()
    }

    /// A kubeconfig for the server at that address. It holds the token: keep it readable by its owner only.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let authority = STANDARD.encode(self.authority_pem.as_bytes());
        let token = &self.token.0;
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: modelway\n  cluster:\n    server: https://{address}\n    \
             certificate-authority-data: {authority}\nusers:\n- name: modelway\n  user:\n    token: {token}\n\
             contexts:\n- name: modelway\n  context:\n    cluster: modelway\n    user: modelway\n    \
             namespace: default\ncurrent-context: modelway\n"
        )
    }
}

/// The authority's key, and its certificate as clients know it.
struct Authority {
    key: KeyPair,
    certificate_pem: String,
}

impl Authority {
    /// `None` when a file is missing, unreadable, expired, or not of the other's pair.
    fn read(folder: &Path, now: SystemTime) -> Option<Self> {
        let key = fs::read_to_string(folder.join("ca.key")).ok()?;
        let certificate_pem = fs::read_to_string(folder.join("ca.crt")).ok()?;
        let authority = Self { key: KeyPair::from_pem(&key).ok()?, certificate_pem };
        authority.is_usable(now).then_some(authority)
    }

    fn create(folder: &Path, now: SystemTime) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let certificate_pem = authority_params(now).self_signed(&key)?.pem();
        write_private(&folder.join("ca.key"), &key.serialize_pem())?;
        write_private(&folder.join("ca.crt"), &certificate_pem)?;
        tracing::info!(folder = %folder.display(), "made a new certificate authority");
        Ok(Self { key, certificate_pem })
    }

    /// Clients that trust the certificate accept what the key signs, now.
    fn is_usable(&self, now: SystemTime) -> bool {
        let check = || {
            let own = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).ok()?;
            let mut roots = RootCertStore::empty();
            roots.add(own.clone()).ok()?;
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
            let (certificate, _) = self.sign(now).ok()?;
            let elapsed = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let name = ServerName::try_from("localhost").ok()?;
            let now = UnixTime::since_unix_epoch(elapsed);
            // The age of a root is not looked at, that of a server's certificate is, and before anything else.
            let as_server = verifier.verify_server_cert(&own, &[], &name, &[], now).err()?;
            if is_out_of_date(&as_server) {
                return None;
            }
            verifier.verify_server_cert(&certificate, &[], &name, &[], now).ok()
        };
        check().is_some()
    }

    fn sign(&self, now: SystemTime) -> Result<(CertificateDer<'static>, KeyPair), PkiError> {
        let mut params = CertificateParams::new(["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec())?;
        limit_validity(&mut params, now);
        params.distinguished_name = name("modelway-apiserver");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let authority = authority_params(now);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &Issuer::from_params(&authority, &self.key))?;
        Ok((certificate.der().clone(), key))
    }

    fn server_config(&self, now: SystemTime) -> Result<rustls::ServerConfig, PkiError> {
        let (certificate, key) = self.sign(now)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn is_out_of_date(error: &rustls::Error) -> bool {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    matches!(
        error,
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })
    )
}

fn authority_params(now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    limit_validity(&mut params, now);
    params.distinguished_name = name(AUTHORITY_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

/// Valid from yesterday, in whole days.
fn limit_validity(params: &mut CertificateParams, now: SystemTime) {
    let start = now.checked_sub(BACKDATED).unwrap_or(now);
    let date = Timestamp::try_from(start).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC).date();
    let month = date.month().unsigned_abs();
    // The 28th exists in every month of every year.
    let day = date.day().unsigned_abs().min(28);
    let at = |year: i16| rcgen::date_time_ymd(year.into(), month, day);
    params.not_before = at(date.year());
    params.not_after = at(date.year().saturating_add(VALID_YEARS));
}

/// The token in its file; a missing or damaged one is replaced.
fn read_token(path: &Path) -> Result<Token, PkiError> {
    let well_formed = |text: &str| text.len() == 2 * TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(text) = fs::read_to_string(path).ok().filter(|text| well_formed(text.trim())) {
        return Ok(Token(text.trim().into()));
    }
    let mut bytes = [0; TOKEN_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let text = bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    write_private(path, &text)?;
    Ok(Token(text.into()))
}

/// Writes a file that its owner alone can read; a crash leaves the old or the new one.
fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    let fresh = path.with_extension("new");
    let write = || {
        // A leftover could have other permissions.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(|source| PkiError::File { action: "write", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000)
    }

    const YEAR: Duration = Duration::from_hours(365 * 24);

    #[test]
    fn a_restart_keeps_authority_and_token() {
        let folder = tempfile::tempdir().unwrap();
        let first = Pki::open(folder.path(), now()).unwrap();
        let second = Pki::open(folder.path(), now() + 9 * YEAR).unwrap();
        assert_eq!(first.authority_pem(), second.authority_pem());
        assert!(second.token().matches(first.token().0.as_bytes()));
        for file in ["ca.key", "token"] {
            let mode = fs::metadata(folder.path().join("pki").join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn what_cannot_be_used_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let first = Pki::open(folder.path(), now()).unwrap();
        let file = |name: &str| folder.path().join("pki").join(name);
        let other = tempfile::tempdir().unwrap();
        Pki::open(other.path(), now()).unwrap();
        fs::copy(other.path().join("pki/ca.key"), file("ca.key")).unwrap();
        let mixed = Pki::open(folder.path(), now()).unwrap();
        assert_ne!(first.authority_pem(), mixed.authority_pem());
        fs::write(file("ca.crt"), [0xFF, 0xFE]).unwrap();
        fs::write(file("token"), "short").unwrap();
        let third = Pki::open(folder.path(), now()).unwrap();
        assert_ne!(mixed.authority_pem(), third.authority_pem());
        assert_eq!(third.token().0.len(), 64);
        let expired = Pki::open(folder.path(), now() + 11 * YEAR).unwrap();
        assert_ne!(third.authority_pem(), expired.authority_pem());
    }

    #[test]
    fn tokens_match_whole_or_not_at_all() {
        let token = Token::new("abc");
        assert!(token.matches(b"abc"));
        for wrong in [&b"abd"[..], b"ab", b"abcd", b""] {
            assert!(!token.matches(wrong));
        }
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn a_kubeconfig_names_server_authority_and_token() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::open(folder.path(), now()).unwrap();
        let text = pki.kubeconfig("127.0.0.1:6553".parse().unwrap());
        assert!(text.contains("server: https://127.0.0.1:6553\n"));
        assert!(text.contains(&format!("token: {}\n", pki.token().0)));
    }
}
