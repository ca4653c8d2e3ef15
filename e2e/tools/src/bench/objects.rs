//! The objects of the workloads, from `objects.yaml`, and how many of each kind a cluster has.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

/// Templates by name.
pub(super) struct Objects(Map<String, Value>);

impl Objects {
    pub(super) fn read() -> Result<Self> {
        serde_saphyr::from_str(include_str!("objects.yaml")).map(Self).context("objects.yaml")
    }

    /// An object with this name and number of Pods.
    pub(super) fn object(&self, template: &str, name: &str, pods: u32) -> Value {
        let mut object = self.0.get(template).cloned().unwrap_or_default();
        fill(&mut object, name, pods);
        object
    }
}

fn fill(value: &mut Value, name: &str, pods: u32) {
    match value {
        Value::String(text) if text == "NAME" => name.clone_into(text),
        Value::String(text) if text == "PODS" => *value = pods.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, name, pods)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, name, pods)),
        _ => {}
    }
}

/// The strategic merge patch that replaces all Pods.
pub(super) fn new_image() -> Value {
    let container = json!({"name": "app", "image": "registry.example.com/team/app:1.0.1"});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

/// Sizes of Deployments, in turn; StatefulSets and Jobs have five Pods.
const DEPLOYMENTS: [u32; 5] = [2, 3, 5, 10, 20];
const OTHERS: [u32; 1] = [5];

/// The number of objects of each kind, and their numbers of Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) deployments: Vec<u32>,
    pub(super) stateful_sets: Vec<u32>,
    /// Each runs a Pod on every node.
    pub(super) daemon_sets: usize,
    /// Jobs whose Pods run until they are deleted.
    pub(super) running_jobs: Vec<u32>,
    /// Jobs whose Pods end after seconds.
    pub(super) ending_jobs: Vec<u32>,
    pub(super) cron_jobs: usize,
    pub(super) namespaces: u32,
}

/// Numbers that add up to `total`: those of `sizes` in turn, the last one cut off.
fn split(total: u32, sizes: &[u32]) -> Vec<u32> {
    let mut rest = total;
    let parts = sizes.iter().cycle().map_while(|size| {
        let part = rest.min(*size);
        rest -= part;
        (part > 0).then_some(part)
    });
    parts.collect()
}

impl Mix {
    /// The mix for a number of Pods: the Pods of two DaemonSets (one, if two were more than a quarter); of all others 15 % in
    /// StatefulSets, 10 % in Jobs, half of which end, and the rest in Deployments.
    pub(super) fn of(pods: u32, nodes: u32) -> Self {
        let daemon_sets = if nodes * 2 <= pods / 4 { 2 } else { 1 };
        let others = pods.saturating_sub(daemon_sets * nodes).max(1);
        let (in_sets, in_jobs) = (others * 15 / 100, others / 10);
        Self {
            deployments: split(others - in_sets - in_jobs, &DEPLOYMENTS),
            stateful_sets: split(in_sets, &OTHERS),
            daemon_sets: daemon_sets as usize,
            running_jobs: split(in_jobs - in_jobs / 2, &OTHERS),
            ending_jobs: split(in_jobs / 2, &OTHERS),
            cron_jobs: (pods as usize / 200).max(2),
            namespaces: 1 + pods / 250,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_has_as_many_pods_as_are_asked_for() {
        for (pods, nodes) in [(60, 10), (1000, 20), (5000, 100), (20_000, 400)] {
            let mix = Mix::of(pods, nodes);
            let sizes = [&mix.deployments, &mix.stateful_sets, &mix.running_jobs, &mix.ending_jobs];
            let sum: u32 = sizes.into_iter().flatten().sum();
            assert_eq!(sum as usize + mix.daemon_sets * nodes as usize, pods as usize, "{mix:?}");
            assert!(sizes.iter().all(|sizes| !sizes.is_empty() && !sizes.contains(&0)), "{mix:?}");
        }
        // Too few Pods for the nodes: one DaemonSet, and something besides.
        assert_eq!(Mix::of(1, 10).deployments, [1]);
        assert_eq!(split(12, &[2, 3]), [2, 3, 2, 3, 2]);
    }

    #[tokio::test]
    async fn a_server_accepts_every_object() {
        let (objects, sandbox) = (Objects::read().unwrap(), crate::sandbox::Sandbox::builder().build());
        for template in objects.0.keys().filter(|name| !name.starts_with("x-")) {
            let mut object = objects.object(template, &template.to_lowercase(), 3);
            object["metadata"]["namespace"] = "default".into();
            let stored = sandbox.create(object).await.unwrap();
            assert!(!stored.to_string().contains("\"NAME\"") && !stored.to_string().contains("\"PODS\""), "{stored}");
        }
        let job = objects.object("CronJob", "a", 1)["spec"]["jobTemplate"]["spec"].clone();
        assert_eq!(job["completions"], 1);
        assert_eq!(job["template"]["metadata"]["annotations"]["sim/exit"], "0");
        assert_eq!(job["template"]["spec"]["restartPolicy"], "Never");
    }
}
