//! Observes kube-controller-manager: whether it leads, and which loops its Pods run.

use serde_json::Value;

use crate::{
    api::{Api, Error, RequestTarget},
    built_in_flags::ControllersFlag,
    leader::LEASES,
    object::Resource,
};

use super::Evidence;

/// Namespace of the Pods and the Lease of kube-controller-manager.
const NAMESPACE: &str = "kube-system";
/// Name of the Lease of kube-controller-manager, and value of the label of its static Pods.
const NAME: &str = "kube-controller-manager";
const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");

/// State of kube-controller-manager, as last read.
#[derive(Debug, Default)]
pub(super) struct KubeControllerManagerState {
    /// `spec.renewTime` of the Lease; empty if there is no Lease or no holder, `None` before the first reading.
    renewed: Option<String>,
    leads: bool,
    /// Value of `--controllers` of each Pod; empty if no Pod was found or the Pods cannot be read.
    pods: Vec<ControllersFlag>,
}

impl KubeControllerManagerState {
    /// Whether the Lease has been read before.
    pub(super) fn has_read_lease(&self) -> bool {
        self.renewed.is_some()
    }

    /// Whether the Lease has to be read again soon, because only a second reading shows whether it is being renewed. The arguments
    /// of Pods are the better evidence.
    pub(super) fn needs_second_reading(&self) -> bool {
        self.pods.is_empty() && self.renewed.as_ref().is_some_and(|renewed| !renewed.is_empty())
    }

    /// Whether the Lease was renewed between the last two readings.
    pub(super) fn is_leading(&self) -> bool {
        self.leads
    }

    /// Reads the Lease and the Pods. Errors are logged at debug level.
    pub(super) async fn read_lease_and_pods(&mut self, api: &Api) {
        let lease = api.get(RequestTarget::object(LEASES, NAMESPACE, NAME)).await;
        let renewed = match lease.as_deref().map(renew_time) {
            Ok(renewed) => renewed,
            Err(error) if error.is_not_found() => String::new(),
            Err(error) => {
                tracing::debug!(err = %error, "Cannot read the Lease of kube-controller-manager");
                // A Lease that cannot be read counts as unchanged.
                self.renewed.clone().unwrap_or_default()
            }
        };
        let before = self.renewed.as_deref().unwrap_or_default();
        self.leads = !before.is_empty() && !renewed.is_empty() && before != renewed;
        self.renewed = Some(renewed);
        self.pods = match controllers_flags_of_pods(api).await {
            Ok(pods) => pods,
            Err(error) => {
                tracing::debug!(err = %error, "Cannot read the Pods of kube-controller-manager");
                Vec::new()
            }
        };
    }

    /// Returns the evidence that kube-controller-manager runs a loop; `None` without such evidence.
    pub(super) fn evidence_for_loop(&self, name: &str) -> Option<Evidence> {
        if self.pods.iter().any(|controllers| controllers.switches_loop_on(name)) {
            return Some(Evidence::Arguments);
        }
        (self.leads && self.pods.is_empty()).then_some(Evidence::Lease)
    }
}

/// Returns `spec.renewTime` of a Lease; empty without a holder.
fn renew_time(lease: impl AsRef<[u8]>) -> String {
    let lease: Value = serde_json::from_slice(lease.as_ref()).unwrap_or_default();
    let text = |field| lease["spec"][field].as_str().unwrap_or_default();
    if text("holderIdentity").is_empty() { String::new() } else { text("renewTime").to_owned() }
}

async fn controllers_flags_of_pods(api: &Api) -> Result<Vec<ControllersFlag>, Error> {
    let mut found = Vec::new();
    // Static Pods have the first label on kubeadm and most other installers, and the second label on kOps.
    for label in ["component", "k8s-app"] {
        let query = format!("labelSelector={label}%3D{NAME}&resourceVersion=0&limit=50");
        found.extend(controllers_of_pods(&api.list(&PODS, NAMESPACE, &query).await?));
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// Returns the value of `--controllers` of each Pod in a list. Skips finished Pods and Pods that show no command line.
fn controllers_of_pods(json: &[u8]) -> Vec<ControllersFlag> {
    let list: Value = serde_json::from_slice(json).unwrap_or_default();
    let pods = list["items"].as_array().into_iter().flatten();
    pods.filter(|pod| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
        .filter_map(|pod| command_line(pod["spec"]["containers"].as_array()?))
        .map(|command_line| ControllersFlag::from_command_line(&command_line))
        .collect()
}

/// Returns the command line of kube-controller-manager; `None` if the Pod shows neither a command nor arguments.
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

    fn of(pod: &serde_json::Value) -> Vec<ControllersFlag> {
        controllers_of_pods(json!({"kind": "PodList", "items": [pod]}).to_string().as_bytes())
    }

    fn pod(command: &[&str]) -> serde_json::Value {
        json!({"spec": {"containers": [{"name": "kube-controller-manager", "command": command}]}, "status": {"phase": "Running"}})
    }

    /// COMMON-76.
    #[test]
    fn a_pod_without_the_flag_runs_every_loop() {
        let pods = of(&pod(&["kube-controller-manager", "--leader-elect=true"]));
        let built_in = KubeControllerManagerState { pods, ..KubeControllerManagerState::default() };
        assert_eq!(built_in.evidence_for_loop("job-controller"), Some(Evidence::Arguments));
    }

    #[test]
    fn a_pod_without_a_command_proves_nothing_and_sidecars_are_ignored() {
        assert!(of(&pod(&[])).is_empty());
        let mut beside = pod(&["kube-controller-manager", "--controllers=*,-job"]);
        let sidecar = json!({"name": "sidecar", "command": ["x"]});
        beside["spec"]["containers"].as_array_mut().unwrap().insert(0, sidecar);
        assert!(!of(&beside)[0].switches_loop_on("job-controller"));
    }

    #[test]
    fn one_pod_that_runs_the_loop_is_enough_and_a_finished_pod_does_not_count() {
        let off = pod(&["kube-controller-manager", "--controllers=*,-job-controller"]);
        let mut forgotten = pod(&["kube-controller-manager"]);
        let both = |forgotten: &serde_json::Value| {
            let pods = controllers_of_pods(json!({"items": [off, forgotten]}).to_string().as_bytes());
            KubeControllerManagerState { leads: true, pods, ..KubeControllerManagerState::default() }
                .evidence_for_loop("job-controller")
        };
        assert_eq!(both(&forgotten), Some(Evidence::Arguments));
        forgotten["status"]["phase"] = json!("Failed");
        assert_eq!(both(&forgotten), None);
    }

    /// COMMON-76.
    #[test]
    fn a_renewed_lease_without_pods_is_the_weakest_evidence() {
        let leads = KubeControllerManagerState { leads: true, ..KubeControllerManagerState::default() };
        assert_eq!(leads.evidence_for_loop("job-controller"), Some(Evidence::Lease));
        assert_eq!(KubeControllerManagerState::default().evidence_for_loop("job-controller"), None);
        assert_eq!(renew_time(r#"{"spec":{"holderIdentity":"","renewTime":"2026-01-01T00:00:00.000000Z"}}"#), "");
        assert_eq!(renew_time(r#"{"spec":{"holderIdentity":"a","renewTime":"t"}}"#), "t");
    }
}
