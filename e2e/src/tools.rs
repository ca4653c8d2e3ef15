//! Optional tools of the suites, such as kubectl.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The kubectl on the `PATH`, if there is one.
pub fn kubectl() -> Option<PathBuf> {
    on_path("kubectl")
}

/// The condition of tests that run kubectl.
pub fn needs_kubectl() -> Result<(), String> {
    kubectl().map(|_| ()).ok_or_else(|| "kubectl is not installed".to_owned())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_are_found() {
        assert!(on_path("sh").is_some_and(|found| found.ends_with("sh")));
        assert_eq!(on_path("there-is-no-such-program"), None);
        assert!(!is_executable(Path::new("/etc/passwd")) && !is_executable(Path::new("/")));
    }
}
