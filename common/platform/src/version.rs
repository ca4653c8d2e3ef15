//! What this build is, in the words of the protocol.

use std::{env::consts, sync::OnceLock};

/// The Kubernetes release whose behaviour is implemented, and this build of it.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    /// `1`
    pub major: &'static str,
    /// `36`
    pub minor: &'static str,
    /// `1.36`
    pub minor_version: &'static str,
    /// `1.35`
    pub previous_minor_version: &'static str,
    /// `v1.36.2`
    pub git_version: &'static str,
    /// Commit this was built from, as far as the build knew it.
    pub commit: &'static str,
}

/// This build.
pub const VERSION: Version = Version {
    major: "1",
    minor: "36",
    minor_version: "1.36",
    previous_minor_version: "1.35",
    git_version: "v1.36.2",
    commit: match option_env!("NONET_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
};

static PROGRAM: OnceLock<&str> = OnceLock::new();

/// States the version of the controller that this process is. The first call counts.
pub fn set_program(version: &'static str) {
    PROGRAM.get_or_init(|| version);
}

/// Version of the controller that this process is; that of this crate in programs that are no controller.
pub fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// The operating system, as Go names it.
pub fn os() -> &'static str {
    if consts::OS == "macos" { "darwin" } else { consts::OS }
}

/// The architecture, as Go names it.
pub fn arch() -> &'static str {
    match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
