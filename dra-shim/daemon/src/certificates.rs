//! The certificates of mutual TLS between the members of a clique: a directory with the files of a Secret of the type
//! `kubernetes.io/tls`, as cert-manager makes them, and the copies that `nvidia-imex` reads.
//!
//! kubelet replaces the files when the Secret changes. `nvidia-imex` gets them only after they were checked, since one
//! that cannot read its own refuses every peer.

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

/// The certificate, and those between it and the authority.
const CERTIFICATE: &str = "tls.crt";
/// Its private key.
const KEY: &str = "tls.key";
/// The certificates of the authority.
const AUTHORITY: &str = "ca.crt";

/// Why a key is refused that is one.
const KEYS: &str = "this daemon can check only keys of RSA (2048 bits or more), ECDSA on P-256 or P-384, and Ed25519";

/// Where kubelet has the files that those of the Secret are links to.
const DATA: &str = "..data";

/// How often files are read that others take the place of meanwhile.
const MOST_READS: u32 = 100;

/// What ends within this time is told of.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where certificates come from and go to.
#[derive(Debug, Clone)]
pub(crate) struct Directories {
    /// The Secret's files.
    pub(crate) source: PathBuf,
    /// The copies. In memory, since one is a private key.
    pub(crate) copies: PathBuf,
    /// The name that certificates are for.
    pub(crate) name: String,
}

/// The certificates of this node.
#[derive(Debug)]
pub(crate) struct Certificates {
    directories: Directories,
    /// What the copies are.
    installed: Option<Contents>,
    /// What was told last.
    reported: Option<Finding>,
}

#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
}

/// Both ends of a connection, which look at the other one's certificate.
struct Ends {
    name: ServerName<'static>,
    client: Arc<WebPkiServerVerifier>,
    server: Arc<dyn ClientCertVerifier>,
}

/// What is wrong with the Secret's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// They cannot be used: why, and what to do.
    Refused(String),
    /// They can be used for a few days only.
    EndsSoon,
}

/// What a look at the files has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateCheck {
    /// `nvidia-imex` is to read the copies again.
    pub(crate) renewed: bool,
    /// What has not been told yet.
    pub(crate) finding: Option<Finding>,
}

// === impl Directories ===

impl Directories {
    /// What `nvidia-imex` is told of them.
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

    /// Whether `nvidia-imex` can be started: there are copies, be they of the files as they are or of earlier ones.
    ///
    /// # Errors
    /// Why there are none, as a sentence for people.
    // req: MODE-41
    pub(crate) fn usable(&self) -> Result<(), String> {
        match (&self.installed, &self.reported) {
            (Some(_), _) => Ok(()),
            (None, Some(Finding::Refused(reason))) => Err(reason.clone()),
            (None, _) => Err("the certificates have not been read yet".to_owned()),
        }
    }

    /// Whether the files have changed, and how they are.
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

    /// Whether the files can be used now.
    pub(crate) fn are_good(&self) -> bool {
        !matches!(self.reported, Some(Finding::Refused(_)))
    }

    fn check(&self, now: UnixTime) -> Result<(Contents, Option<Finding>), String> {
        let Directories { source, name, .. } = &self.directories;
        let contents = Contents::read(source)?;
        let finding = contents.check(source, name, now)?;
        Ok((contents, finding))
    }

    /// Copies them, unless they are what the copies are. Returns whether there were others.
    fn take(&mut self, contents: Contents) -> Result<bool, String> {
        if self.installed.as_ref() == Some(&contents) {
            return Ok(false);
        }
        self.copy(&contents).map_err(|error| {
            format!(
                "the certificates cannot be copied to {}: {error}; the pod needs an emptyDir there",
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
            // Nobody else reads it at any time: the directory is root's.
            fs::write(new(file), content)?;
            fs::set_permissions(new(file), Permissions::from_mode(0o600))?;
        }
        // Only once there is room for all: they are of use together.
        for (file, _) in contents.files() {
            fs::rename(new(file), dir.join(file))?;
        }
        Ok(())
    }
}

// === impl Contents ===

impl Contents {
    /// All three as they were at one moment. *Fact*: kubelet makes new files in a directory of their own, and lets the
    /// link `..data` lead there.
    fn read(dir: &Path) -> Result<Self, String> {
        let mut attempts = 0;
        loop {
            let made = || fs::read_link(dir.join(DATA)).ok();
            let before = made();
            let contents = Self::read_once(dir);
            attempts += 1;
            if made() == before || attempts == MOST_READS {
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

    /// Whether both ends of a connection would accept it now, and still in a week.
    fn check(&self, dir: &Path, name: &str, now: UnixTime) -> Result<Option<Finding>, String> {
        let wrong = |file: &str, what: &str| {
            let path = dir.join(file);
            format!("{}: {what}; have the Secret made again", path.display())
        };
        let chain = chain(&self.certificate).map_err(|what| wrong(CERTIFICATE, &what))?;
        let authority =
            chain_of_authority(&self.authority).map_err(|what| wrong(AUTHORITY, &what))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            wrong(
                KEY,
                &format!("no private key in PEM without a passphrase ({error})"),
            )
        })?;
        let provider = Arc::new(default_provider());
        match CertifiedKey::from_der(chain.clone(), key, &provider) {
            Ok(_) => {}
            Err(Error::InconsistentKeys(_)) => {
                return Err(wrong(KEY, &format!("it is not the key of {CERTIFICATE}")));
            }
            Err(error) => return Err(wrong(KEY, &format!("{KEYS} ({error})"))),
        }
        let refused = |error: Error| wrong(CERTIFICATE, &sentence(&error, name));
        let ends = Ends::new(authority, name, &provider).map_err(refused)?;
        ends.verify(&chain, now).map_err(refused)?;
        let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + SOON);
        let ends_soon = ends.verify(&chain, later).is_err();
        Ok(ends_soon.then_some(Finding::EndsSoon))
    }
}

impl std::fmt::Debug for Contents {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if all.is_empty() => Err("no certificate in PEM".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("no certificate in PEM ({error})")),
    }
}

fn chain_of_authority(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in chain(pem)? {
        let added = store.add(certificate);
        added.map_err(|error| format!("no certificate of an authority ({error})"))?;
    }
    Ok(store)
}

// === impl Ends ===

impl Ends {
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
            format!("{AUTHORITY} has not signed it, or it lacks a certificate between them")
        }
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "it is not for servers and clients (extended key usage)".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!("it is not for the name {name} (subject alternative names)"),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "it has expired".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "it is not valid yet".to_owned(),
        Error::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => "it is signed in a way that this daemon cannot check, such as by SHA-1".to_owned(),
        // Only the text tells it from others.
        error if error.to_string().contains("CaUsedAsEndEntity") => {
            "it is an authority's own (basic constraints CA:TRUE), and no node's".to_owned()
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
