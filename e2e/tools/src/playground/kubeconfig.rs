//! The kubeconfig of the playground.

use std::{
    fs, io,
    io::Write as _,
    net::{SocketAddr, TcpStream},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The name of the cluster in the kubeconfigs.
const CLUSTER: &str = "sandbox";

/// A kubeconfig on disk. Dropping this removes the file, unless its content was changed.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    path: PathBuf,
    text: String,
}

impl KubeconfigFile {
    /// Writes a kubeconfig that only this user can read. A file that a playground left behind is replaced.
    pub(super) fn write(path: &Path, text: String) -> Result<Self> {
        let shown = path.display();
        let found = match fs::read_to_string(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            found => Some(found.with_context(|| format!("cannot read {shown}"))?),
        };
        if let Some(found) = found {
            ensure!(is_ours(&found), "{shown} exists and is not the kubeconfig of a playground; it is not overwritten");
            ensure!(
                !answers(&found),
                "{shown} belongs to a playground that is still running; choose another file, or stop that playground"
            );
            fs::remove_file(path).with_context(|| format!("cannot remove {shown}"))?;
        }
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        // Users paste the command in other directories.
        let path = written.and_then(|()| fs::canonicalize(path)).with_context(|| format!("cannot write {shown}"))?;
        Ok(Self { path, text })
    }

    /// The command that sets `KUBECONFIG`.
    pub(super) fn export(&self) -> String {
        let path = self.path.display().to_string();
        let plain = path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&b));
        if plain {
            format!("export KUBECONFIG={path}")
        } else {
            format!("export KUBECONFIG='{}'", path.replace('\'', r"'\''"))
        }
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        if fs::read_to_string(&self.path).is_ok_and(|found| found == self.text) {
            // An error means that the file is already gone.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether a playground has written this text.
fn is_ours(text: &str) -> bool {
    let Ok(config) = serde_json::from_str::<Value>(text) else { return false };
    let clusters = config["clusters"].as_array().map_or(0, Vec::len);
    clusters == 1 && config["clusters"][0]["name"] == CLUSTER && config["current-context"] == CLUSTER
}

/// Time limit of a connection to a server on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Whether the server of a kubeconfig accepts connections.
fn answers(text: &str) -> bool {
    let Ok(config) = serde_json::from_str::<Value>(text) else { return false };
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap_or_default();
    let address = server.rsplit_once("//").map_or(server, |(_, address)| address);
    let address: Option<SocketAddr> = address.parse().ok();
    address.is_some_and(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cluster::Directory, sandbox};

    #[tokio::test]
    async fn only_kubeconfigs_of_playgrounds_are_overwritten() {
        let directory = Directory::new("kubeconfig").unwrap();
        let path = directory.path().join("con'fig");
        let server = sandbox::Sandbox::builder().build();
        let server = server.serve(([127, 0, 0, 1], 0).into(), sandbox::Tls::Off).await.unwrap();
        let text = server.kubeconfig();
        fs::write(&path, &text).unwrap();
        let error = KubeconfigFile::write(&path, text.clone()).unwrap_err().to_string();
        assert!(error.contains("still running"), "{error}");
        server.shutdown().await;
        let file = KubeconfigFile::write(&path, format!("{text}\n")).unwrap();
        assert!(file.export().ends_with(r"con'\''fig'"), "{}", file.export());
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: []\n").unwrap();
        let error = KubeconfigFile::write(&path, text).unwrap_err().to_string();
        assert!(error.contains("not overwritten"), "{error}");
        assert!(path.exists());
    }
}
