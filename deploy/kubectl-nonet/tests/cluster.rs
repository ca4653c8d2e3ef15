//! Runs the check against an API server over TLS, from a kubeconfig to findings.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{path::PathBuf, time::Duration};

use common::{clock::Clock, process::built_in_flags::ControllersFlag};
use kubectl_nonet::{
    check::{PlannedOperation, check, status::status},
    connection::Connection,
    facts::ManagerStatement,
    finding::{Finding, FindingStatus, exit_code},
    gather::{GatherOptions, gather_facts},
    hand_over::{self, ReleaseOptions},
    procedure::{Procedure, ProcedureOptions},
    render::status::{to_json, to_text},
};
use sandbox::{ADMIN, Action, Credential, Rule, Sandbox, Server, Tls};
use serde_json::{Value, json};

const CONTROLLER: &str = "deployment-controller";
const HOLD: &str = "held-for-hand-over";

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
        cluster.nonet(CONTROLLER).await;
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

    /// Installs a controller with its roles.
    async fn nonet(&self, controller: &str) {
        let labels = json!({
            "app.kubernetes.io/name": controller, "app.kubernetes.io/component": "controller", "app.kubernetes.io/part-of": "nonet",
        });
        let named = |name: &str| json!({"name": name, "namespace": "kube-system", "labels": labels});
        let image = format!("registry.example/nonet/{controller}:v0.1.0");
        let spec = json!({"containers": [{"name": "controller", "image": image}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": named(&format!("nonet-{controller}-a")), "spec": spec});
        self.apply(pod).await;
        self.apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": named(&format!("nonet-{controller}")),
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        })).await;
        let status =
            json!({"status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}});
        self.sandbox
            .merge("deployments.apps", Some("kube-system"), &format!("nonet-{controller}"), Some("status"), status)
            .await
            .unwrap();
        let path = format!("{}/../controllers/{controller}/rbac.yaml", env!("CARGO_MANIFEST_DIR"));
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

    /// Applies a held Lease that no process has led with.
    async fn held_lease(&self, name: &str) {
        self.apply(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"holderIdentity": HOLD, "leaseDurationSeconds": 315_360_000, "leaseTransitions": 0},
        }))
        .await;
    }

    async fn read_lease(&self, name: &str) -> Value {
        self.sandbox.get("leases.coordination.k8s.io", Some("kube-system"), name).await.unwrap()["spec"].clone()
    }

    /// Runs `release` for all controllers. Returns whether it succeeded, and its output.
    async fn release(&self, force: bool) -> (bool, String) {
        self.release_in(None, force).await
    }

    async fn release_in(&self, namespace: Option<&str>, force: bool) -> (bool, String) {
        let connection = self.connect().await;
        let namespace = namespace.map(str::to_owned);
        let options = GatherOptions { namespace, all_namespaces: true, ..GatherOptions::default() };
        let facts = Box::pin(gather_facts(&connection, &Clock::system(), options)).await.unwrap();
        let (mut out, options) = (Vec::new(), ReleaseOptions { force, seconds_to_lead: 2 });
        let done = hand_over::release(&connection, &Clock::system(), &facts, &[], options, &mut out).await;
        (done, String::from_utf8(out).unwrap())
    }

    /// Runs `hold` for all controllers. Returns whether it succeeded, and its output.
    async fn hold(&self) -> (bool, String) {
        let connection = self.connect().await;
        let facts = Box::pin(gather_facts(&connection, &Clock::system(), GatherOptions::default())).await.unwrap();
        let mut out = Vec::new();
        let done = hand_over::hold(&connection, &facts, &[], &mut out).await;
        (done, String::from_utf8(out).unwrap())
    }

    /// Takes each Lease as soon as it is free, as standbys do. Never returns.
    async fn stand_by(&self) {
        loop {
            for lease in self.sandbox.list("leases.coordination.k8s.io", Some("kube-system")).await.unwrap() {
                if lease["spec"]["holderIdentity"] == "" {
                    let name = lease["metadata"]["name"].as_str().unwrap();
                    let now = format!("{:.6}", self.sandbox.clock().now());
                    let holder = format!("nonet-{name}-b_2");
                    let spec = json!({"spec": {"holderIdentity": holder, "acquireTime": now, "renewTime": now}});
                    self.sandbox
                        .merge("leases.coordination.k8s.io", Some("kube-system"), name, None, spec)
                        .await
                        .unwrap();
                }
            }
            Clock::system().sleep(Duration::from_millis(100)).await;
        }
    }

    /// Runs `release` beside standbys.
    async fn release_with_standbys(&self, force: bool) -> (bool, String) {
        tokio::select! {
            result = self.release(force) => result,
            () = self.stand_by() => panic!("standbys never end"),
        }
    }

    async fn connect(&self) -> Connection {
        Connection::open(Some(&self.kubeconfig), None, Duration::from_secs(30)).await.unwrap()
    }

    async fn check(&self, stage: PlannedOperation) -> Vec<Finding> {
        self.check_with(GatherOptions::default(), stage).await
    }

    async fn check_with(&self, options: GatherOptions, stage: PlannedOperation) -> Vec<Finding> {
        let connection = self.connect().await;
        check(&Box::pin(gather_facts(&connection, &Clock::system(), options)).await.unwrap(), stage)
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
async fn without_a_manager_the_objects_that_its_loops_worked_for_are_named() {
    let cluster = Cluster::handed_over("without-manager").await;
    let check = || {
        let options = GatherOptions { stated_manager: Some(ManagerStatement::Absent), ..GatherOptions::default() };
        cluster.check_with(options, PlannedOperation::NoOperation)
    };
    expect(&check().await, FindingStatus::Problem, "kube-controller-manager still runs: cp-0_1 renewed its Lease");
    cluster.sandbox.delete("pods", Some("kube-system"), "kube-controller-manager-cp-0").await.unwrap();
    let leases = "leases.coordination.k8s.io";
    cluster.sandbox.delete(leases, Some("kube-system"), "kube-controller-manager").await.unwrap();
    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    cluster
        .apply(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "kube-system"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": scaled},
        }))
        .await;
    let written = cluster.sandbox.resource_version();
    let findings = check().await;
    expect(&findings, FindingStatus::Warning, "no process runs horizontal-pod-autoscaler-controller: HorizontalPod");
    expect(&findings, FindingStatus::Warning, "no process runs node-ipam-controller: a new Node");
    let unused = "persistentvolume-binder-controller, which has nothing to do in this cluster: there is no PersistentVolumeClaim";
    expect(&findings, FindingStatus::Info, unused);
    expect(&findings, FindingStatus::Problem, "no process runs replicaset-controller");
    assert_eq!(cluster.sandbox.resource_version(), written);
}

#[tokio::test]
async fn a_hold_is_no_leader() {
    let cluster = Cluster::handed_over("hold").await;
    cluster.lease(CONTROLLER, "held-for-hand-over").await;
    let findings = cluster.check(PlannedOperation::NoOperation).await;
    expect(
        &findings,
        FindingStatus::Problem,
        "no process runs deployment-controller: kube-controller-manager does not, and no process leads since ",
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
        "-controller: forbidden; it needs get on leases.coordination.k8s.io in the namespace kube-system",
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
    let connection = cluster.connect().await;
    cluster.server.shutdown().await;
    let why = gather_facts(&connection, &Clock::system(), GatherOptions::default()).await.unwrap_err();
    assert!(why.to_string().starts_with("GET /version failed: "), "{why}");
}

#[tokio::test]
async fn a_release_makes_a_standby_lead_and_writes_nothing_else() {
    let cluster = Cluster::handed_over("release").await;
    cluster.held_lease(CONTROLLER).await;
    cluster.sandbox.writes().clear();
    // The first patch meets the write of another client.
    cluster.sandbox.faults().add(Rule::new(Action::Conflict).verb("patch").resource("leases").identity(ADMIN).times(1));
    let (done, out) = cluster.release_with_standbys(false).await;
    assert_eq!(out, "deployment-controller: released, led by nonet-deployment-controller-b_2\n");
    assert!(done);
    assert_eq!(cluster.sandbox.faults().hits(&Action::Conflict), 1);
    assert_eq!(cluster.sandbox.writes().all().len(), 2, "one of the release, one of the standby");
    let (done, out) = cluster.release(false).await;
    assert_eq!(out, "deployment-controller: not held; it has the holder nonet-deployment-controller-b_2\n");
    assert!(done);
}

#[tokio::test]
async fn a_release_beside_kube_controller_manager_writes_nothing_without_force() {
    let cluster = Cluster::handed_over("refused").await;
    cluster.held_lease(CONTROLLER).await;
    cluster.manager("*").await;
    let written = cluster.sandbox.resource_version();
    let (done, out) = cluster.release(false).await;
    let words =
        "error: kube-controller-manager (kube-controller-manager-cp-0) has deployment-controller switched on: add ";
    assert!(!done && out.contains(words), "{out}");
    assert!(out.ends_with("because a second writer might start; --force releases anyway\n"), "{out}");
    assert_eq!(cluster.sandbox.resource_version(), written);
    let (done, out) = cluster.release_with_standbys(true).await;
    assert!(done && out.starts_with("warning: kube-controller-manager"), "{out}");
    assert!(out.ends_with("deployment-controller: released, led by nonet-deployment-controller-b_2\n"), "{out}");
}

#[tokio::test]
async fn a_release_without_a_running_process_is_an_error() {
    let cluster = Cluster::handed_over("leaderless").await;
    cluster.held_lease(CONTROLLER).await;
    let (done, out) = cluster.release(false).await;
    assert!(!done);
    assert!(
        out.starts_with("error: deployment-controller: released, but no process has led for 2 s; kubectl"),
        "{out}"
    );
    cluster.sandbox.delete("leases.coordination.k8s.io", Some("kube-system"), CONTROLLER).await.unwrap();
    for (done, out) in [cluster.release(false).await, cluster.hold().await] {
        assert!(
            !done && out.starts_with("error: deployment-controller has no Lease in the namespace kube-system: a"),
            "{out}"
        );
    }
}

#[tokio::test]
async fn a_hold_keeps_the_history_of_the_lease() {
    let cluster = Cluster::handed_over("hold-command").await;
    let before = cluster.read_lease(CONTROLLER).await;
    let (done, out) = cluster.hold().await;
    assert_eq!(
        out,
        "deployment-controller: held; its leader nonet-deployment-controller-a_1 ends within two seconds\n"
    );
    let mut expected = before;
    expected["holderIdentity"] = HOLD.into();
    expected["leaseDurationSeconds"] = 315_360_000.into();
    assert_eq!(cluster.read_lease(CONTROLLER).await, expected);
    assert!(done);
    assert_eq!(cluster.hold().await, (true, "deployment-controller: already held\n".to_owned()));
}

#[tokio::test]
async fn a_failure_in_the_middle_names_what_is_not_done() {
    let cluster = Cluster::handed_over("middle").await;
    cluster.nonet("job-controller").await;
    cluster.manager("*,-deployment-controller,-job,-ttl-after-finished").await;
    for name in [CONTROLLER, "job-controller"] {
        cluster.held_lease(name).await;
    }
    cluster.sandbox.faults().add(
        Rule::new(Action::InternalError).verb("patch").object("kube-system", "job-controller").identity(ADMIN).times(1),
    );
    let (done, out) = cluster.release_with_standbys(false).await;
    assert!(!done);
    assert!(out.starts_with("deployment-controller: released\nerror: not released: job-controller: PATCH "), "{out}");
    assert!(out.ends_with("then type the same command again\n"), "{out}");
    let (done, out) = cluster.release_with_standbys(false).await;
    assert!(done, "{out}");
    assert!(out.contains("job-controller: released, led by nonet-job-controller-b_2"), "{out}");
    assert!(out.starts_with("deployment-controller: not held"), "{out}");
}

#[tokio::test]
async fn a_caller_without_the_right_to_patch_learns_its_name() {
    let cluster = Cluster::handed_over("no-patch").await;
    let read = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]});
    cluster.sandbox.grant("reader", json!([read])).await.unwrap();
    cluster.log_in("reader", Credential::Token);
    let (done, out) = cluster.hold().await;
    assert!(!done);
    let words = "error: not held: deployment-controller: forbidden; it needs patch on leases.coordination.k8s.io in the \
        namespace kube-system; request the right; kubectl auth can-i patch leases.coordination.k8s.io -n kube-system";
    assert!(out.starts_with(words), "{out}");
}

#[tokio::test]
async fn a_release_leaves_a_lease_that_another_client_takes_meanwhile() {
    let cluster = Cluster::handed_over("race").await;
    cluster.held_lease(CONTROLLER).await;
    let late = Action::Latency(Duration::from_millis(300));
    cluster.sandbox.faults().add(Rule::new(late.clone()).verb("patch").resource("leases").identity(ADMIN).times(1));
    let other = async {
        while cluster.sandbox.faults().hits(&late) == 0 {
            Clock::system().sleep(Duration::from_millis(10)).await;
        }
        let spec = json!({"spec": {"holderIdentity": "other_1"}});
        cluster.sandbox.merge("leases.coordination.k8s.io", Some("kube-system"), CONTROLLER, None, spec).await.unwrap();
    };
    let ((done, out), ()) = tokio::join!(cluster.release(false), other);
    assert!(!done && out.starts_with("error: deployment-controller: not held, but no process has led"), "{out}");
    assert_eq!(cluster.read_lease(CONTROLLER).await["holderIdentity"], "other_1");
}

#[tokio::test]
async fn a_release_in_one_namespace_finds_the_installation_in_another_one() {
    let cluster = Cluster::handed_over("two-namespaces").await;
    cluster.held_lease(CONTROLLER).await;
    cluster.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).await;
    let labels = json!({
        "app.kubernetes.io/name": CONTROLLER, "app.kubernetes.io/component": "controller", "app.kubernetes.io/part-of": "nonet",
    });
    let spec = json!({"containers": [{"name": "controller", "image": "x:v1"}]});
    cluster
        .apply(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "nonet-deployment-controller", "namespace": "other", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        }))
        .await;
    let written = cluster.sandbox.resource_version();
    let (done, out) = cluster.release_in(Some("kube-system"), false).await;
    let words = "error: deployment-controller is installed in the namespace other, too, and is not held there";
    assert!(!done && out.starts_with(words), "{out}");
    assert_eq!(cluster.sandbox.resource_version(), written);
}

/// Flag of a kube-controller-manager with the loops of deployment-controller switched off.
const OFF: &str = "*,-deployment-controller";
const STEP_1: &str = "step 1 of 4: check before the hand-over of deployment-controller\n";
const STEP_2: &str = "step 2 of 4: you switch the loops off in kube-controller-manager\n";
const STEP_4: &str = "step 4 of 4: check after the hand-over\n";
const LEADER_LAST: &str = "set it on each control-plane node, and on cp-0, where the leader runs, last\n";
const LEADER_FIRST: &str = "set it on each control-plane node, and on cp-0, where the leader runs, first\n";
const SET_OFF: &str =
    "set the flag of kube-controller-manager (kube-controller-manager-cp-0): --controllers=*,-deployment-controller\n";
const SET_ON: &str = "set the flag of kube-controller-manager (kube-controller-manager-cp-0): --controllers=*\n";
const WAITING_OFF: &str = "waiting: kube-controller-manager (kube-controller-manager-cp-0) has deployment-controller switched on: \
    add -deployment-controller to --controllers, in kubeadm-config too, on each control-plane node\n";
const WAITING_ON: &str = "waiting: kube-controller-manager does not run deployment-controller: switched off\n";
const RELEASED: &str = "step 3 of 4: release the Leases\n\
    deployment-controller: released, led by nonet-deployment-controller-b_2\n";
const HELD: &str = "step 1 of 3: hold the Leases of deployment-controller\n\
    deployment-controller: held; its leader nonet-deployment-controller-a_1 ends within two seconds\n\
    done: no process leads\n";
const STEP_2_BACK: &str = "step 2 of 3: you switch the loops on in kube-controller-manager\n";
const STEP_3_BACK: &str = "step 3 of 3: check before the removal\n";

const FINE: &str = "0 problems, 0 unknown, 0 warnings, 10 ok\n";

#[derive(Clone, Copy, PartialEq)]
enum Way {
    HandOver,
    Back,
}

impl Cluster {
    /// Creates a cluster in which Nonet stands by, ready for the hand-over of deployment-controller.
    async fn before_hand_over(name: &str) -> Self {
        let cluster = Self::handed_over(name).await;
        cluster.manager("*").await;
        cluster.held_lease_instead(CONTROLLER).await;
        cluster.ready_pods().await;
        cluster
    }

    async fn held_lease_instead(&self, name: &str) {
        self.sandbox.delete("leases.coordination.k8s.io", Some("kube-system"), name).await.unwrap();
        self.held_lease(name).await;
    }

    /// Adds the standby that takes free Leases, and makes both Pods ready.
    async fn ready_pods(&self) {
        let mut pod = self.sandbox.get("pods", Some("kube-system"), "nonet-deployment-controller-a").await.unwrap();
        let labels = pod["metadata"]["labels"].take();
        let spec = json!({"containers": [{"name": "controller", "image": "registry.example/nonet/deployment-controller:v0.1.0"}]});
        let metadata = json!({"name": "nonet-deployment-controller-b", "namespace": "kube-system", "labels": labels});
        self.apply(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        for name in ["nonet-deployment-controller-a", "nonet-deployment-controller-b"] {
            self.sandbox.merge("pods", Some("kube-system"), name, Some("status"), status.clone()).await.unwrap();
        }
    }

    fn options(dry_run: bool, switch_timeout: Duration) -> ProcedureOptions {
        ProcedureOptions {
            names: Vec::new(),
            gather: GatherOptions { all_namespaces: true, ..GatherOptions::default() },
            stated_list: None,
            dry_run,
            seconds_to_lead: 5,
            switch_timeout,
        }
    }

    /// Runs a procedure beside standbys. Returns whether it succeeded, and its output.
    async fn run(&self, way: Way, options: ProcedureOptions) -> (bool, String) {
        let (connection, clock, mut out) = (self.connect().await, Clock::system(), Vec::new());
        let mut procedure = Procedure::new(&connection, &clock, options, &mut out);
        let running = async {
            match way {
                Way::HandOver => Box::pin(procedure.hand_over()).await,
                Way::Back => Box::pin(procedure.way_back()).await,
            }
        };
        let done = tokio::select! {
            done = running => done.unwrap(),
            () = self.stand_by() => panic!("standbys never end"),
        };
        (done, without_times(&String::from_utf8(out).unwrap()))
    }

    /// Replaces the manager, as an operator does who types the flag a few seconds after the command began to wait.
    async fn switch_later(&self, controllers: &str) {
        Clock::system().sleep(Duration::from_secs(8)).await;
        self.manager(controllers).await;
        self.lease("kube-controller-manager", "cp-0_2").await;
    }

    async fn status(&self) -> (u8, String) {
        let connection = self.connect().await;
        let facts = Box::pin(gather_facts(&connection, &Clock::system(), GatherOptions::default())).await.unwrap();
        let report = status(&facts);
        let parsed: Value = serde_json::from_str(&to_json(&report)).unwrap();
        assert_eq!(parsed["exitCode"], report.exit_code());
        (report.exit_code(), without_times(&to_text(&report)))
    }
}

/// Replaces each number of seconds by `N`.
fn without_times(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    let is_seconds = |next: Option<&&str>| next.is_some_and(|next| *next == "s" || next.starts_with("s\n"));
    let word = |(index, word): (usize, &&str)| {
        if is_number(word) && is_seconds(words.get(index + 1)) { "N".to_owned() } else { (*word).to_owned() }
    };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_hand_over_waits_for_the_operator_and_releases() {
    let cluster = Cluster::before_hand_over("procedure-to-the-end").await;
    let options = Cluster::options(false, Duration::from_secs(60));
    let ((done, out), ()) = tokio::join!(cluster.run(Way::HandOver, options), cluster.switch_later(OFF));
    let expected = [
        STEP_1,
        FINE,
        STEP_2,
        SET_OFF,
        LEADER_LAST,
        WAITING_OFF,
        "done: no kube-controller-manager runs them\n",
        RELEASED,
        STEP_4,
        FINE,
        "handed over: deployment-controller; no process ran their loops for at most N s\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);
    assert_eq!(cluster.read_lease(CONTROLLER).await["holderIdentity"], "nonet-deployment-controller-b_2");
}

#[tokio::test]
async fn a_dry_run_of_a_hand_over_writes_nothing() {
    let cluster = Cluster::before_hand_over("procedure-dry-run").await;
    cluster.sandbox.writes().clear();
    let (done, out) = cluster.run(Way::HandOver, Cluster::options(true, Duration::from_secs(60))).await;
    let expected = [
        STEP_1,
        FINE,
        STEP_2,
        SET_OFF,
        LEADER_LAST,
        "dry run: would wait until no kube-controller-manager runs them\n",
        "step 3 of 4: release the Leases\n",
        "dry run: would release deployment-controller, and wait for their leaders\n",
        STEP_4,
        "dry run: would check that Nonet alone runs the loops; nothing was written\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);
    assert_eq!(cluster.sandbox.writes().all().len(), 0);
}

#[tokio::test]
async fn a_hand_over_with_a_problem_writes_nothing_and_names_the_way_out() {
    let cluster = Cluster::before_hand_over("procedure-problem").await;
    cluster.sandbox.delete("leases.coordination.k8s.io", Some("kube-system"), CONTROLLER).await.unwrap();
    cluster.sandbox.writes().clear();
    let (done, out) = cluster.run(Way::HandOver, Cluster::options(false, Duration::from_secs(60))).await;
    let expected = [
        STEP_1,
        "problem  leases        deployment-controller: there is no Lease yet; a running process creates it held after ten seconds\n",
        "                       -> kubectl -n kube-system get pods -l app.kubernetes.io/name=deployment-controller\n",
        "1 problem, 0 unknown, 0 warnings, 9 ok\n",
        "nothing was changed: correct the problems, and type the same command again\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(!done);
    assert_eq!(cluster.sandbox.writes().all().len(), 0);
}

#[tokio::test]
async fn an_interrupted_hand_over_continues() {
    let cluster = Cluster::before_hand_over("procedure-interrupted").await;
    cluster.sandbox.writes().clear();
    let options = Cluster::options(false, Duration::from_millis(1));
    let (done, out) = cluster.run(Way::HandOver, options.clone()).await;
    let expected = [
        STEP_1,
        FINE,
        STEP_2,
        SET_OFF,
        LEADER_LAST,
        WAITING_OFF,
        "error: the loops are not off after 1ms; type the same command again to wait longer\n",
        "to continue, type the same command again; to undo it: kubectl nonet way-back deployment-controller\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(!done);
    assert_eq!(cluster.sandbox.writes().all().len(), 0);

    cluster.manager(OFF).await;
    let (done, out) = cluster.run(Way::HandOver, options.clone()).await;
    let expected = [
        STEP_1,
        "0 problems, 0 unknown, 0 warnings, 8 ok\n",
        STEP_2,
        "already done: no kube-controller-manager runs them\n",
        RELEASED,
        STEP_4,
        FINE,
        "handed over: deployment-controller; no process ran their loops when this command began, and for N s more\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);

    cluster.sandbox.writes().clear();
    let (done, out) = cluster.run(Way::HandOver, options).await;
    let expected = [
        STEP_1,
        "already handed over: deployment-controller\n",
        "nothing to check, because nothing is left to hand over\n",
        STEP_2,
        "already done: no kube-controller-manager runs them\n",
        "step 3 of 4: release the Leases\n",
        "deployment-controller: not held; it has the holder nonet-deployment-controller-b_2\n",
        STEP_4,
        FINE,
        "handed over: deployment-controller\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);
    assert_eq!(cluster.sandbox.writes().all().len(), 0);
}

#[tokio::test]
async fn the_way_back_holds_and_waits_for_the_operator() {
    let cluster = Cluster::handed_over("way-back").await;
    cluster.ready_pods().await;
    let options = Cluster::options(false, Duration::from_secs(60));
    let ((done, out), ()) = tokio::join!(cluster.run(Way::Back, options.clone()), cluster.switch_later("*"));
    let expected = [
        HELD,
        STEP_2_BACK,
        SET_ON,
        LEADER_FIRST,
        WAITING_ON,
        "done: a kube-controller-manager leads and runs them\n",
        STEP_3_BACK,
        FINE,
        "given back: deployment-controller; no process ran their loops for at most N s\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);
    assert_eq!(cluster.read_lease(CONTROLLER).await["holderIdentity"], HOLD);

    cluster.sandbox.writes().clear();
    cluster.lease("kube-controller-manager", "cp-0_2").await;
    let written = cluster.sandbox.writes().all().len();
    let (done, out) = cluster.run(Way::Back, options).await;
    let expected = [
        "step 1 of 3: hold the Leases of deployment-controller\n",
        "already done: all of them are held\n",
        STEP_2_BACK,
        "already done: a kube-controller-manager leads and runs them\n",
        STEP_3_BACK,
        FINE,
        "given back: deployment-controller\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);
    assert_eq!(cluster.sandbox.writes().all().len(), written);
}

#[tokio::test]
async fn an_interrupted_way_back_continues() {
    let cluster = Cluster::handed_over("way-back-interrupted").await;
    cluster.ready_pods().await;
    cluster.sandbox.writes().clear();
    let (done, out) = cluster.run(Way::Back, Cluster::options(true, Duration::from_millis(1))).await;
    let expected = [
        "step 1 of 3: hold the Leases of deployment-controller\n",
        "dry run: would hold deployment-controller: its Lease is not held\n",
        STEP_2_BACK,
        SET_ON,
        LEADER_FIRST,
        "dry run: would wait until a kube-controller-manager leads and runs them\n",
        STEP_3_BACK,
        "dry run: would check that the built-in loops run and that no replica of Nonet leads; nothing was written\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(done);
    assert_eq!(cluster.sandbox.writes().all().len(), 0);

    let options = Cluster::options(false, Duration::from_millis(1));
    let (done, out) = cluster.run(Way::Back, options.clone()).await;
    let expected = [
        HELD,
        STEP_2_BACK,
        SET_ON,
        LEADER_FIRST,
        WAITING_ON,
        "error: the loops are not on after 1ms; type the same command again to wait longer\n",
        "to continue, type the same command again; to undo it: kubectl nonet hand-over deployment-controller\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(!done);

    cluster.manager("*").await;
    cluster.lease("kube-controller-manager", "cp-0_2").await;
    let (done, out) = cluster.run(Way::Back, options).await;
    assert!(done && out.ends_with("given back: deployment-controller\n"), "{out}");
}

#[tokio::test]
async fn a_hand_over_beside_a_hidden_manager_needs_its_flag() {
    let cluster = Cluster::before_hand_over("procedure-hidden").await;
    cluster.sandbox.delete("pods", Some("kube-system"), "kube-controller-manager-cp-0").await.unwrap();
    cluster.sandbox.writes().clear();
    let mut options = Cluster::options(false, Duration::from_secs(60));
    let (done, out) = cluster.run(Way::HandOver, options.clone()).await;
    let expected = "error: cannot tell which loops kube-controller-manager runs, because it has no Pod: find out its flag \
        --controllers, and repeat the command with --built-in-controllers LIST, or with --without-manager if there \
        is no kube-controller-manager\n";
    assert_eq!((done, out.as_str()), (false, expected));

    let state = |options: &mut ProcedureOptions, list: &str| {
        options.stated_list = Some(list.to_owned());
        let parsed = ControllersFlag::parse(list);
        options.gather.stated_manager = Some(ManagerStatement::Controllers(parsed));
    };
    state(&mut options, "*,tokencleaner");
    let (done, out) = cluster.run(Way::HandOver, options.clone()).await;
    let expected = [
        STEP_1,
        "0 problems, 0 unknown, 0 warnings, 8 ok\n",
        STEP_2,
        "set the flag of kube-controller-manager (by --built-in-controllers): --controllers=*,tokencleaner,-deployment-controller\n",
        "error: by --built-in-controllers, the loops are not off: set the flag, and type the same command with its new value\n",
        "to continue, type the same command again; to undo it: kubectl nonet way-back deployment-controller\n",
    ];
    assert_eq!(out, expected.concat());
    assert!(!done);
    assert_eq!(cluster.sandbox.writes().all().len(), 0);

    state(&mut options, "*,tokencleaner,-deployment-controller");
    let (done, out) = cluster.run(Way::HandOver, options).await;
    assert!(done && out.contains(RELEASED), "{out}");
}

#[tokio::test]
async fn status_shows_each_state_of_an_election() {
    let cluster = Cluster::handed_over("status").await;
    cluster.ready_pods().await;
    let row = |out: &str| {
        let row = out.lines().find(|line| line.starts_with("deployment-controller")).unwrap();
        row.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>().join("|")
    };
    let (code, out) = cluster.status().await;
    let expected = "\
CONTROLLER              NAMESPACE     STATE   STANDBYS    LED FOR   LEADER                            VERSION   IMAGE
deployment-controller   kube-system   leads   1/1 ready   N s       nonet-deployment-controller-a_1   -         deployment-controller:v0.1.0
queues, failing keys, watches and shadow differences are in the answers of each process, which need a token (docs/operating.md, Read the reasons):
  kubectl -n kube-system port-forward pod/nonet-deployment-controller-a 20257:10257
";
    assert_eq!(out, expected);
    assert_eq!(code, 0);

    let leases = "leases.coordination.k8s.io";
    let annotations = json!({"metadata": {"annotations": {"nonet/version": "0.2.0+abc", "nonet/probation": "1m"}}});
    cluster.sandbox.merge(leases, Some("kube-system"), CONTROLLER, None, annotations).await.unwrap();
    let (code, out) = cluster.status().await;
    let rest = "nonet-deployment-controller-a_1|0.2.0+abc|deployment-controller:v0.1.0";
    assert_eq!(row(&out), format!("deployment-controller|kube-system|on probation|1/1 ready|N s|{rest}"));
    assert_eq!(code, 0);

    let rest = "2/2 ready|-|-|-|deployment-controller:v0.1.0";
    cluster.lease(CONTROLLER, HOLD).await;
    let (code, out) = cluster.status().await;
    assert_eq!(row(&out), format!("deployment-controller|kube-system|held after leading|{rest}"));
    assert!(out.contains("problem  loops         no process runs deployment-controller: "), "{out}");
    assert_eq!(code, 1);

    cluster.manager("*").await;
    cluster.held_lease_instead(CONTROLLER).await;
    let (code, out) = cluster.status().await;
    assert_eq!(row(&out), format!("deployment-controller|kube-system|held|{rest}"));
    assert!(!out.contains("problem"), "{out}");
    assert_eq!(code, 1);

    for (spec, state) in [
        (
            json!({"holderIdentity": "x_1", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}),
            "expired",
        ),
        (json!({"holderIdentity": "", "leaseDurationSeconds": 1}), "free"),
    ] {
        cluster.sandbox.merge(leases, Some("kube-system"), CONTROLLER, None, json!({"spec": spec})).await.unwrap();
        let (code, out) = cluster.status().await;
        assert_eq!((row(&out), code), (format!("deployment-controller|kube-system|{state}|{rest}"), 1));
    }
    cluster.sandbox.delete(leases, Some("kube-system"), CONTROLLER).await.unwrap();
    let (code, out) = cluster.status().await;
    assert_eq!((row(&out), code), (format!("deployment-controller|kube-system|no Lease|{rest}"), 1));
}

#[tokio::test]
async fn status_shows_shadows_and_a_cluster_without_nonet() {
    let cluster = Cluster::handed_over("status-shadow").await;
    cluster.manager("*").await;
    for (resource, name) in
        [("pods", "nonet-deployment-controller-a"), ("deployments.apps", "nonet-deployment-controller")]
    {
        cluster.sandbox.delete(resource, Some("kube-system"), name).await.unwrap();
    }
    cluster.sandbox.delete("leases.coordination.k8s.io", Some("kube-system"), CONTROLLER).await.unwrap();
    let (code, out) = cluster.status().await;
    let expected = "Nonet is not installed in this cluster; kube-controller-manager is led by cp-0_1, which renewed its Lease N s ago\n";
    assert_eq!((code, out.as_str()), (0, expected));

    let labels = json!({
        "app.kubernetes.io/name": CONTROLLER, "app.kubernetes.io/component": "shadow", "app.kubernetes.io/part-of": "nonet",
    });
    let spec =
        json!({"containers": [{"name": "controller", "image": "r.example/deployment-controller:v0.2.0@sha256:1"}]});
    let shadow = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shadow-deployment-controller", "namespace": "kube-system", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    });
    cluster.apply(shadow).await;
    let (code, out) = cluster.status().await;
    let expected = "\
CONTROLLER              NAMESPACE     STATE    STANDBYS    LED FOR   LEADER   VERSION   IMAGE
deployment-controller   kube-system   shadow   0/1 ready   -         -        -         deployment-controller:v0.2.0
";
    assert_eq!((code, out.as_str()), (0, expected));
}

#[tokio::test]
async fn status_without_rights_is_unknown() {
    let cluster = Cluster::handed_over("status-forbidden").await;
    cluster.log_in("nobody", Credential::Token);
    let (code, out) = cluster.status().await;
    assert_eq!(code, 3);
    for words in [
        "unknown  installed     cannot tell which Pods run: forbidden; it needs list on pods in the namespace kube-system\n",
        "unknown  leases        cannot tell which process leads deployment-controller, replicaset-controller, ",
    ] {
        assert!(out.contains(words), "{out}");
    }
    assert!(!out.contains("CONTROLLER") && !out.contains("not installed"), "{out}");
}
