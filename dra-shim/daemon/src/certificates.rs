//! Certificates for mutual TLS between the members of a clique: the files of a Secret of type `kubernetes.io/tls`, such
//! as cert-manager creates, and the copies that `nvidia-imex` reads.
//!
//! kubelet replaces the files when the Secret changes. They are copied for `nvidia-imex` only after a check: if
//! `nvidia-imex` cannot read its own certificate, it refuses every peer.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, RootCertStore};

/// The certificate and its intermediate certificates.
const CERTIFICATE: &str = "tls.crt";
/// Its private key.
const KEY: &str = "tls.key";
/// The certificates of the certificate authority.
const AUTHORITY: &str = "ca.crt";

/// Why a valid key is refused.
const KEYS: &str =
    "unsupported key: use RSA (2048 bits or more), ECDSA on P-256 or P-384, or Ed25519";

/// kubelet's link to the directory with the current files. The Secret's files link into it.
const DATA: &str = "..data";

/// Maximum number of reads while the files are being replaced.
const MAX_READS: u32 = 100;

/// A certificate that expires within this time is reported.
const EXPIRY_WARNING: Duration = Duration::from_secs(7 * 24 * 3600);

/// Source and destination of the certificates.
#[derive(Debug, Clone)]
pub(crate) struct Directories {
    /// The Secret's files.
    pub(crate) source: PathBuf,
    /// The copies. In memory, since one is a private key.
    pub(crate) copies: PathBuf,
    /// The name that certificates must be valid for.
    pub(crate) name: String,
}

/// The certificates of this node.
#[derive(Debug)]
pub(crate) struct Certificates {
    directories: Directories,
    /// The content of the copies.
    installed: Option<Contents>,
    /// The last reported finding.
    reported: Option<Finding>,
}

#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
}

/// Verifiers for both ends of a connection.
struct PeerVerifiers {
    name: ServerName<'static>,
    client: Arc<WebPkiServerVerifier>,
    server: Arc<dyn ClientCertVerifier>,
}

/// A problem with the Secret's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// They cannot be used: the reason and what to do.
    Refused(String),
    /// They expire within a few days.
    EndsSoon,
}

/// Result of a check of the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateCheck {
    /// Whether `nvidia-imex` must reload the copies.
    pub(crate) renewed: bool,
    /// A finding that has not been reported yet.
    pub(crate) finding: Option<Finding>,
}

// === impl Directories ===

impl Directories {
    /// The lines of `nvidia-imex`'s configuration.
    // req: MODE-40
    pub(crate) fn config_text(&self) -> String {
        let path = |file| self.copies.join(file).display().to_string();
        let (certificate, key, authority) = (path(CERTIFICATE), path(KEY), path(AUTHORITY));
        format!(
            "IMEX_ENABLE_AUTH_ENCRYPTION=1\n\
             IMEX_AUTH_ENCRYPTION_MODE=SSL_TLS\n\
             IMEX_AUTH_SOURCE=FILE\n\
             IMEX_SERVER_KEY={key}\n\
             IMEX_SERVER_CERT={certificate}\n\
             IMEX_SERVER_CERT_AUTH={authority}\n\
             IMEX_CLIENT_KEY={key}\n\
             IMEX_CLIENT_CERT={certificate}\n\
             IMEX_CLIENT_CERT_AUTH={authority}\n\
             IMEX_SECURITY_TARGET_OVERRIDE={}\n",
            self.name
        )
    }
}

// === impl Certificates ===

impl Certificates {
    pub(crate) fn new(directories: Directories) -> Self {
        Self {
            directories,
            installed: None,
            reported: None,
        }
    }

    /// Checks that `nvidia-imex` can be started: there are copies, of the current or of earlier files.
    ///
    /// # Errors
    /// Why there are no copies, as a sentence.
    // req: MODE-41
    pub(crate) fn usable(&self) -> Result<(), String> {
        match (&self.installed, &self.reported) {
            (Some(_), _) => Ok(()),
            (None, Some(Finding::Refused(reason))) => Err(reason.clone()),
            (None, _) => Err("the certificates have not been read yet".to_owned()),
        }
    }

    /// Checks the files, and copies them if they have changed and are valid.
    // req: MODE-41, MODE-42
    pub(crate) fn look(&mut self, now: UnixTime) -> CertificateCheck {
        let mut look = CertificateCheck::default();
        let checked = self.check(now).and_then(|(contents, finding)| {
            look.renewed = self.take(contents)?;
            Ok(finding)
        });
        let finding = checked.unwrap_or_else(|reason| Some(Finding::Refused(reason)));
        if finding != self.reported {
            look.finding.clone_from(&finding);
            self.reported = finding;
        }
        look
    }

    /// Whether the files can be used.
    pub(crate) fn are_good(&self) -> bool {
        !matches!(self.reported, Some(Finding::Refused(_)))
    }

    fn check(&self, now: UnixTime) -> Result<(Contents, Option<Finding>), String> {
        let Directories { source, name, .. } = &self.directories;
        let contents = Contents::read(source)?;
        let finding = contents.check(source, name, now)?;
        Ok((contents, finding))
    }

    /// Copies the files unless the copies are up to date. Returns whether this replaced earlier copies.
    fn take(&mut self, contents: Contents) -> Result<bool, String> {
        if self.installed.as_ref() == Some(&contents) {
            return Ok(false);
        }
        self.copy(&contents).map_err(|error| {
            format!(
                "the certificates cannot be copied to {}: {error}; the pod needs an emptyDir at this path",
                self.directories.copies.display()
            )
        })?;
        Ok(self.installed.replace(contents).is_some())
    }

    // req: MODE-43
    fn copy(&self, contents: &Contents) -> io::Result<()> {
        let dir = &self.directories.copies;
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        let new = |file| dir.join(format!("{file}.new"));
        for (file, content) in contents.files() {
            // No other user can read it at any time: only root can enter the directory.
            fs::write(new(file), content)?;
            fs::set_permissions(new(file), Permissions::from_mode(0o600))?;
        }
        // Only after all are written: they belong together.
        for (file, _) in contents.files() {
            fs::rename(new(file), dir.join(file))?;
        }
        Ok(())
    }
}

// === impl Contents ===

impl Contents {
    /// Reads a consistent snapshot of all three files. *Fact*: kubelet creates new files in a new directory, and then
    /// changes the link `..data` to it.
    fn read(dir: &Path) -> Result<Self, String> {
        let mut attempts = 0;
        loop {
            let made = || fs::read_link(dir.join(DATA)).ok();
            let before = made();
            let contents = Self::read_once(dir);
            attempts += 1;
            if made() == before || attempts == MAX_READS {
                return contents;
            }
        }
    }

    fn read_once(dir: &Path) -> Result<Self, String> {
        let read = |file: &str| {
            let path = dir.join(file);
            fs::read(&path).map_err(|error| {
                format!(
                    "{} cannot be read: {error}; the Secret of imex.tlsSecret needs {CERTIFICATE}, {KEY} and {AUTHORITY}",
                    path.display()
                )
            })
        };
        Ok(Self {
            certificate: read(CERTIFICATE)?,
            key: read(KEY)?,
            authority: read(AUTHORITY)?,
        })
    }

    fn files(&self) -> [(&'static str, &[u8]); 3] {
        [
            (CERTIFICATE, &self.certificate),
            (KEY, &self.key),
            (AUTHORITY, &self.authority),
        ]
    }

    /// Checks that both ends of a connection accept the certificate now. Reports if they do not in a week.
    fn check(&self, dir: &Path, name: &str, now: UnixTime) -> Result<Option<Finding>, String> {
        let wrong = |file: &str, what: &str| {
            let path = dir.join(file);
            format!("{}: {what}; recreate the Secret", path.display())
        };
        let chain = chain(&self.certificate).map_err(|what| wrong(CERTIFICATE, &what))?;
        let authority =
            chain_of_authority(&self.authority).map_err(|what| wrong(AUTHORITY, &what))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            wrong(
                KEY,
                &format!("not a PEM private key, or protected by a passphrase ({error})"),
            )
        })?;
        let provider = Arc::new(default_provider());
        match CertifiedKey::from_der(chain.clone(), key, &provider) {
            Ok(_) => {}
            Err(Error::InconsistentKeys(_)) => {
                return Err(wrong(KEY, &format!("does not match {CERTIFICATE}")));
            }
            Err(error) => return Err(wrong(KEY, &format!("{KEYS} ({error})"))),
        }
        let refused = |error: Error| wrong(CERTIFICATE, &sentence(&error, name));
        let ends = PeerVerifiers::new(authority, name, &provider).map_err(refused)?;
        ends.verify(&chain, now).map_err(refused)?;
        let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + EXPIRY_WARNING);
        let ends_soon = ends.verify(&chain, later).is_err();
        Ok(ends_soon.then_some(Finding::EndsSoon))
    }
}

impl std::fmt::Debug for Contents {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("contains no PEM certificate".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("contains no PEM certificate ({error})")),
    }
}

fn chain_of_authority(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in chain(pem)? {
        let added = store.add(certificate);
        added.map_err(|error| format!("not a CA certificate ({error})"))?;
    }
    Ok(store)
}

// === impl Ends ===

impl PeerVerifiers {
    fn new(
        authority: RootCertStore,
        name: &str,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Error> {
        let authority = Arc::new(authority);
        let general = |error: &dyn ToString| Error::General(error.to_string());
        let name = ServerName::try_from(name.to_owned()).map_err(|error| general(&error))?;
        let client =
            WebPkiServerVerifier::builder_with_provider(authority.clone(), provider.clone());
        let server = WebPkiClientVerifier::builder_with_provider(authority, provider.clone());
        Ok(Self {
            name,
            client: client.build().map_err(|error| general(&error))?,
            server: server.build().map_err(|error| general(&error))?,
        })
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let Some((own, between)) = chain.split_first() else {
            return Err(Error::NoCertificatesPresented);
        };
        self.client
            .verify_server_cert(own, between, &self.name, &[], now)?;
        self.server.verify_client_cert(own, between, now).map(drop)
    }
}

fn sentence(error: &Error, name: &str) -> String {
    match error {
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            format!("not signed by {AUTHORITY}, or an intermediate certificate is missing")
        }
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "must be valid for both servers and clients (extended key usage)".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("not valid for the name {name} (subject alternative names)"),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "it has expired".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "it is not valid yet".to_owned(),
        Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => "unsupported signature algorithm, such as SHA-1".to_owned(),
        // Only the error's text distinguishes it.
        error if error.to_string().contains("CaUsedAsEndEntity") => {
            "this is a CA certificate (basic constraints CA:TRUE), not the certificate of a node"
                .to_owned()
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
