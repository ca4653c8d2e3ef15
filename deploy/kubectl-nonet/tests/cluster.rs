//! Runs the check against an API server over TLS, from a kubeconfig to findings.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{path::PathBuf, time::Duration};

use common::clock::Clock;
use kubectl_nonet::{
    check::{PlannedOperation, check},
    connection::Connection,
    finding::{Finding, FindingStatus, exit_code},
    gather::{GatherOptions, gather_facts},
};
use sandbox::{ADMIN, Credential, Sandbox, Server, Tls};
use serde_json::{Value, json};

const CONTROLLER: &str = "deployment-controller";

struct Cluster {
    sandbox: Sandbox,
    server: Server,
    kubeconfig: PathBuf,
}

impl Cluster {
    /// Creates a cluster in which Nonet runs deployment-controller, and kube-controller-manager all other loops.
    async fn handed_over(name: &str) -> Self {
        let sandbox = Sandbox::builder().rbac(true).build();
        let server = sandbox.serve(([127, 0, 0, 1], 0).into(), Tls::On).await.unwrap();
        let kubeconfig = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kubeconfig"));
        let cluster = Self { sandbox, server, kubeconfig };
        cluster.log_in(ADMIN, Credential::Certificate);
        cluster.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})).await;
        cluster.manager("*,-deployment-controller").await;
        cluster
            .apply(json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "cp-0", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            }))
            .await;
        cluster.lease("kube-controller-manager", "cp-0_1").await;
        cluster.nonet().await;
        cluster.lease(CONTROLLER, "nonet-deployment-controller-a_1").await;
        cluster
    }

    fn log_in(&self, user: &str, credential: Credential) {
        std::fs::write(&self.kubeconfig, self.server.kubeconfig_for(user, credential)).unwrap();
    }

    async fn apply(&self, object: Value) {
        self.sandbox.apply(object).await.unwrap();
    }

    /// Replaces the Pod of kube-controller-manager by a Pod with this value of `--controllers`.
    async fn manager(&self, controllers: &str) {
        drop(self.sandbox.delete("pods", Some("kube-system"), "kube-controller-manager-cp-0").await);
        self.apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "kube-controller-manager-cp-0", "namespace": "kube-system", "labels": {"component": "kube-controller-manager"}},
            "spec": {"nodeName": "cp-0", "terminationGracePeriodSeconds": 0, "containers": [{
                "name": "kube-controller-manager", "image": "registry.k8s.io/kube-controller-manager:v1.36.2",
                "command": ["kube-controller-manager", format!("--controllers={controllers}")],
            }]},
        })).await;
    }

    /// Applies a Lease that was renewed just now, with a duration longer than any test.
    async fn lease(&self, name: &str, holder: &str) {
        let now = format!("{:.6}", self.sandbox.clock().now());
        self.apply(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 36_000, "renewTime": now, "acquireTime": now},
        })).await;
    }

    /// Installs deployment-controller with its roles.
    async fn nonet(&self) {
        let labels = json!({
            "app.kubernetes.io/name": CONTROLLER, "app.kubernetes.io/component": "controller", "app.kubernetes.io/part-of": "nonet",
        });
        let named = |name: &str| json!({"name": name, "namespace": "kube-system", "labels": labels});
        let spec = json!({"containers": [{"name": "controller", "image": "registry.example/nonet/deployment-controller:v0.1.0"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": named("nonet-deployment-controller-a"), "spec": spec});
        self.apply(pod).await;
        self.apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": named("nonet-deployment-controller"),
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        })).await;
        let status =
            json!({"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}});
        self.sandbox
            .merge("deployments.apps", Some("kube-system"), "nonet-deployment-controller", Some("status"), status)
            .await
            .unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../controllers/deployment-controller/rbac.yaml");
        let manifests: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
        for mut object in manifests {
            if object["kind"] == "Role" || object["kind"] == "RoleBinding" {
                object["metadata"]["namespace"] = "kube-system".into();
            }
            if let Some(subject) = object.pointer_mut("/subjects/0") {
                subject["namespace"] = "kube-system".into();
            }
            self.apply(object).await;
        }
    }

    async fn check(&self, stage: PlannedOperation) -> Vec<Finding> {
        let timeout = Duration::from_secs(30);
        let connection = Connection::open(Some(&self.kubeconfig), None, timeout).await.unwrap();
        check(&gather_facts(&connection, &Clock::system(), GatherOptions::default()).await.unwrap(), stage)
    }
}

#[track_caller]
fn expect(findings: &[Finding], status: FindingStatus, words: &str) {
    let found = findings.iter().any(|finding| finding.status == status && finding.found.contains(words));
    assert!(found, "{status} {words:?} is not in {findings:#?}");
}

#[tokio::test]
async fn a_cluster_after_the_hand_over_is_fine_and_nothing_is_written() {
    let cluster = Cluster::handed_over("fine").await;
    let written = cluster.sandbox.resource_version();
    let findings = cluster.check(PlannedOperation::NoOperation).await;
    assert_eq!(exit_code(&findings), 0, "{findings:#?}");
    expect(&findings, FindingStatus::Ok, "Nonet alone runs deployment-controller");
    expect(&findings, FindingStatus::Ok, "deployment-controller has its roles, bindings and main rights");
    expect(&findings, FindingStatus::Ok, "your client certificate (");
    expect(&findings, FindingStatus::Ok, "the certificate of the API server (");
    assert_eq!(cluster.sandbox.resource_version(), written);
}

#[tokio::test]
async fn two_writers_are_a_problem() {
    let cluster = Cluster::handed_over("two").await;
    cluster.manager("*").await;
    let findings = cluster.check(PlannedOperation::NoOperation).await;
    assert_eq!(exit_code(&findings), 1);
    expect(
        &findings,
        FindingStatus::Problem,
        "two writers: kube-controller-manager (kube-controller-manager-cp-0) and Nonet both run deployment-controller",
    );
}

#[tokio::test]
async fn a_hold_is_no_leader() {
    let cluster = Cluster::handed_over("hold").await;
    cluster.lease(CONTROLLER, "held-for-hand-over").await;
    let findings = cluster.check(PlannedOperation::NoOperation).await;
    expect(
        &findings,
        FindingStatus::Problem,
        "no process runs deployment-controller: kube-controller-manager does not, and Nonet is held",
    );
    cluster.manager("*").await;
    let findings = cluster.check(PlannedOperation::HandOver).await;
    assert_eq!(exit_code(&findings), 0, "{findings:#?}");
    expect(&findings, FindingStatus::Ok, "kube-controller-manager runs deployment-controller, and Nonet stands by");
}

#[tokio::test]
async fn a_missing_right_of_a_controller_is_a_problem() {
    let cluster = Cluster::handed_over("rights").await;
    cluster
        .sandbox
        .delete("clusterrolebindings.rbac.authorization.k8s.io", None, "nonet:deployment-controller")
        .await
        .unwrap();
    let findings = cluster.check(PlannedOperation::NoOperation).await;
    expect(
        &findings,
        FindingStatus::Problem,
        "there is no ClusterRoleBinding for the ServiceAccount kube-system/nonet-deployment-controller",
    );
    expect(&findings, FindingStatus::Problem, "deployment-controller lacks rights: list deployments (apps)");
}

#[tokio::test]
async fn facts_that_the_caller_may_not_read_are_unknown() {
    let cluster = Cluster::handed_over("forbidden").await;
    cluster.log_in("nobody", Credential::Token);
    let findings = cluster.check(PlannedOperation::NoOperation).await;
    assert_eq!(exit_code(&findings), 3, "{findings:#?}");
    for words in [
        "cannot tell which Deployments are installed: forbidden; it needs list on deployments.apps in the namespace \
            kube-system",
        "cannot tell which process leads deployment-controller, replicaset-controller, ",
        "node-lifecycle-controller: forbidden; it needs get on leases.coordination.k8s.io in the namespace kube-system",
        "cannot tell which loops kube-controller-manager runs: forbidden",
        "cannot tell which loops kubeadm upgrade will switch on: forbidden",
    ] {
        expect(&findings, FindingStatus::Unknown, words);
    }
    let good = findings.iter().filter(|finding| finding.status == FindingStatus::Ok);
    assert!(good.clone().all(|finding| !finding.found.contains("Nonet")), "{:#?}", good.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_an_error() {
    let cluster = Cluster::handed_over("away").await;
    let answer = cluster.sandbox.send(http::Method::GET, "/version", "", None).await.unwrap();
    assert!(answer["gitVersion"].is_string());
    let timeout = Duration::from_secs(30);
    let connection = Connection::open(Some(&cluster.kubeconfig), None, timeout).await.unwrap();
    cluster.server.shutdown().await;
    let why = gather_facts(&connection, &Clock::system(), GatherOptions::default()).await.unwrap_err();
    assert!(why.to_string().starts_with("GET /version failed: "), "{why}");
}
