//! What is known of kube-controller-manager: whether it leads, and which loops its Pods run.

use serde_json::Value;

use crate::{
    api::{Api, Error, Target},
    built_in_flags::Controllers,
    leader::LEASES,
    object::Resource,
};

use super::Evidence;

/// Where kube-controller-manager runs and elects its leader.
const NAMESPACE: &str = "kube-system";
/// Its Lease, and the value of the label `component` of its static Pods.
const NAME: &str = "kube-controller-manager";
const PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };

/// What is known of kube-controller-manager.
#[derive(Debug, Default)]
pub(super) struct BuiltIn {
    /// `renewTime` of its Lease as last read; empty if there is none.
    renewed: Option<String>,
    leads: bool,
    /// The `--controllers` of each of its Pods; nothing if no Pod can be seen.
    pods: Vec<Controllers>,
}

impl BuiltIn {
    /// Whether its Lease has been read before.
    pub(super) fn was_read(&self) -> bool {
        self.renewed.is_some()
    }

    /// Whether its Lease was renewed between the last two readings.
    pub(super) fn leads(&self) -> bool {
        self.leads
    }

    /// Reads its Lease and its Pods. What cannot be read is not known.
    pub(super) async fn read(&mut self, api: &Api) {
        let lease = api.get(Target::object(LEASES, NAMESPACE, NAME)).await;
        let renewed = match lease.as_deref().map(renewal) {
            Ok(renewed) => renewed,
            Err(error) if error.is_not_found() => String::new(),
            Err(error) => {
                tracing::debug!(err = %error, "Cannot read the Lease of kube-controller-manager");
                // What is not known has not changed.
                self.renewed.clone().unwrap_or_default()
            }
        };
        let before = self.renewed.as_deref().unwrap_or_default();
        self.leads = !before.is_empty() && !renewed.is_empty() && before != renewed;
        self.renewed = Some(renewed);
        self.pods = match pods(api).await {
            Ok(pods) => pods,
            Err(error) => {
                tracing::debug!(err = %error, "Cannot read the Pods of kube-controller-manager");
                Vec::new()
            }
        };
    }

    /// The evidence that it runs a loop.
    pub(super) fn evidence(&self, name: &str) -> Option<Evidence> {
        if self.pods.iter().any(|controllers| controllers.contains(name)) {
            return Some(Evidence::Arguments);
        }
        (self.leads && self.pods.is_empty()).then_some(Evidence::Lease)
    }
}

/// `spec.renewTime` of a Lease that somebody holds.
fn renewal(lease: impl AsRef<[u8]>) -> String {
    let lease: Value = serde_json::from_slice(lease.as_ref()).unwrap_or_default();
    let text = |field| lease["spec"][field].as_str().unwrap_or_default();
    if text("holderIdentity").is_empty() { String::new() } else { text("renewTime").to_owned() }
}

async fn pods(api: &Api) -> Result<Vec<Controllers>, Error> {
    let mut found = Vec::new();
    // The labels of static Pods by kubeadm and most others, and by kOps.
    for label in ["component", "k8s-app"] {
        let query = format!("labelSelector={label}%3D{NAME}&resourceVersion=0&limit=50");
        found.extend(controllers_of_pods(&api.list(PODS, NAMESPACE, &query).await?));
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// The `--controllers` of each Pod of a list that has not ended.
fn controllers_of_pods(json: &[u8]) -> Vec<Controllers> {
    let list: Value = serde_json::from_slice(json).unwrap_or_default();
    let pods = list["items"].as_array().into_iter().flatten();
    pods.filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
        .filter_map(|pod| command_line(pod["spec"]["containers"].as_array()?))
        .map(|command_line| Controllers::of_command_line(&command_line))
        .collect()
}

/// The command line of kube-controller-manager; nothing if the Pod does not show it.
fn command_line(containers: &[Value]) -> Option<Vec<String>> {
    let container = containers.iter().find(|container| container["name"] == NAME).or_else(|| containers.first())?;
    let words = ["command", "args"].into_iter().filter_map(|field| container[field].as_array()).flatten();
    let command_line: Vec<String> = words.filter_map(Value::as_str).map(str::to_owned).collect();
    (!command_line.is_empty()).then_some(command_line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(pod: &serde_json::Value) -> Vec<Controllers> {
        controllers_of_pods(json!({"kind": "PodList", "items": [pod]}).to_string().as_bytes())
    }

    fn pod(command: &[&str]) -> serde_json::Value {
        json!({"spec": {"containers": [{"name": "kube-controller-manager", "command": command}]}, "status": {"phase": "Running"}})
    }

    /// COMMON-76.
    #[test]
    fn a_pod_without_the_flag_runs_every_loop() {
        let pods = of(&pod(&["kube-controller-manager", "--leader-elect=true"]));
        let built_in = BuiltIn { pods, ..BuiltIn::default() };
        assert_eq!(built_in.evidence("job-controller"), Some(Evidence::Arguments));
    }

    #[test]
    fn a_command_that_is_not_shown_proves_nothing_and_sidecars_are_not_read() {
        assert!(of(&pod(&[])).is_empty());
        let mut beside = pod(&["kube-controller-manager", "--controllers=*,-job"]);
        let sidecar = json!({"name": "sidecar", "command": ["x"]});
        beside["spec"]["containers"].as_array_mut().unwrap().insert(0, sidecar);
        assert!(!of(&beside)[0].contains("job-controller"));
    }

    #[test]
    fn one_forgotten_pod_is_enough_and_one_that_has_ended_is_none() {
        let off = pod(&["kube-controller-manager", "--controllers=*,-job-controller"]);
        let mut forgotten = pod(&["kube-controller-manager"]);
        let both = |forgotten: &serde_json::Value| {
            let pods = controllers_of_pods(json!({"items": [off, forgotten]}).to_string().as_bytes());
            BuiltIn { leads: true, pods, ..BuiltIn::default() }.evidence("job-controller")
        };
        assert_eq!(both(&forgotten), Some(Evidence::Arguments));
        forgotten["status"]["phase"] = json!("Failed");
        assert_eq!(both(&forgotten), None);
    }

    /// COMMON-76.
    #[test]
    fn a_lease_alone_says_only_that_the_loops_are_not_known() {
        let leads = BuiltIn { leads: true, ..BuiltIn::default() };
        assert_eq!(leads.evidence("job-controller"), Some(Evidence::Lease));
        assert_eq!(BuiltIn::default().evidence("job-controller"), None);
        assert_eq!(renewal(r#"{"spec":{"holderIdentity":"","renewTime":"2026-01-01T00:00:00.000000Z"}}"#), "");
        assert_eq!(renewal(r#"{"spec":{"holderIdentity":"a","renewTime":"t"}}"#), "t");
    }
}
