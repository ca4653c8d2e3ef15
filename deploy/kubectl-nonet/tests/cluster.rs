//! Runs the check against an API server over TLS, from a kubeconfig to findings.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{path::PathBuf, time::Duration};

use common::clock::Clock;
use kubectl_nonet::{
    check::{PlannedOperation, check, status::status},
    connection::Connection,
    facts::BuiltInControllersFlag,
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
        let connection = self.connect().await;
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
const STEP_2: &str = "step 2 of 4: switch the loops of kube-controller-manager off, which you do\n";
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
const STEP_2_BACK: &str = "step 2 of 3: switch the loops of kube-controller-manager on, which you do\n";
const STEP_3_BACK: &str = "step 3 of 3: check before the removal\n";

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
        cluster.ready_pod().await;
        cluster
    }

    async fn held_lease_instead(&self, name: &str) {
        self.sandbox.delete("leases.coordination.k8s.io", Some("kube-system"), name).await.unwrap();
        self.held_lease(name).await;
    }

    async fn ready_pod(&self) {
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let name = "nonet-deployment-controller-a";
        self.sandbox.merge("pods", Some("kube-system"), name, Some("status"), status).await.unwrap();
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

    /// Runs a procedure beside standbys. Returns whether it succeeded, and its output with `N s` instead of each time.
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
        (done, String::from_utf8(out).unwrap())
    }

    /// Replaces the manager, as an operator does who types the flag a few seconds after the command began to wait.
    async fn switch_later(&self, controllers: &str) {
        Clock::system().sleep(Duration::from_secs(8)).await;
        self.manager(controllers).await;
        self.lease("kube-controller-manager", "cp-0_2").await;
    }

    /// Returns the writes of the caller.
    fn writes_of_caller(&self) -> Vec<String> {
        let all = self.sandbox.writes().all();
        all.iter().filter(|write| format!("{write:?}").contains(ADMIN)).map(|write| format!("{write:?}")).collect()
    }

    async fn status(&self) -> (u8, String) {
        let connection = self.connect().await;
        let facts = Box::pin(gather_facts(&connection, &Clock::system(), GatherOptions::default())).await.unwrap();
        let report = status(&facts);
        let parsed: Value = serde_json::from_str(&to_json(&report)).unwrap();
        assert_eq!(parsed["exitCode"], report.exit_code());
        (report.exit_code(), to_text(&report))
    }
}

/// Returns the lines with times and summaries of findings cut off, which depend on the machine.
#[track_caller]
fn assert_lines(out: &str, expected: &[&str]) {
    let is_counted = |line: &&str| !line.contains(" unknown, ");
    let lines: Vec<&str> = out.lines().filter(is_counted).collect();
    let expected = expected.concat();
    assert_eq!(lines, expected.lines().collect::<Vec<_>>(), "{out}");
}

#[tokio::test]
async fn a_hand_over_waits_for_the_operator_and_releases() {
    let cluster = Cluster::before_hand_over("procedure-to-the-end").await;
    let options = Cluster::options(false, Duration::from_secs(60));
    let ((done, out), ()) = tokio::join!(cluster.run(Way::HandOver, options), cluster.switch_later(OFF));
    let (lines, summary) = out.trim_end().rsplit_once('\n').unwrap();
    assert_lines(
        lines,
        &[STEP_1, STEP_2, SET_OFF, LEADER_LAST, WAITING_OFF, "done: no kube-controller-manager runs them\n", RELEASED, STEP_4],
    );
    assert!(summary.starts_with("handed over: deployment-controller; no process ran their loops for at most "), "{out}");
    assert!(done);
    assert_eq!(cluster.read_lease(CONTROLLER).await["holderIdentity"], "nonet-deployment-controller-b_2");
}
