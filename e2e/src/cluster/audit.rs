//! Counters of the requests that a real kube-apiserver has answered, by user, verb and resource.
//!
//! The metrics of kube-apiserver do not name the user, so they mix the requests of controllers with those of nodes and of
//! the server itself. Its audit log names the user. The API server writes the log to its standard output, where a thread
//! counts the entries, so that nothing is kept on disk. An audited request costs the API server one entry without bodies;
//! requests of unaudited users cost nothing.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read},
    sync::Arc,
};

use parking_lot::Mutex;
use sandbox::RequestKey;
use serde_json::{Value, json};

/// The user that the API server is for its own requests.
const LOOPBACK: &str = "system:apiserver";
const VERBS: &[&str] =
    &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put", "head"];

/// The counter that an entry of the log belongs to. None if another entry counts the same request.
///
/// A watch is counted when its answer begins, every other request when its answer is complete.
fn key(entry: &Value) -> Option<RequestKey> {
    let verb = VERBS.iter().copied().find(|verb| entry["verb"] == **verb).unwrap_or("other");
    if entry["stage"] != if verb == "watch" { "ResponseStarted" } else { "ResponseComplete" } {
        return None;
    }
    // Requests for paths that are not resources, for example discovery, have no object.
    let object = &entry["objectRef"];
    let mut resource = match object["resource"].as_str() {
        Some(resource) => resource.to_owned(),
        None => entry["requestURI"].as_str()?.split('?').next().unwrap_or_default().to_owned(),
    };
    for (separator, part) in [('.', &object["apiGroup"]), ('/', &object["subresource"])] {
        if let Some(part) = part.as_str().filter(|part| !part.is_empty()) {
            resource.push(separator);
            resource.push_str(part);
        }
    }
    Some(RequestKey { identity: entry["user"]["username"].as_str()?.to_owned(), verb, resource })
}

/// The audit policy: an entry for each request, except for those of the API server itself and of `unaudited`.
pub(super) fn policy(unaudited: &str) -> String {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "None", "users": [unaudited, LOOPBACK]}, {"level": "Metadata"}],
    });
    // JSON is YAML.
    format!("{policy:#}\n")
}

/// Counters that a thread keeps up to date until the log ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(Arc<Mutex<BTreeMap<RequestKey, u64>>>);

impl Counters {
    pub(super) fn follow(log: impl Read + Send + 'static) -> Self {
        let counters = Self::default();
        let counting = counters.clone();
        std::thread::spawn(move || counting.count(log));
        counters
    }

    /// Counts entries until the log ends. Lines that are not entries are skipped.
    fn count(&self, log: impl Read) {
        let mut log = BufReader::with_capacity(1 << 16, log);
        let mut line = Vec::new();
        while log.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if let Some(key) = serde_json::from_slice(&line).ok().as_ref().and_then(key) {
                *self.0.lock().entry(key).or_default() += 1;
            }
            line.clear();
        }
    }

    pub(super) fn all(&self) -> BTreeMap<RequestKey, u64> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(stage: &str, verb: &str, object: &Value) -> String {
        let entry = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": stage,
            "requestURI": "/apis?timeout=32s",
            "verb": verb,
            "user": {"username": "gc-controller", "groups": ["system:masters"]},
            "userAgent": "say \"hello\"",
            "objectRef": object,
            "responseStatus": {"metadata": {}, "code": 200},
        });
        format!("{entry}\n")
    }

    #[test]
    fn every_request_is_counted_once() {
        let pods = json!({"resource": "pods", "namespace": "n", "apiVersion": "v1"});
        let status = json!({"resource": "deployments", "apiGroup": "apps", "name": "d", "subresource": "status"});
        let log = [
            entry("ResponseStarted", "watch", &pods),
            entry("ResponseComplete", "watch", &pods),
            "no entry\n".to_owned(),
            entry("ResponseComplete", "list", &pods),
            entry("ResponseComplete", "patch", &status),
            entry("ResponseComplete", "patch", &status),
            entry("ResponseComplete", "get", &json!(null)),
        ];
        let counters = Counters::default();
        counters.count(log.concat().as_bytes());
        let key = |verb, resource: &str| RequestKey {
            identity: "gc-controller".to_owned(),
            verb,
            resource: resource.to_owned(),
        };
        let expected = BTreeMap::from([
            (key("watch", "pods"), 1),
            (key("list", "pods"), 1),
            (key("patch", "deployments.apps/status"), 2),
            (key("get", "/apis"), 1),
        ]);
        assert_eq!(counters.all(), expected);
    }
}
