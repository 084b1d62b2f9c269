//! Mutual TLS between the daemons, if configured: real TLS, with certificates from files.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::config::Config;

/// A connection between two daemons.
pub trait Stream: Read + Write + Send {
    /// The socket, for timeouts.
    fn socket(&self) -> &TcpStream;
}

/// How daemons connect.
#[derive(Debug, Default)]
pub struct Transport(Option<Tls>);

/// One end's key, certificate and authority.
#[derive(Debug)]
struct End {
    key: PathBuf,
    certificate: PathBuf,
    authority: PathBuf,
}

#[derive(Debug)]
struct Tls {
    server: End,
    client: End,
    name: ServerName<'static>,
    /// The configurations from the last successful read.
    configs: Mutex<(Arc<ServerConfig>, Arc<ClientConfig>)>,
}

// === impl Transport ===

impl Transport {
    /// Reads the configuration, and the certificates that it names.
    ///
    /// # Errors
    /// One line that names the key or the file.
    pub fn new(config: &Config) -> Result<Self, String> {
        if !config.is_on("IMEX_ENABLE_AUTH_ENCRYPTION") {
            return Ok(Self(None));
        }
        for (key, only) in [
            ("IMEX_AUTH_ENCRYPTION_MODE", "SSL_TLS"),
            ("IMEX_AUTH_SOURCE", "FILE"),
        ] {
            if config.get(key) != Some(only) {
                return Err(format!("the stand-in supports only {key}={only}"));
            }
        }
        let end = |end: &str| {
            let path = |what: &str| {
                let key = format!("IMEX_{end}_{what}");
                let path = config.get(&key).map(PathBuf::from);
                path.ok_or_else(|| format!("{key} is empty"))
            };
            Ok::<_, String>(End {
                key: path("KEY")?,
                certificate: path("CERT")?,
                authority: path("CERT_AUTH")?,
            })
        };
        let (server, client) = (end("SERVER")?, end("CLIENT")?);
        let name = config.get("IMEX_SECURITY_TARGET_OVERRIDE");
        let name = name.ok_or("the stand-in needs IMEX_SECURITY_TARGET_OVERRIDE")?;
        let name = ServerName::try_from(name.to_owned()).map_err(|err| err.to_string())?;
        let configs = Mutex::new(read(&server, &client)?);
        Ok(Self(Some(Tls {
            server,
            client,
            name,
            configs,
        })))
    }

    /// Handles SIGUSR1: reads the certificates again. Keeps the old ones if that fails.
    ///
    /// # Errors
    /// One line that names the file.
    pub fn reload(&self) -> Result<(), String> {
        let Some(tls) = &self.0 else { return Ok(()) };
        let new = read(&tls.server, &tls.client)?;
        *tls.configs.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The dialling end of a connection.
    ///
    /// # Errors
    /// The other node's certificate or this node's is not from the authority.
    pub fn dial(&self, socket: TcpStream) -> io::Result<Box<dyn Stream>> {
        let Some(tls) = &self.0 else {
            return Ok(Box::new(socket));
        };
        let (_, config) = tls.configs();
        let client = ClientConnection::new(config, tls.name.clone()).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(client, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Box::new(stream))
    }

    /// The accepting end of a connection.
    ///
    /// # Errors
    /// As [`dial`](Self::dial).
    pub fn accept(&self, socket: TcpStream) -> io::Result<Box<dyn Stream>> {
        let Some(tls) = &self.0 else {
            return Ok(Box::new(socket));
        };
        let (config, _) = tls.configs();
        let server = ServerConnection::new(config).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(server, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Box::new(stream))
    }
}

// === impl Tls ===

impl Tls {
    fn configs(&self) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        configs.clone()
    }
}

// === impl End ===

impl End {
    fn own(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
        let chain = certificates(&self.certificate)?;
        let path = self.key.display();
        let key = PrivateKeyDer::from_pem_file(&self.key);
        Ok((chain, key.map_err(|err| format!("{path}: {err}"))?))
    }

    fn authorities(&self) -> Result<Arc<RootCertStore>, String> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            let added = store.add(certificate);
            added.map_err(|err| format!("{}: {err}", self.authority.display()))?;
        }
        Ok(Arc::new(store))
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let pem = fs::read(path).map_err(|err| format!("cannot read {shown}: {err}"))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    all.map_err(|err| format!("{shown}: {err}"))
}

fn read(server: &End, client: &End) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), String> {
    let provider = Arc::new(default_provider());
    let said = |err: &dyn ToString| err.to_string();
    let (chain, key) = server.own()?;
    let clients =
        WebPkiClientVerifier::builder_with_provider(server.authorities()?, provider.clone());
    let clients = clients.build().map_err(|err| said(&err))?;
    let of_server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|err| said(&err))?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .map_err(|err| said(&err))?;
    let (chain, key) = client.own()?;
    let of_client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| said(&err))?
        .with_root_certificates(client.authorities()?)
        .with_client_auth_cert(chain, key)
        .map_err(|err| said(&err))?;
    Ok((Arc::new(of_server), Arc::new(of_client)))
}
