//! The objects of a cluster of a given size.

use serde_json::{Value, json};

use crate::{
    bench::{
        observer::{ENDS, SERVED},
        template,
    },
    suite::{daemon_set, deployment, job, stateful_set},
};

/// Sizes of Deployments, in turn.
const DEPLOYMENTS: [u32; 5] = [2, 3, 5, 10, 20];
/// Sizes of StatefulSets and of Jobs.
const STATEFUL_SETS: [u32; 1] = [5];
const JOBS: [u32; 1] = [5];
/// How long a Pod stays on a lost node, in seconds: less than the default of five minutes, so that a day passes fast.
const TOLERATION: u32 = 5;
/// How long a Pod of a Job that ends runs, in seconds.
const RUNS: &str = "2";

/// How many objects of each kind there are, and of what size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    pub(super) deployments: Vec<u32>,
    pub(super) stateful_sets: Vec<u32>,
    /// Each runs a Pod on every node.
    pub(super) daemon_sets: u32,
    /// Jobs whose Pods run until they are deleted.
    pub(super) running_jobs: Vec<u32>,
    /// Jobs whose Pods end after seconds.
    pub(super) ending_jobs: Vec<u32>,
    pub(super) cron_jobs: u32,
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
    /// The mix for so many Pods: the Pods of two DaemonSets (one, if two were more than a quarter); of all others 15 % in
    /// StatefulSets, 10 % in Jobs, half of which end, and the rest in Deployments.
    pub(super) fn of(pods: u32, nodes: u32) -> Self {
        let daemon_sets = if nodes * 2 <= pods / 4 { 2 } else { 1 };
        let others = pods.saturating_sub(daemon_sets * nodes).max(1);
        let (in_sets, in_jobs) = (others * 15 / 100, others / 10);
        Self {
            deployments: split(others - in_sets - in_jobs, &DEPLOYMENTS),
            stateful_sets: split(in_sets, &STATEFUL_SETS),
            daemon_sets,
            running_jobs: split(in_jobs - in_jobs / 2, &JOBS),
            ending_jobs: split(in_jobs / 2, &JOBS),
            cron_jobs: (pods / 200).max(2),
            namespaces: 1 + pods / 250,
        }
    }
}

/// A Pod template whose Pods leave a lost node after seconds.
fn template_of(name: &str) -> Value {
    let mut template = template::pod(name);
    let toleration =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION});
    let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    template["spec"]["tolerations"] = keys.map(toleration).to_vec().into();
    template
}

/// The same for Pods behind the Service of that name.
fn served_template(name: &str) -> Value {
    let mut template = template_of(name);
    template["metadata"]["labels"][SERVED] = json!(name);
    template
}

/// A Service without an address of its own: clusters have as many of these as they like.
pub(super) fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
        "clusterIP": "None", "selector": {SERVED: name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}})
}

/// A Deployment behind the Service of its name.
pub(super) fn deployment_of(name: &str, pods: u32) -> Value {
    let mut object = deployment(name).replicas(pods).build();
    object["spec"]["template"] = served_template(name);
    object
}

/// A StatefulSet behind the Service of its name, whose Pods come one after the other.
pub(super) fn stateful_set_of(name: &str, pods: u32) -> Value {
    let mut object = stateful_set(name).replicas(pods).build();
    object["spec"]["template"] = served_template(name);
    object
}

/// A DaemonSet that is updated on a quarter of the nodes at a time.
pub(super) fn daemon_set_of(name: &str) -> Value {
    let mut object = daemon_set(name).set("spec/updateStrategy/rollingUpdate/maxUnavailable", "25%").build();
    object["spec"]["updateStrategy"]["type"] = json!("RollingUpdate");
    object["spec"]["template"] = template_of(name);
    object
}

/// A Job all of whose Pods run at once.
pub(super) fn job_of(name: &str, pods: u32, ends: bool) -> Value {
    let mut template = template_of(name);
    template["spec"]["restartPolicy"] = json!("Never");
    let mut object =
        job(name).set("spec/completions", pods).set("spec/parallelism", pods).set("spec/template", template);
    if ends {
        object = object.script("sim/exit", "0").script("sim/after", RUNS);
    }
    let mut object = object.build();
    if ends {
        object["metadata"]["labels"] = json!({ENDS: "true"});
    }
    object
}

/// A CronJob that fires once a year, with a Job of one Pod that ends.
pub(super) fn cron_job_of(name: &str) -> Value {
    let job = job_of(name, 1, true);
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": {
        "schedule": "0 0 1 1 *", "timeZone": "Etc/UTC",
        "jobTemplate": {"metadata": {"labels": {ENDS: "true"}}, "spec": job["spec"]}}})
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
            assert_eq!(sum + mix.daemon_sets * nodes, pods, "{mix:?}");
            assert!(sizes.iter().all(|sizes| !sizes.is_empty() && !sizes.contains(&0)), "{mix:?}");
        }
        // Too few Pods for the nodes: one DaemonSet, and something besides.
        assert_eq!(Mix::of(1, 10).deployments, [1]);
        assert_eq!(split(12, &[2, 3]), [2, 3, 2, 3, 2]);
    }
}
