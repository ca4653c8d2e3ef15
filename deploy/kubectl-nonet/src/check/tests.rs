//! Tables of facts with the expected findings.

use common::{built_in_flags::ControllersFlag, leader::HAND_OVER_HOLDER_IDENTITY as HOLD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{PlannedOperation, check};
use crate::{
    controllers,
    facts::{
        AccessReview, BuiltInControllersFlag, Certificate, FactError, FactResult, Facts, FirstReading,
        KubeControllerManagerFacts, LeaseReading, NamedLease, RolesAndBindings, TimeReadings,
    },
    finding::{Finding, FindingStatus},
};

const MANAGER: &str = "kube-controller-manager";
/// Value of `--controllers` without the loop of deployment-controller.
const OFF: &str = "*,-deployment-controller";

fn now() -> Timestamp {
    "2026-11-25T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn forbidden<T>() -> FactResult<T> {
    Err(FactError::Forbidden { verb: "list", resource: "things", namespace: Some("kube-system".to_owned()) })
}

fn labels(controller: &str, component: &str) -> Value {
    json!({"app.kubernetes.io/name": controller, "app.kubernetes.io/component": component, "app.kubernetes.io/part-of": "nonet"})
}

/// Returns a Lease that was renewed `renewed` seconds ago.
#[allow(clippy::unnecessary_wraps, reason = "facts are results")]
fn lease(holder: &str, renewed: i64) -> FactResult<Option<LeaseReading>> {
    let lease = parse(json!({
        "metadata": {"creationTimestamp": ago(3_600)},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": if holder == HOLD { 315_360_000 } else { 15 },
            "acquireTime": micro(ago(600)), "renewTime": micro(ago(renewed)),
        },
    }));
    Ok(Some(LeaseReading { lease, read_at: now(), first_reading: None }))
}

fn micro(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// Facts about a cluster in which Nonet runs deployment-controller, and kube-controller-manager all other loops.
struct World(Box<Facts>);

impl World {
    fn handed_over() -> Self {
        let leases = controllers::ALL.iter().map(|controller| NamedLease {
            name: controller.name,
            namespace: "kube-system".to_owned(),
            reading: Ok(None),
        });
        let account =
            json!([{"kind": "ServiceAccount", "name": "nonet-deployment-controller", "namespace": "kube-system"}]);
        let binding = |kind: &str| {
            json!({
                "metadata": {"name": "nonet:deployment-controller", "namespace": "kube-system"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "nonet:deployment-controller"},
                "subjects": account,
            })
        };
        let facts = Facts {
            namespaces: vec!["kube-system".to_owned()],
            cluster_wide_search: Ok(()),
            clocks: Ok(TimeReadings { local_time: now(), server_time: now() }),
            server_version: Ok("v1.36.2".to_owned()),
            deployments: Ok(Vec::new()),
            pods: Ok(Vec::new()),
            disruption_budgets: Ok(vec![parse(json!({
                "metadata": {"name": "nonet-deployment-controller", "namespace": "kube-system"},
                "spec": {"selector": {"matchLabels": labels("deployment-controller", "controller")}},
            }))]),
            leases: leases.collect(),
            kube_controller_manager: KubeControllerManagerFacts {
                lease: lease("cp-0_1", 1),
                pods: Ok(Vec::new()),
                control_plane_nodes: Ok(vec![parse(json!({"metadata": {"name": "cp-0"}}))]),
                kubeadm_config: Ok(None),
                built_in_controllers_flag: None,
            },
            lease_events: Ok(Vec::new()),
            roles_and_bindings: RolesAndBindings {
                cluster_role_names: Ok(["nonet:deployment-controller".to_owned()].into()),
                cluster_role_bindings: Ok(vec![parse(binding("ClusterRole"))]),
                role_names: Ok([("kube-system".to_owned(), "nonet:deployment-controller".to_owned())].into()),
                role_bindings: Ok(vec![parse(binding("Role"))]),
            },
            access_reviews: vec![AccessReview {
                controller_name: "deployment-controller",
                denied_rights: Ok(Vec::new()),
            }],
            client_certificate: Ok(None),
            serving_certificate: Ok(None),
        };
        Self(Box::new(facts))
            .deployment(2, 2)
            .pod("a", json!({}))
            .pod("b", json!({}))
            .lease("a_1", 1)
            .manager("cp-0", &[OFF])
    }

    fn with(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.0);
        self
    }

    /// Replaces the Deployment by one that has `ready` of `wanted` replicas.
    fn deployment(self, wanted: i32, ready: i32) -> Self {
        let labels = labels("deployment-controller", "controller");
        let deployment = parse(json!({
            "metadata": {"name": "nonet-deployment-controller", "namespace": "kube-system", "labels": labels, "generation": 1},
            "spec": {
                "replicas": wanted, "selector": {"matchLabels": labels},
                "template": {"spec": {"containers": [{"name": "controller", "image": "registry.example/nonet/deployment-controller:v0.2.0"}]}},
            },
            "status": {"replicas": wanted, "readyReplicas": ready, "updatedReplicas": wanted, "observedGeneration": 1},
        }));
        self.with(|facts| facts.deployments = Ok(vec![deployment]))
    }

    /// Adds a Pod of the Deployment with the image `v0.2.0`.
    fn pod(self, name: &str, status: Value) -> Self {
        self.pod_of("controller", name, "registry.example/nonet/deployment-controller:v0.2.0", status)
    }

    fn pod_of(self, component: &str, name: &str, image: &str, status: Value) -> Self {
        let pod = parse(json!({
            "metadata": {"name": name, "namespace": "kube-system", "labels": labels("deployment-controller", component)},
            "spec": {"containers": [{"name": "controller", "image": image}], "hostNetwork": component != "controller", "nodeName": "cp-0"},
            "status": status,
        }));
        self.with(|facts| facts.pods.as_mut().unwrap().push(pod))
    }

    /// Sets the holder of the Lease, which was renewed `renewed` seconds ago.
    fn lease(self, holder: &str, renewed: i64) -> Self {
        self.reading(lease(holder, renewed))
    }

    fn reading(self, reading: FactResult<Option<LeaseReading>>) -> Self {
        self.with(|facts| {
            facts.leases.iter_mut().find(|l| l.name == "deployment-controller").unwrap().reading = reading;
        })
    }

    fn annotated(self, key: &str, value: &str) -> Self {
        self.with(|facts| {
            let lease = facts.leases.iter_mut().find(|l| l.name == "deployment-controller").unwrap();
            let reading = lease.reading.as_mut().unwrap().as_mut().unwrap();
            let annotations = reading.lease.metadata.annotations.get_or_insert_default();
            annotations.insert(key.to_owned(), value.to_owned());
        })
    }

    /// Makes a Pod with these flags the only kube-controller-manager.
    fn manager(self, node: &str, controllers: &[&str]) -> Self {
        self.with(|facts| facts.kube_controller_manager.pods = Ok(Vec::new())).another_manager(node, controllers)
    }

    fn another_manager(self, node: &str, controllers: &[&str]) -> Self {
        let flags = controllers.iter().map(|list| format!("--controllers={list}"));
        let command: Vec<String> = [MANAGER.to_owned()].into_iter().chain(flags).collect();
        let pod = parse(json!({
            "metadata": {"name": format!("{MANAGER}-{node}"), "namespace": "kube-system"},
            "spec": {"nodeName": node, "containers": [{"name": MANAGER, "image": "registry.k8s.io/kube-controller-manager:v1.36.2", "command": command}]},
        }));
        self.with(|facts| facts.kube_controller_manager.pods.as_mut().unwrap().push(pod))
    }

    fn kubeadm(self, configuration: &str) -> Self {
        let map = parse(json!({"data": {"ClusterConfiguration": configuration}}));
        self.with(|facts| facts.kube_controller_manager.kubeadm_config = Ok(Some(map)))
    }

    fn check(&self, stage: PlannedOperation) -> Vec<Finding> {
        check(&self.0, stage)
    }
}

/// Asserts that a finding has this status and contains these words, and that no finding is worse.
#[track_caller]
fn expect(world: &World, stage: PlannedOperation, status: FindingStatus, words: &str) {
    let findings = world.check(stage);
    let worst = findings.iter().map(|finding| finding.status).max().unwrap();
    let found = findings.iter().any(|finding| finding.status == status && finding.found.contains(words));
    assert!(found && worst == status, "{status} {words:?} is not the worst of {findings:#?}");
}

#[test]
fn a_cluster_after_the_hand_over_is_fine() {
    let world = World::handed_over();
    for finding in world.check(PlannedOperation::NoOperation) {
        assert!(finding.status <= FindingStatus::Info, "{finding:?}");
    }
    expect(
        &world,
        PlannedOperation::NoOperation,
        FindingStatus::Info,
        "kube-controller-manager runs replicaset-controller",
    );
    expect(&world, PlannedOperation::Upgrade, FindingStatus::Info, "not installed");
}

#[test]
fn loops_without_exactly_one_writer_are_found() {
    use FindingStatus::{Info, Problem, Unknown, Warning};
    let start = World::handed_over;
    for (world, status, words) in [
        (
            start().manager("cp-0", &["*"]),
            Problem,
            "two writers: kube-controller-manager (kube-controller-manager-cp-0) and Nonet both run \
                deployment-controller",
        ),
        (start().manager("cp-0", &[]), Problem, "two writers"),
        (start().another_manager("cp-1", &["*"]), Problem, "two writers soon: kube-controller-manager-cp-1"),
        (
            start().lease(HOLD, 0),
            Problem,
            "no process runs deployment-controller: kube-controller-manager does not, and Nonet is held",
        ),
        (start().lease("", 0), Problem, "no replica of Nonet leads"),
        (start().lease("a_1", 60), Problem, "no replica of Nonet leads"),
        (
            start().manager("cp-0", &[OFF, "-job"]),
            Problem,
            "no process runs job-controller: kube-controller-manager does not, and Nonet is not installed",
        ),
        (start().lease(HOLD, 600).manager("cp-0", &["*"]), Info, "held for the hand-over, for 10 min"),
        (
            start().with(|f| f.kube_controller_manager.lease = lease("cp-0_1", 60)),
            Problem,
            "neither Nonet nor a kube-controller-manager that runs them leads",
        ),
        (
            start().with(|f| f.kube_controller_manager.lease = lease("elsewhere_1", 1)),
            Unknown,
            "the leader elsewhere_1 of kube-controller-manager is not one of its Pods",
        ),
        (
            start().with(|f| f.kube_controller_manager.pods = forbidden()),
            Unknown,
            "which loops kube-controller-manager runs: forbidden; it needs list on things",
        ),
        (start().with(|f| f.kube_controller_manager.pods = Ok(vec![])), Unknown, "is not a Pod in kube-system"),
        (
            start()
                .with(|f| (f.kube_controller_manager.pods, f.kube_controller_manager.lease) = (Ok(vec![]), Ok(None))),
            Unknown,
            "without leader election it has no Lease",
        ),
        (
            start().with(|f| {
                f.kube_controller_manager.built_in_controllers_flag =
                    Some(BuiltInControllersFlag::Controllers(ControllersFlag::parse(OFF)));
            }),
            Info,
            "by --built-in-controllers",
        ),
        (
            start().with(|f| {
                f.kube_controller_manager.built_in_controllers_flag =
                    Some(BuiltInControllersFlag::Controllers(ControllersFlag::default()));
            }),
            Problem,
            "two writers",
        ),
        (
            start().with(|f| {
                f.kube_controller_manager.built_in_controllers_flag = Some(BuiltInControllersFlag::NoManager);
            }),
            Problem,
            "no process runs replicaset-controller",
        ),
        (
            start().with(|f| {
                f.kube_controller_manager
                    .control_plane_nodes
                    .as_mut()
                    .unwrap()
                    .push(parse(json!({"metadata": {"name": "cp-1"}})));
            }),
            Unknown,
            "control-plane node cp-1",
        ),
        (
            start().kubeadm("controllerManager: {}"),
            Warning,
            "the next kubeadm upgrade will switch on deployment-controller in",
        ),
        (start().kubeadm("controllerManager:\n  extraArgs:\n    controllers: '*,-deployment'"), Info, "not installed"),
        (start().kubeadm("a: ["), Unknown, "kubeadm-config is not YAML"),
    ] {
        expect(&world, PlannedOperation::NoOperation, status, words);
    }
}

#[test]
fn installed_controllers_that_are_not_ready_are_found() {
    use FindingStatus::{Problem, Unknown, Warning};
    let start = World::handed_over;
    let static_image = "registry.example/nonet/deployment-controller:v0.2.0";
    for (world, status, words) in [
        (start().deployment(2, 1), Warning, "1 of 2 replicas ready"),
        (start().deployment(2, 0), Problem, "0 of 2 replicas ready"),
        (start().pod_of("rescue", "r", static_image, json!({})), Warning, "rescue Pod kube-system/r is still there"),
        (
            start().pod_of(
                "static-pod",
                "s",
                static_image,
                json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            ),
            Warning,
            "installed twice, as a Deployment and as static Pods",
        ),
        (start().with(|f| f.deployments = forbidden()), Unknown, "which Deployments are installed: forbidden"),
        (start().with(|f| f.cluster_wide_search = forbidden()), Unknown, "other namespaces"),
    ] {
        expect(&world, PlannedOperation::NoOperation, status, words);
    }
}

#[test]
fn leases_without_a_proven_leader_of_nonet_are_found() {
    use FindingStatus::{Info, Unknown, Warning};
    let start = World::handed_over;
    for (world, status, words) in [
        (start().lease("stranger_1", 1), Warning, "the leader stranger_1 is not one of the Pods"),
        (start().reading(forbidden()), Unknown, "cannot tell which process leads deployment-controller: forbidden"),
        (
            start().annotated("nonet/failed", "0.2.0+abc").annotated("nonet/version", "0.1.0+x"),
            Warning,
            "0.2.0+abc, the version of its image, has failed on probation",
        ),
        (start().annotated("nonet/failed", "0.3.0"), Info, "versions that failed on probation: 0.3.0"),
        (start().annotated("nonet/probation", "1m0s"), Info, "is on probation for 1m0s"),
    ] {
        expect(&world, PlannedOperation::NoOperation, status, words);
    }
}

#[test]
fn missing_rights_are_found() {
    use FindingStatus::{Problem, Unknown, Warning};
    let start = World::handed_over;
    for (world, status, words) in [
        (start().with(|f| f.roles_and_bindings.role_bindings = Ok(vec![])), Warning, "there is no RoleBinding"),
        (
            start().with(|f| {
                (f.roles_and_bindings.role_bindings, f.access_reviews[0].denied_rights) = (Ok(vec![]), forbidden());
            }),
            Problem,
            "there is no RoleBinding",
        ),
        (
            start().with(|f| f.roles_and_bindings.cluster_role_names.as_mut().unwrap().clear()),
            Warning,
            "refers to the ClusterRole nonet:deployment-controller, which does not exist",
        ),
        (
            start().with(|f| f.access_reviews[0].denied_rights = Ok(vec!["create pods".to_owned()])),
            Problem,
            "lacks rights: create pods",
        ),
        (start().with(|f| f.access_reviews[0].denied_rights = forbidden()), Unknown, "whether the API server grants"),
        (
            start().with(|f| f.roles_and_bindings.role_names = forbidden()),
            Unknown,
            "whether all roles and bindings exist",
        ),
    ] {
        expect(&world, PlannedOperation::NoOperation, status, words);
    }
}

#[test]
fn wrong_clocks_versions_and_certificates_are_found() {
    use FindingStatus::{Info, Problem, Unknown, Warning};
    let start = World::handed_over;
    for (world, status, words) in [
        (
            start().with(|f| f.clocks = Ok(TimeReadings { local_time: ago(6), server_time: now() })),
            Warning,
            "this machine is 6 s behind",
        ),
        (
            start().with(|f| f.clocks = Ok(TimeReadings { local_time: ago(-31), server_time: now() })),
            Problem,
            "this machine is 31 s ahead of",
        ),
        (start().with(|f| f.clocks = forbidden()), Unknown, "the time of the API server"),
        (start().with(|f| f.server_version = Ok("v1.32.9".to_owned())), Problem, "Nonet works with 1.33 to 1.37"),
        (start().with(|f| f.server_version = Ok("?".to_owned())), Unknown, "is not a version of Kubernetes"),
        (
            start().pod_of("controller", "c", "registry.example/nonet/deployment-controller:v0.1.0", json!({})),
            Info,
            "runs in 2 versions",
        ),
        (start().with(|f| f.client_certificate = ending(-1)), Problem, "your client certificate (CN=me) expired"),
        (
            start().with(|f| f.serving_certificate = ending(86_400 * 20)),
            Warning,
            "the certificate of the API server (CN=me) expires in 20 d",
        ),
    ] {
        expect(&world, PlannedOperation::NoOperation, status, words);
    }
}

#[test]
fn pods_that_do_not_start_are_found() {
    use FindingStatus::Problem;
    let start = World::handed_over;
    for (world, status, words) in [
        (
            start().pod("c", waiting("ImagePullBackOff", "manifest unknown")),
            Problem,
            "cannot pull x:v1 (ImagePullBackOff): manifest unknown",
        ),
        (
            start().pod("c", waiting("CrashLoopBackOff", "back-off")),
            Problem,
            "crashes, 4 times so far, last with exit code 2: no rights",
        ),
        (
            start().pod_of("rescue", "c", "registry.invalid/nonet/deployment-controller:dev", json!({})),
            Problem,
            "Pod kube-system/c: its image registry.invalid/nonet/deployment-controller:dev has no registry",
        ),
        (start().with(unset_image), Problem, "Deployment kube-system/nonet-deployment-controller: its image"),
        (
            start()
                .pod("c", json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]})),
            Problem,
            "finds no node: 0/1 nodes",
        ),
    ] {
        expect(&world, PlannedOperation::NoOperation, status, words);
    }
}

fn unset_image(facts: &mut Facts) {
    let spec = facts.deployments.as_mut().unwrap()[0].spec.as_mut().unwrap();
    spec.template.spec.as_mut().unwrap().containers[0].image = Some("registry.invalid/nonet/x:dev".to_owned());
}

#[allow(clippy::unnecessary_wraps, reason = "facts are results")]
fn ending(in_seconds: i64) -> FactResult<Option<Certificate>> {
    Ok(Some(Certificate { subject: "CN=me".to_owned(), expires_at: ago(-in_seconds) }))
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"containerStatuses": [{
        "name": "controller", "image": "x:v1", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": {"exitCode": 2, "message": "no\nrights"}},
    }]})
}

#[test]
fn each_operation_has_its_requirements() {
    use FindingStatus::{Info, Problem, Warning};
    use PlannedOperation::{HandOver, Removal, Upgrade};
    let start = World::handed_over;
    let held = || start().lease(HOLD, 0).manager("cp-0", &["*"]);
    for (world, stage, status, words) in [
        (held(), HandOver, Info, "not installed"),
        (held().kubeadm("controllerManager: {}"), HandOver, Warning, "the next kubeadm upgrade will switch on"),
        (held().deployment(2, 1), HandOver, Problem, "1 of 2 replicas ready"),
        (held().lease("", 0), HandOver, Problem, "candidates may take it before the hand-over"),
        (held().lease("a_1", 1).manager("cp-0", &[OFF]), HandOver, Problem, "is not held for the hand-over"),
        (held().manager("cp-0", &[OFF]), HandOver, Problem, "before the hand-over, kube-controller-manager has to run"),
        (start(), Upgrade, Info, "not installed"),
        (held(), Upgrade, Problem, "held for the hand-over"),
        (start().lease("", 0), Upgrade, Problem, "the Lease is free"),
        (start().annotated("nonet/probation", "1m0s"), Upgrade, Problem, "on probation"),
        (
            start().annotated("nonet/failed", "0.2.0+abc").annotated("nonet/version", "0.1.0+x"),
            Upgrade,
            Problem,
            "has failed on probation",
        ),
        (start().deployment(1, 1), Upgrade, Warning, "has one replica"),
        (start().with(|f| f.disruption_budgets = Ok(vec![])), Upgrade, Warning, "no PodDisruptionBudget"),
        (held(), Removal, Info, "not installed"),
        (held().lease("", 0), Removal, Info, "not installed"),
        (
            held().manager("cp-0", &[OFF]),
            Removal,
            Problem,
            "after the removal of Nonet, no process runs deployment-controller",
        ),
        (start().manager("cp-0", &["*"]), Removal, Problem, "Nonet must not lead when it is removed"),
        (
            held().kubeadm("controllerManager:\n  extraArgs:\n    controllers: '*,-deployment'"),
            Removal,
            Warning,
            "will switch off deployment-controller",
        ),
    ] {
        expect(&world, stage, status, words);
    }
}

#[test]
fn a_hold_that_ends_soon_is_reported() {
    let mut reading = lease(HOLD, 600).unwrap().unwrap();
    reading.lease.spec.as_mut().unwrap().lease_duration_seconds = Some(86_400);
    let world = World::handed_over().manager("cp-0", &["*"]).reading(Ok(Some(reading)));
    expect(
        &world,
        PlannedOperation::HandOver,
        FindingStatus::Warning,
        "programs other than Nonet may take the Lease from the hold in 23 h",
    );
}

#[test]
fn a_removal_reports_every_leader() {
    let findings = World::handed_over().check(PlannedOperation::Removal);
    assert_eq!(findings.iter().filter(|finding| finding.status == FindingStatus::Problem).count(), 2, "{findings:#?}");
}

#[test]
fn a_cluster_without_nonet_is_a_problem_before_a_hand_over() {
    let world = World::handed_over().reading(Ok(None)).manager("cp-0", &["*"]).with(|facts| {
        facts.deployments = Ok(vec![]);
        facts.pods = Ok(vec![]);
    });
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Info, "everything is left to kube-controller-manager");
    expect(&world, PlannedOperation::HandOver, FindingStatus::Problem, "Nonet is not installed");
}

#[test]
fn two_readings_distinguish_a_wrong_clock_from_a_dead_leader() {
    for (renewed, before, status, words) in [
        // Both readings show the same renewal, 60 s ago by the leader's clock.
        (60, 60, FindingStatus::Warning, "the Lease has expired; a_1 renewed it 60 s ago"),
        // The leader renewed the Lease between the readings, so the leader's clock is 57 s behind.
        (60, 63, FindingStatus::Problem, "the clock of the leader of deployment-controller is 57 s behind"),
        (-20, -18, FindingStatus::Warning, "the clock of the leader of deployment-controller is 20 s ahead of"),
        (9, 9, FindingStatus::Warning, "has not renewed its Lease for 9 s"),
        (7, 9, FindingStatus::Info, "not installed"),
    ] {
        let mut reading = lease("a_1", renewed).unwrap().unwrap();
        reading.first_reading = Some(FirstReading { renew_time: Some(ago(before)), read_at: ago(3) });
        let world = World::handed_over().reading(Ok(Some(reading)));
        let findings = world.check(PlannedOperation::NoOperation);
        let found = findings.iter().any(|finding| finding.status == status && finding.found.contains(words));
        assert!(found, "{words:?} is not in {findings:#?}");
    }
}

#[test]
fn a_reported_second_writer_is_a_problem_until_it_is_expected_or_gone() {
    let event = parse(json!({
        "metadata": {"name": "e", "namespace": "kube-system"}, "reason": "SecondWriterFound", "message": "status of \
            shop/web",
        "involvedObject": {"kind": "Lease", "name": "deployment-controller", "namespace": "kube-system"},
    }));
    let world = World::handed_over().with(|facts| facts.lease_events = Ok(vec![event]));
    expect(
        &world,
        PlannedOperation::NoOperation,
        FindingStatus::Problem,
        "has found a second writer: status of shop/web",
    );
    let world = world.annotated("nonet/second-writer-expected-until", "2026-11-25T13:00:00Z");
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Info, "expected until 2026-11-25T13:00:00Z");
    let world = world.annotated("nonet/second-writer-expected-until", "2026-11-25T11:00:00Z");
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Problem, "has found a second writer");
    let event = |reason: &str, minute: u32| {
        parse(json!({
            "metadata": {"name": reason, "namespace": "kube-system"}, "reason": reason, "message": "so it is",
            "lastTimestamp": format!("2026-11-25T11:{minute:02}:00Z"),
            "involvedObject": {"kind": "Lease", "name": "deployment-controller", "namespace": "kube-system"},
        }))
    };
    let both = |found, gone| Ok(vec![event("SecondWriterGone", gone), event("SecondWriterFound", found)]);
    let world = World::handed_over().with(|facts| facts.lease_events = both(52, 55));
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Info, "sees no sign of it any more");
    let world = World::handed_over().with(|facts| facts.lease_events = both(57, 55));
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Problem, "has found a second writer");
    let world = World::handed_over().with(|facts| facts.lease_events = Ok(vec![event("SecondWriterFound", 40)]));
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Info, "the current leader sees no sign of it");
}
