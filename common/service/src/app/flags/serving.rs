//! Flags of the HTTP server: address, TLS, authentication and authorization.

use std::net::{IpAddr, SocketAddr};

use clap::{ArgAction, Command, value_parser};
use rustls::{CipherSuite, NamedGroup};

use super::{FlagValues, file, flag, list, switch, time};
use crate::server::{self, CertificateFiles, CertificateSource, ReviewOptions, TlsSettings};

pub(super) fn add_serving_flags(command: Command, program: &'static str) -> Command {
    let defaults = ReviewOptions::new(&[]);
    command.next_help_heading("Serving").args([
        flag("bind-address", "IP", "Address to serve on").default_value("0.0.0.0").value_parser(value_parser!(IpAddr)),
        flag("secure-port", "PORT", "Port to serve TLS on; 0: do not serve TLS")
            .default_value("10257")
            .value_parser(value_parser!(u16)),
        switch("permit-port-sharing", false, "Whether other processes may serve on the same port"),
        switch("disable-http2-serving", false, "Serve only HTTP/1.1"),
        flag("http2-max-streams-per-connection", "N", "Concurrent requests on one HTTP/2 connection; 0: 16")
            .default_value("0")
            .value_parser(value_parser!(u32)),
        file(
            "tls-cert-file",
            "Certificate with its intermediates; reloaded when it changes. By default, a self-signed one in memory",
        ),
        file("tls-private-key-file", "Key of the certificate"),
        file(
            "cert-dir",
            format!(
                "Directory of {program}.crt and {program}.key, which are created if both are missing; ignored if \
                 --tls-cert-file is set"
            ),
        )
        .value_name("DIR"),
        flag(
            "tls-sni-cert-key",
            "FILE,FILE[:NAME,...]",
            "Certificate and key for clients that ask for one of the names; by default, those in the certificate",
        )
        .value_parser(named)
        .action(ArgAction::Append),
        flag(
            "tls-min-version",
            "VERSION",
            "Oldest version of TLS that is served: VersionTLS12 (also for older values) or VersionTLS13",
        )
        .value_parser(["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"]),
        list("tls-cipher-suites", "Cipher suites for TLS 1.2"),
        list("tls-curve-preferences", "Numbers of the key exchange groups, in the order of preference")
            .value_parser(value_parser!(u16)),
        file(
            "client-ca-file",
            "Authorities of client certificates; the common name is the user, the organizations are the groups",
        ),
        file(
            "authentication-kubeconfig",
            "Kubeconfig of the cluster that answers TokenReviews; by default the controllers' API server",
        ),
        time(
            "authentication-token-webhook-cache-ttl",
            defaults.token_cache_ttl,
            "How long the user of a token is cached",
        ),
        file(
            "authorization-kubeconfig",
            "Kubeconfig of the cluster that answers SubjectAccessReviews; by default the controllers' API server",
        ),
        time(
            "authorization-webhook-cache-authorized-ttl",
            defaults.granted_permission_cache_ttl,
            "How long a granted permission is cached",
        ),
        time(
            "authorization-webhook-cache-unauthorized-ttl",
            defaults.denied_permission_cache_ttl,
            "How long a denied permission is cached",
        ),
        list("authorization-always-allow-paths", "Paths that need no permission; '*' at the end matches any suffix")
            .default_value("/healthz,/readyz,/livez"),
        switch(
            "insecure-debug",
            false,
            "Let every caller read metrics and diagnostics, without authentication and authorization",
        ),
        flag(
            "debug-address",
            "IP:PORT",
            "Loopback address to serve on without TLS and without authentication; port 0 picks a free port and logs it",
        )
        .value_parser(loopback),
    ])
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| format!("{text:?} is not of the form 127.0.0.1:8080"))?;
    if address.ip().is_loopback() { Ok(address) } else { Err(format!("{} is not a loopback address", address.ip())) }
}

/// Reads the settings of the HTTP server. Adds a line to `warnings` for each value that has no effect.
pub(super) fn read_server_settings(
    values: &FlagValues<'_>,
    program: &str,
    warnings: &mut Vec<String>,
) -> Result<server::ServerSettings, String> {
    let port: u16 = values.get("secure-port");
    let (suites, groups) = server::supported_cipher_suites_and_key_exchange_groups();
    let version: String = values.get("tls-min-version");
    if matches!(version.as_str(), "VersionTLS10" | "VersionTLS11") {
        warnings.push(format!("--tls-min-version={version}: the oldest version that is served is VersionTLS12"));
    }
    let tls = TlsSettings {
        default_certificate: certificate(values, program)?,
        named_certificates: values.all("tls-sni-cert-key"),
        client_ca_file: values.path("client-ca-file"),
        is_tls13_only: version == "VersionTLS13",
        cipher_suites: chosen_suites(&values.all("tls-cipher-suites"), &suites, warnings)?,
        key_exchange_groups: chosen_groups(&values.all("tls-curve-preferences"), &groups)?,
        is_http1_only: values.get("disable-http2-serving"),
    };
    Ok(server::ServerSettings {
        secure_address: values.option("bind-address").filter(|_| port != 0).map(|ip| SocketAddr::new(ip, port)),
        tls,
        max_streams_per_connection: values.option("http2-max-streams-per-connection").filter(|streams| *streams != 0),
        is_port_shared: values.get("permit-port-sharing"),
        debug_address: values.option("debug-address"),
    })
}

/// Reads the paths that need no permission, and how long answers to reviews are cached.
pub(super) fn read_review_options(values: &FlagValues<'_>) -> ReviewOptions {
    ReviewOptions {
        always_allowed_paths: values.all("authorization-always-allow-paths"),
        token_cache_ttl: values.get("authentication-token-webhook-cache-ttl"),
        granted_permission_cache_ttl: values.get("authorization-webhook-cache-authorized-ttl"),
        denied_permission_cache_ttl: values.get("authorization-webhook-cache-unauthorized-ttl"),
    }
}

fn certificate(values: &FlagValues<'_>, program: &str) -> Result<CertificateSource, String> {
    match (values.path("tls-cert-file"), values.path("tls-private-key-file"), values.path("cert-dir")) {
        (Some(certificate), Some(key), _) => Ok(CertificateSource::Files(CertificateFiles { certificate, key })),
        (None, None, Some(directory)) => Ok(CertificateSource::CreatedIfMissing(CertificateFiles {
            certificate: directory.join(format!("{program}.crt")),
            key: directory.join(format!("{program}.key")),
        })),
        (None, None, None) => Ok(CertificateSource::InMemory),
        _ => Err("--tls-cert-file and --tls-private-key-file must be set together".to_owned()),
    }
}

/// Parses `certificate,key[:name,...]`, a value of `--tls-sni-cert-key`.
fn named(text: &str) -> Result<(CertificateFiles, Vec<String>), String> {
    let invalid = || format!("{text:?} is not of the form certificate,key[:name,...]");
    let (files, names) = text.split_once(':').unwrap_or((text, ""));
    let (certificate, key) = files.split_once(',').ok_or_else(invalid)?;
    let names: Vec<String> = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if certificate.is_empty() || key.is_empty() || key.contains(',') || (names.is_empty() && text.contains(':')) {
        return Err(invalid());
    }
    Ok((CertificateFiles { certificate: certificate.into(), key: key.into() }, names))
}

/// Cipher suites that Go supports and this server does not, because they lack forward secrecy or use CBC, RC4 or 3DES.
const UNSUPPORTED_CIPHER_SUITES: &[&str] = &[
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];
/// Cipher suites of TLS 1.3, which are always served.
const TLS13_CIPHER_SUITES: &[&str] =
    &["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

fn chosen_suites(
    names: &[String],
    offered: &[CipherSuite],
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<CipherSuite>>, String> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let (mut chosen, mut unserved) = (Vec::new(), Vec::new());
    for name in names {
        // Go also accepts older names of two suites.
        let full = match name {
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            other => other,
        };
        match offered.iter().find(|suite| suite.as_str() == Some(full)) {
            Some(suite) => chosen.push(*suite),
            None if TLS13_CIPHER_SUITES.contains(&name) => {}
            None if UNSUPPORTED_CIPHER_SUITES.contains(&name) => unserved.push(name),
            None => {
                let known: Vec<&str> = offered.iter().filter_map(CipherSuite::as_str).collect();
                return Err(format!("--tls-cipher-suites: {name:?} is not known; known are: {}", known.join(", ")));
            }
        }
    }
    if !unserved.is_empty() {
        warnings.push(format!("--tls-cipher-suites: {} cannot be served", unserved.join(", ")));
    }
    Ok(Some(chosen))
}

fn chosen_groups(numbers: &[u16], offered: &[NamedGroup]) -> Result<Option<Vec<NamedGroup>>, String> {
    let chosen: Vec<_> = numbers.iter().map(|n| NamedGroup::from(*n)).filter(|group| offered.contains(group)).collect();
    if chosen.is_empty() && !numbers.is_empty() {
        let known: Vec<String> = offered.iter().map(|group| u16::from(*group).to_string()).collect();
        return Err(format!(
            "--tls-curve-preferences: none of these groups can be served; known are: {}",
            known.join(", ")
        ));
    }
    Ok(Some(chosen).filter(|chosen| !chosen.is_empty()))
}
