use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use super::*;

const NAME: &str = "compute-domain-daemon";
const FILES: [&str; 3] = [CERTIFICATE, KEY, AUTHORITY];

/// PEM of this kind with meaningless content.
fn pem(kind: &str) -> String {
    format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n")
}

/// A moment in the middle of 2026.
fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_782_000_000))
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn mk_authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2036, 1, 1);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Authority { issuer, pem }
}

fn mk_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2027, 1, 1);
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params
}

/// A Secret's files and their copies.
struct Secret {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Secret {
    fn new() -> Self {
        let secret = Self {
            dir: tempfile::tempdir().unwrap(),
            authority: mk_authority(),
        };
        fs::create_dir(secret.source()).unwrap();
        secret.write(&mk_params(NAME));
        secret
    }

    fn source(&self) -> PathBuf {
        self.dir.path().join("secret")
    }

    fn copies(&self) -> PathBuf {
        self.dir.path().join("made/copies")
    }

    /// Issues a certificate and writes the files.
    fn write(&self, params: &CertificateParams) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority.issuer).unwrap();
        self.put(CERTIFICATE, &certificate.pem());
        self.put(KEY, &key.serialize_pem());
        self.put(AUTHORITY, &self.authority.pem);
    }

    fn put(&self, file: &str, text: &str) {
        fs::write(self.source().join(file), text).unwrap();
    }

    fn certificates(&self) -> Certificates {
        Certificates::new(Directories {
            source: self.source(),
            copies: self.copies(),
            name: NAME.to_owned(),
        })
    }

    fn originals(&self) -> [Vec<u8>; 3] {
        FILES.map(|file| fs::read(self.source().join(file)).unwrap())
    }

    fn copies_of_all(&self) -> [Vec<u8>; 3] {
        FILES.map(|file| self.copy_of(file))
    }

    fn copy_of(&self, file: &str) -> Vec<u8> {
        fs::read(self.copies().join(file)).unwrap()
    }
}

/// The check before `nvidia-imex` starts.
fn install(certificates: &mut Certificates) -> Result<(), String> {
    certificates.look(now());
    certificates.usable()
}

// req: MODE-41, MODE-43
#[test]
fn good_files_are_copied_for_root_only_and_again_when_they_are_renewed() {
    let secret = Secret::new();
    let mut certificates = secret.certificates();
    install(&mut certificates).unwrap();
    assert_eq!(secret.copies_of_all(), secret.originals());
    for file in FILES {
        let mode = fs::metadata(secret.copies().join(file)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }
    let mode = fs::metadata(secret.copies()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(certificates.look(now()), CertificateCheck::default());

    secret.write(&mk_params(NAME));
    let look = certificates.look(now());
    assert_eq!((look.renewed, look.finding), (true, None));
    let renewed = fs::read(secret.source().join(KEY)).unwrap();
    assert_eq!(secret.copy_of(KEY), renewed);
    assert_eq!(certificates.look(now()), CertificateCheck::default());
    assert!(!format!("{certificates:?}").contains("PRIVATE"));
}

type Break = fn(&Secret);

/// Faults of a Secret, with the affected file and the reported reason.
const BREAKS: [(Break, &str, &str); 12] = [
    (
        |it| fs::remove_file(it.source().join(KEY)).unwrap(),
        "tls.key cannot be read",
        "needs tls.crt, tls.key and ca.crt",
    ),
    (
        |it| it.put(CERTIFICATE, ""),
        "tls.crt",
        "contains no PEM certificate",
    ),
    (
        |it| it.put(AUTHORITY, &pem("CERTIFICATE")),
        "ca.crt",
        "not a CA certificate",
    ),
    (
        |it| it.put(KEY, "secret"),
        "tls.key",
        "not a PEM private key",
    ),
    (
        |it| it.put(KEY, &pem("ENCRYPTED PRIVATE KEY")),
        "tls.key",
        "protected by a passphrase",
    ),
    (
        |it| it.put(KEY, &pem("PRIVATE KEY")),
        "tls.key",
        "ECDSA on P-256 or P-384",
    ),
    (
        |it| {
            let mut params = mk_params(NAME);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            it.write(&params);
        },
        "tls.crt",
        "this is a CA certificate",
    ),
    (
        |it| it.put(KEY, &KeyPair::generate().unwrap().serialize_pem()),
        "tls.key",
        "does not match tls.crt",
    ),
    (
        |it| it.put(AUTHORITY, &mk_authority().pem),
        "tls.crt",
        "not signed by ca.crt",
    ),
    (
        |it| it.write(&mk_params("another")),
        "tls.crt",
        "not valid for the name compute-domain-daemon",
    ),
    (
        |it| {
            let mut params = mk_params(NAME);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            it.write(&params);
        },
        "tls.crt",
        "must be valid for both servers and clients",
    ),
    (
        |it| {
            let mut params = mk_params(NAME);
            params.not_after = date_time_ymd(2026, 2, 1);
            it.write(&params);
        },
        "tls.crt",
        "it has expired",
    ),
];

// req: MODE-41
#[test]
fn unusable_files_are_named_with_a_reason_and_the_copies_stay() {
    for (break_it, file, reason) in BREAKS {
        let secret = Secret::new();
        break_it(&secret);
        let refused = install(&mut secret.certificates()).unwrap_err();
        assert!(
            refused.contains(file) && refused.contains(reason),
            "{refused}"
        );
        assert!(!refused.contains("BEGIN"), "{refused}");
        assert!(!secret.copies().exists());

        let secret = Secret::new();
        let mut certificates = secret.certificates();
        install(&mut certificates).unwrap();
        let before = secret.copy_of(KEY);
        break_it(&secret);
        let look = certificates.look(now());
        assert!(!look.renewed && !certificates.are_good(), "{reason}");
        let Some(Finding::Refused(why)) = look.finding else {
            panic!("not reported: {reason}");
        };
        assert!(why.contains(file) && why.contains(reason), "{why}");
        assert_eq!(
            certificates.look(now()),
            CertificateCheck::default(),
            "reported twice"
        );
        // nvidia-imex can start with the earlier copies.
        install(&mut certificates).unwrap();
        assert_eq!(secret.copy_of(KEY), before);

        secret.write(&mk_params(NAME));
        assert!(certificates.look(now()).renewed && certificates.are_good());
    }
}

#[test]
fn certificates_that_expire_within_a_week_are_reported_once() {
    let secret = Secret::new();
    let mut params = mk_params(NAME);
    // Four days after `now`.
    params.not_after = date_time_ymd(2026, 6, 25);
    secret.write(&params);
    let mut certificates = secret.certificates();
    let look = certificates.look(now());
    assert_eq!(look.finding, Some(Finding::EndsSoon));
    assert!(certificates.are_good());
    assert_eq!(certificates.look(now()), CertificateCheck::default());
    install(&mut certificates).unwrap();
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let secret = Secret::new();
    fs::write(secret.dir.path().join("made"), "a file").unwrap();
    let refused = install(&mut secret.certificates()).unwrap_err();
    assert!(refused.contains("made/copies"), "{refused}");
}

// req: MODE-41
#[test]
fn copies_that_cannot_all_be_written_stay_as_they_were() {
    let secret = Secret::new();
    let mut certificates = secret.certificates();
    install(&mut certificates).unwrap();
    let before = secret.copies_of_all();

    // The last one of them.
    let obstacle = secret.copies().join("ca.crt.new");
    fs::create_dir(&obstacle).unwrap();
    secret.write(&mk_params(NAME));
    let look = certificates.look(now());
    assert!(!look.renewed && !certificates.are_good());
    assert_eq!(secret.copies_of_all(), before);
    certificates.usable().unwrap();

    fs::remove_dir(obstacle).unwrap();
    assert!(certificates.look(now()).renewed);
    assert_ne!(secret.copies_of_all(), before);
}

// req: MODE-41
#[test]
fn files_that_kubelet_replaces_during_a_read_are_read_consistently() {
    let secret = Secret::new();
    let source = secret.source();
    // Two certificates with different keys.
    let made = [(); 2].map(|()| {
        secret.write(&mk_params(NAME));
        secret.originals()
    });
    let replace = |round: usize| {
        let dir = source.join(format!("..{round}"));
        fs::create_dir(&dir).unwrap();
        for (file, content) in FILES.iter().zip(&made[round % 2]) {
            fs::write(dir.join(file), content).unwrap();
        }
        symlink(format!("..{round}"), source.join("..tmp")).unwrap();
        fs::rename(source.join("..tmp"), source.join(DATA)).unwrap();
        if let Some(former) = round.checked_sub(1) {
            fs::remove_dir_all(source.join(format!("..{former}"))).unwrap();
        }
    };
    for file in FILES {
        fs::remove_file(source.join(file)).unwrap();
        symlink(format!("{DATA}/{file}"), source.join(file)).unwrap();
    }
    replace(0);
    let mut certificates = secret.certificates();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let rounds = 1..;
            for round in rounds.take_while(|_| !done.load(Ordering::Relaxed)) {
                replace(round);
            }
        });
        let finding = (0..300).find_map(|_| certificates.look(now()).finding);
        done.store(true, Ordering::Relaxed);
        assert_eq!(finding, None);
    });
}
