//! The directory that the daemon shares with `nvidia-imex` and the kubelet plugin.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use compute_domain_api::driver_managed::{
    CONFIG_FILE, DaemonState, NODE_LIST_FILE, SOCKET_FILE, STATE_FILE,
};

use crate::certificates::Directories;
use crate::core::membership::StartConfig;

/// The directory, and the settings of `nvidia-imex` except the members.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub(crate) dir: PathBuf,
    /// The port for connections between members.
    pub(crate) port: u16,
    /// The command port inside the pod, in addition to the socket.
    pub(crate) command_port: u16,
    /// The certificates' directories, if the members connect by mutual TLS.
    pub(crate) tls: Option<Directories>,
}

// === impl Files ===

impl Files {
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join(CONFIG_FILE)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join(SOCKET_FILE)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join(STATE_FILE)
    }

    /// Creates the directory and writes the files that `nvidia-imex` reads when it starts.
    // req: DAEMON-3
    pub(crate) fn write_config(&self, start_config: &StartConfig) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let mut names = String::new();
        for name in start_config
            .scheme
            .host_names(&start_config.clique, start_config.length)
        {
            names.extend([name.as_str(), "\n"]);
        }
        ensure(&self.dir.join(NODE_LIST_FILE), names.as_bytes())?;
        ensure(&self.config(), self.config_text().as_bytes())?;
        Ok(())
    }

    /// Writes the state file, unless it is up to date.
    pub(crate) fn write_state(&self, state: &DaemonState) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let mut text = serde_json::to_vec(state)?;
        text.push(b'\n');
        ensure(&self.state(), &text)
    }

    /// Runs in the foreground, logs to its output (which this daemon reads), and takes commands only from this pod.
    fn config_text(&self) -> String {
        let Self {
            port, command_port, ..
        } = self;
        let (nodes, socket) = (self.dir.join(NODE_LIST_FILE), self.socket());
        format!(
            "# Written by compute-domain-daemon before each start of nvidia-imex.\n\
             DAEMONIZE=0\n\
             LOG_LEVEL=4\n\
             LOG_FILE_NAME=\n\
             SERVER_PORT={port}\n\
             IMEX_NODE_CONFIG_FILE={}\n\
             IMEX_WAIT_FOR_QUORUM=RECOVERY\n\
             IMEX_CMD_ENABLED=1\n\
             IMEX_CMD_UNIX_DOMAIN_PATH={}\n\
             IMEX_CMD_BIND_INTERFACE_IP=127.0.0.1\n\
             IMEX_CMD_PORT={command_port}\n",
            nodes.display(),
            socket.display(),
        ) + &self
            .tls
            .as_ref()
            .map(Directories::config_text)
            .unwrap_or_default()
    }
}

/// Replaces the file atomically if its content differs. Not durable: a reboot removes the
/// directory and makes its content obsolete.
fn ensure(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|current| current == content) {
        return Ok(());
    }
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use compute_domain_api::driver_managed::{DaemonPhase, NameScheme};

    use super::*;

    fn mk_files() -> (tempfile::TempDir, Files) {
        let temporary = tempfile::tempdir().unwrap();
        let files = Files {
            dir: temporary.path().join("made/anew"),
            port: 50000,
            command_port: 50005,
            tls: None,
        };
        (temporary, files)
    }

    // req: DAEMON-3
    #[test]
    fn the_node_list_has_every_name_of_the_clique() {
        let (_dir, files) = mk_files();
        let start_config = StartConfig {
            clique: "c.0".to_owned(),
            index: 1,
            length: 3,
            scheme: NameScheme::Hash10,
        };
        files.write_config(&start_config).unwrap();
        let names = fs::read_to_string(files.dir.join("nodes.cfg")).unwrap();
        assert_eq!(names.lines().count(), 3);
        assert_eq!(names.lines().nth(1), Some(start_config.own_name().as_str()));
        let config = fs::read_to_string(files.config()).unwrap();
        let socket = format!("IMEX_CMD_UNIX_DOMAIN_PATH={}\n", files.socket().display());
        assert!(config.contains(&socket), "{config}");
    }

    // req: MODE-40
    #[test]
    fn with_certificates_both_ends_have_the_same_ones() {
        let (_dir, mut files) = mk_files();
        assert!(!files.config_text().contains("AUTH"));
        files.tls = Some(Directories {
            source: "/secret".into(),
            copies: "/copies".into(),
            name: "daemon".to_owned(),
        });
        let config = files.config_text();
        for line in [
            "IMEX_ENABLE_AUTH_ENCRYPTION=1",
            "IMEX_AUTH_ENCRYPTION_MODE=SSL_TLS",
            "IMEX_AUTH_SOURCE=FILE",
            "IMEX_SERVER_KEY=/copies/tls.key",
            "IMEX_SERVER_CERT=/copies/tls.crt",
            "IMEX_SERVER_CERT_AUTH=/copies/ca.crt",
            "IMEX_CLIENT_KEY=/copies/tls.key",
            "IMEX_CLIENT_CERT=/copies/tls.crt",
            "IMEX_CLIENT_CERT_AUTH=/copies/ca.crt",
            "IMEX_SECURITY_TARGET_OVERRIDE=daemon",
        ] {
            assert!(config.lines().any(|it| it == line), "{line}: {config}");
        }
    }

    #[test]
    fn a_removed_state_file_is_written_again() {
        let (_dir, files) = mk_files();
        let state = DaemonState {
            boot_id: "b".to_owned(),
            pod_uid: "p".to_owned(),
            clique: String::new(),
            index: -1,
            place: None,
            address: "10.0.0.1".to_owned(),
            phase: DaemonPhase::Starting,
            reason: "r".to_owned(),
        };
        files.write_state(&state).unwrap();
        fs::remove_dir_all(&files.dir).unwrap();
        files.write_state(&state).unwrap();
        let read = serde_json::from_slice::<DaemonState>(&fs::read(files.state()).unwrap());
        assert_eq!(read.unwrap(), state);
    }
}
