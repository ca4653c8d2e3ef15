//! Temporary directories, which are removed when they are dropped.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use super::Error;

/// A directory of this process alone, removed when this is dropped.
#[derive(Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// A new directory among temporary files.
    pub fn new(purpose: &str) -> Result<Self, Error> {
        Self::inside(&std::env::temp_dir(), purpose)
    }

    /// A new directory in memory, where the system has such a place; among temporary files otherwise.
    pub fn in_memory(purpose: &str) -> Result<Self, Error> {
        Self::inside(Path::new("/dev/shm"), purpose).or_else(|_| Self::new(purpose))
    }

    fn inside(parent: &Path, purpose: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("nonet-{purpose}-{}-{count}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Left behind by an earlier process of the same id.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::Io(format!("cannot make {}", path.display()), e)),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), err = %error, "Could not be removed");
        }
    }
}

/// Writes a file that only this user can read.
pub fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write as _;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let result = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    result.map_err(|e| Error::Io(format!("cannot write {}", path.display()), e))
}
