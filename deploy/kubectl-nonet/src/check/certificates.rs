//! Finds certificates that have expired or expire soon.

use jiff::Timestamp;

use super::{installation::Installation, span};
use crate::{
    facts::{Certificate, Facts},
    finding::{Finding, FindingStatus, Findings, Topic},
};

/// Remaining validity of a certificate, in seconds, below which the check warns.
const WARN_BELOW_SECONDS: i64 = 30 * 86_400;

/// Checks the certificates of the caller and of the API server, and names certificates that the API does not show.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>]) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Certificates);
    let now = facts.clocks.as_ref().ok().map(|clocks| clocks.server_time);
    let client = (
        &facts.client_certificate,
        "your client certificate",
        "your kubeconfig has no client certificate",
        "renew the kubeconfig; with kubeadm: kubeadm certs renew admin.conf",
    );
    let serving = (
        &facts.serving_certificate,
        "the certificate of the API server",
        "the connection to the API server has no TLS",
        "renew it; with kubeadm, on each control-plane node: kubeadm certs renew apiserver",
    );
    for (certificate, what, none, renew) in [client, serving] {
        match certificate {
            Err(why) => findings.add_unreadable_fact(&format!("when {what} expires"), why),
            Ok(None) => findings.add_info(none),
            Ok(Some(certificate)) => judge(&mut findings, what, certificate, now, renew),
        }
    }
    if installations.iter().any(|installation| !installation.static_pods.is_empty()) {
        let found = "the client certificates of static Pods cannot be read over the API; the metric \
                     nonet_client_certificate_expiration_timestamp_seconds has their expiry";
        let remedy = "on each node: for f in /etc/kubernetes/nonet/*/kubeconfig; do grep -o 'client-certificate-data: .*' \
            $f | \
                      cut -d' ' -f2 | base64 -d | openssl x509 -noout -subject -enddate; done";
        findings.add(FindingStatus::Info, found, remedy);
    }
    findings.into_list()
}

fn judge(findings: &mut Findings, what: &str, certificate: &Certificate, now: Option<Timestamp>, remedy: &str) {
    let (subject, ends) = (&certificate.subject, certificate.expires_at);
    // Without the API server's time, the remaining validity is unknown. The module `clocks` reports the missing time.
    let Some(left) = now.map(|now| ends.as_second() - now.as_second()) else {
        return findings.add_info(format!("{what} ({subject}) expires at {ends}"));
    };
    let found = format!("{what} ({subject}) expires in {}, at {ends}", span(left));
    match left {
        ..0 => findings.add_problem(format!("{what} ({subject}) expired at {ends}"), remedy),
        0..WARN_BELOW_SECONDS => findings.add_warning(found, remedy),
        WARN_BELOW_SECONDS.. => findings.add_ok(found),
    }
}
