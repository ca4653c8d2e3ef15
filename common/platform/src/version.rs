//! The version of this build, in the form that Kubernetes' `/version` uses.

use std::{env::consts, sync::OnceLock};

/// The implemented Kubernetes release, and the commit of this build.
#[derive(Clone, Copy, Debug)]
pub struct BuildVersion {
    /// Major and minor version of Kubernetes, for example `1.36`.
    pub major_and_minor: &'static str,
    /// The minor version before [`BuildVersion::major_and_minor`], for example `1.35`.
    pub previous_major_and_minor: &'static str,
    /// Release of Kubernetes in the form of its Git tag, for example `v1.36.2`.
    pub git_version: &'static str,
    /// Commit of this build from `NONET_COMMIT`; `unknown` if the variable was not set at build time.
    pub commit: &'static str,
}

/// The Kubernetes release that this build implements, with the commit of this build.
pub const KUBERNETES_VERSION: BuildVersion = BuildVersion {
    major_and_minor: "1.36",
    previous_major_and_minor: "1.35",
    git_version: "v1.36.2",
    commit: match option_env!("NONET_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
};

static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Sets the version of the controller that runs in this process. Only the first call has an effect.
pub fn set_program_version(version: &'static str) {
    PROGRAM.get_or_init(|| version);
}

/// Returns the version of the controller that runs in this process; in other programs, the version of this crate.
pub fn program_version() -> &'static str {
    PROGRAM.get().copied().unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// Returns the operating system in Go's spelling (`GOOS`).
pub fn os() -> &'static str {
    if consts::OS == "macos" { "darwin" } else { consts::OS }
}

/// Returns the architecture in Go's spelling (`GOARCH`).
pub fn arch() -> &'static str {
    match consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
