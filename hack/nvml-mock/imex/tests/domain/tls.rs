//! Daemons with certificates: only those with the same authority connect.

use std::fmt::Write as _;
use std::fs;

use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::node::{HOSTS, Node, next_port};

const NAME: &str = "compute-domain-daemon";

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn mk_authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Authority { issuer, pem }
}

/// Gives a node a certificate of this authority.
fn certify(node: &Node, authority: &Authority) {
    let params = CertificateParams::new([NAME.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    fs::write(node.path("tls.crt"), certificate.pem()).unwrap();
    fs::write(node.path("tls.key"), key.serialize_pem()).unwrap();
    fs::write(node.path("ca.crt"), &authority.pem).unwrap();
}

fn configure(node: &Node) {
    let path = |file| node.path(file).display().to_string();
    let (certificate, key, authority) = (path("tls.crt"), path("tls.key"), path("ca.crt"));
    let mut config = fs::read_to_string(node.path("imex.cfg")).unwrap();
    config +=
        "IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=SSL_TLS\nIMEX_AUTH_SOURCE=FILE\n";
    for end in ["SERVER", "CLIENT"] {
        let _ = write!(
            config,
            "IMEX_{end}_KEY={key}\nIMEX_{end}_CERT={certificate}\nIMEX_{end}_CERT_AUTH={authority}\n"
        );
    }
    let _ = writeln!(config, "IMEX_SECURITY_TARGET_OVERRIDE={NAME}");
    fs::write(node.path("imex.cfg"), config).unwrap();
}

fn start(node: &mut Node) {
    node.start();
    node.until("ready", |node| node.state() == "READY\n");
}

#[test]
fn only_nodes_with_certificates_of_the_same_authority_connect() {
    let (port, ours, others) = (next_port(), mk_authority(), mk_authority());
    let mut nodes = HOSTS.map(|(address, _)| Node::new(port, address, &HOSTS));
    for (node, authority) in nodes.iter().zip([&ours, &ours, &others]) {
        certify(node, authority);
        configure(node);
    }
    nodes.iter_mut().for_each(start);
    let [a, b, c] = &nodes;
    a.until("connected", |a| a.link("1") == "CONNECTED");
    b.until("connected", |b| b.link("0") == "CONNECTED");
    c.until("not dialled", |c| c.log().contains("not dialled"));
    a.until("not served", |a| a.log().contains("not served"));
    assert_eq!(c.link("0"), "NEVER_CONNECTED");
    assert_eq!(a.link("2"), "NEVER_CONNECTED");

    let mut plain = Node::new(port, HOSTS[2].0, &HOSTS);
    nodes[2].signal(Signal::SIGTERM);
    nodes[2].wait();
    start(&mut plain);
    plain.until("tries", |_| {
        nodes[0].log().matches("not served").count() > 1
    });
    assert_ne!(plain.link("0"), "CONNECTED");
}

#[test]
fn sigusr1_reloads_certificates_and_keeps_the_old_ones_if_that_fails() {
    let (port, before, after) = (next_port(), mk_authority(), mk_authority());
    let mut nodes = [0, 1].map(|index| Node::new(port, HOSTS[index].0, &HOSTS));
    for node in &nodes {
        certify(node, &before);
        configure(node);
    }
    nodes.iter_mut().for_each(start);
    let [a, b] = &nodes;
    a.until("connected", |a| a.link("1") == "CONNECTED");

    fs::write(a.path("tls.key"), "nothing").unwrap();
    a.signal(Signal::SIGUSR1);
    a.until("failure logged", |a| {
        a.log().contains("certificates are not read")
    });
    a.until("connected again", |a| a.link("1") == "CONNECTED");

    // A new authority: they connect again when both have read it.
    for node in [a, b] {
        certify(node, &after);
    }
    b.signal(Signal::SIGUSR1);
    b.until("refused by a", |b| b.log().contains("not dialled"));
    a.until("signalled", |a| {
        a.signal(Signal::SIGUSR1);
        a.log().contains("all names are resolved again\n")
    });
    for (node, other) in [(a, "1"), (b, "0")] {
        node.until("connected", |node| node.link(other) == "CONNECTED");
    }
}

#[test]
fn a_configuration_without_a_key_file_is_refused_and_the_error_names_the_option() {
    let node = &mut Node::new(next_port(), HOSTS[0].0, &HOSTS);
    let mut config = fs::read_to_string(node.path("imex.cfg")).unwrap();
    config +=
        "IMEX_ENABLE_AUTH_ENCRYPTION=1\nIMEX_AUTH_ENCRYPTION_MODE=SSL_TLS\nIMEX_AUTH_SOURCE=FILE\n";
    fs::write(node.path("imex.cfg"), config).unwrap();
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(
        node.log().contains("IMEX_SERVER_KEY is empty"),
        "{}",
        node.log()
    );
}
