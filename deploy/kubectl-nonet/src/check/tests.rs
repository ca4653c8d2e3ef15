//! Tables of facts with the expected findings.

use std::collections::BTreeMap;

use common::{process::built_in_flags::ControllersFlag, process::leader::HAND_OVER_HOLDER_IDENTITY as HOLD};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use k8s_openapi::api::coordination::v1::Lease;

use super::{PlannedOperation, check, release};
use crate::{
    controllers,
    facts::{
        AccessReview, Certificate, FactError, FactResult, Facts, FirstReading, KubeControllerManagerFacts,
        LeaseReading, ManagerStatement, NamedLease, RolesAndBindings, TimeReadings,
    },
    finding::{Finding, FindingStatus},
    remaining_loops,
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

/// Returns a Lease that was renewed `renewed` seconds ago. No process has led with a held Lease.
#[allow(clippy::unnecessary_wraps, reason = "facts are results")]
fn lease(holder: &str, renewed: i64) -> FactResult<Option<LeaseReading>> {
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": if holder == HOLD { 315_360_000 } else { 15 },
        "acquireTime": (holder != HOLD).then(|| micro(ago(600))), "renewTime": micro(ago(renewed)),
    });
    Ok(Some(LeaseReading { lease: lease_with(spec), read_at: now(), first_reading: None }))
}

fn lease_with(spec: Value) -> Lease {
    parse(json!({"metadata": {"creationTimestamp": ago(3_600)}, "spec": spec}))
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
            stated_namespace: None,
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
                stated: None,
                has_objects: BTreeMap::new(),
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

    /// Holds the Lease, which a process has renewed ten minutes ago.
    fn held_after_leading(self) -> Self {
        self.reading(lease(HOLD, 600)).with(|facts| {
            let lease = facts.leases.iter_mut().find(|l| l.name == "deployment-controller").unwrap();
            let spec = lease.reading.as_mut().unwrap().as_mut().unwrap().lease.spec.as_mut().unwrap();
            spec.lease_transitions = Some(1);
        })
    }

    /// Reads a Lease with this specification twice, without a change between the readings.
    fn unchanged_lease(self, spec: Value) -> Self {
        let lease = lease_with(spec);
        let renew_time = lease.spec.as_ref().unwrap().renew_time.as_ref().map(|time| time.0);
        let first_reading = Some(FirstReading { renew_time, read_at: ago(3) });
        self.reading(Ok(Some(LeaseReading { lease, read_at: now(), first_reading })))
    }

    /// Adds the Deployment of a controller in a namespace, and its Lease.
    fn another_deployment(
        self,
        name: &'static str,
        namespace: &str,
        reading: FactResult<Option<LeaseReading>>,
    ) -> Self {
        let labels = labels(name, "controller");
        let metadata = json!({"name": format!("nonet-{name}"), "namespace": namespace, "labels": labels});
        let deployment = parse(json!({
            "metadata": metadata,
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"spec": {"containers": []}}},
            "status": {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1},
        }));
        self.with(|facts| facts.deployments.as_mut().unwrap().push(deployment)).lease_of(name, namespace, reading)
    }

    fn lease_of(self, name: &'static str, namespace: &str, reading: FactResult<Option<LeaseReading>>) -> Self {
        self.with(|facts| {
            facts.leases.retain(|lease| lease.name != name || lease.namespace != namespace);
            facts.leases.push(NamedLease { name, namespace: namespace.to_owned(), reading });
            facts.namespaces.push(namespace.to_owned());
        })
    }

    /// Says that Helm has installed the Deployment.
    fn by_helm(self) -> Self {
        self.with(|facts| {
            let metadata = &mut facts.deployments.as_mut().unwrap()[0].metadata;
            let annotations = metadata.annotations.get_or_insert_default();
            annotations.insert("meta.helm.sh/release-name".to_owned(), "prod".to_owned());
        })
    }

    /// Adds an argument to the only kube-controller-manager.
    fn manager_argument(self, argument: &str) -> Self {
        self.with(|facts| {
            let spec = facts.kube_controller_manager.pods.as_mut().unwrap()[0].spec.as_mut().unwrap();
            spec.containers[0].command.as_mut().unwrap().push(argument.to_owned());
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

    /// Takes kube-controller-manager away, and says so. The cluster has none of the objects that remaining loops work for.
    fn without_manager(self) -> Self {
        self.with(|facts| {
            let manager = &mut facts.kube_controller_manager;
            (manager.pods, manager.lease) = (Ok(vec![]), lease("cp-0_1", 3_600));
            manager.stated = Some(ManagerStatement::Absent);
            let kinds = remaining_loops::ALL.iter().flat_map(|each| each.kinds);
            manager.has_objects = kinds.map(|kind| (kind.path, Ok(false))).collect();
        })
    }

    /// Installs and leads every controller of Nonet.
    fn all_controllers(self) -> Self {
        let others = controllers::NAMES.into_iter().filter(|name| *name != "deployment-controller");
        others.fold(self, |world, name| world.another_deployment(name, "kube-system", lease("elsewhere_1", 1)))
    }

    /// Says that the cluster has objects of a kind.
    fn objects(self, noun: &str) -> Self {
        self.with(|facts| {
            let mut kinds = remaining_loops::ALL.iter().flat_map(|each| each.kinds);
            let kind = kinds.find(|kind| kind.noun == noun).unwrap();
            facts.kube_controller_manager.has_objects.insert(kind.path, Ok(true));
        })
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
        (
            start().held_after_leading(),
            Problem,
            "no process runs deployment-controller: kube-controller-manager does not, and no process leads since \
                2026-11-25T11:50:00Z: Nonet has led before, and is held",
        ),
        (start().held_after_leading().manager("cp-0", &["*"]), Info, "held after a process has led, for 10 min"),
        (start().lease("", 0), Problem, "no replica of Nonet leads"),
        (start().lease("a_1", 60), Problem, "no replica of Nonet leads"),
        (
            start().manager("cp-0", &[OFF, "-job"]),
            Problem,
            "no process runs job-controller: kube-controller-manager does not, and Nonet is not installed",
        ),
        (start().lease(HOLD, 600).manager("cp-0", &["*"]), Info, "held, and never led, for 10 min"),
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
                f.kube_controller_manager.stated = Some(ManagerStatement::Controllers(ControllersFlag::parse(OFF)));
            }),
            Info,
            "by --built-in-controllers",
        ),
        (
            start().with(|f| {
                f.kube_controller_manager.stated = Some(ManagerStatement::Controllers(ControllersFlag::default()));
            }),
            Problem,
            "two writers",
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
        (start().with(|f| f.server_version = Ok("v1.32.9".to_owned())), Problem, "Nonet works with 1.33 to 1.36"),
        (start().with(|f| f.server_version = Ok("v1.37.0".to_owned())), Warning, "Nonet works with 1.33 to 1.36"),
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
        (held(), Upgrade, Problem, "held, and never led"),
        (start().lease("", 0), Upgrade, Problem, "the Lease is free"),
        (start().annotated("nonet/probation", "1m0s"), Upgrade, Problem, "on probation"),
        (
            start().annotated("nonet/failed", "0.2.0+abc").annotated("nonet/version", "0.1.0+x"),
            Upgrade,
            Problem,
            "has failed on probation",
        ),
        (start().deployment(1, 1), Upgrade, Warning, "has one replica: a new version starts beside it"),
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
        (13, 13, FindingStatus::Warning, "has not renewed its Lease for 13 s"),
        (9, 9, FindingStatus::Info, "not installed"),
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

#[track_caller]
fn expect_among(world: &World, stage: PlannedOperation, status: FindingStatus, words: &str) {
    let findings = world.check(stage);
    let found = findings.iter().any(|finding| finding.status == status && finding.found.contains(words));
    assert!(found, "{status} {words:?} is not in {findings:#?}");
}

#[track_caller]
fn expect_nothing(world: &World, words: &str) {
    let findings = world.check(PlannedOperation::NoOperation);
    assert!(findings.iter().all(|finding| !finding.found.contains(words)), "{words:?} is in {findings:#?}");
}

/// Returns the remedy of the only finding with these words.
#[track_caller]
fn remedy(world: &World, stage: PlannedOperation, words: &str) -> String {
    let findings = world.check(stage);
    let mut found = findings.iter().filter(|finding| finding.found.contains(words));
    let (first, others) = (found.next(), found.count());
    assert_eq!((first.is_some(), others), (true, 0), "{words:?} in {findings:#?}");
    first.unwrap().remedy.clone().unwrap_or_default()
}

fn start_with_waiting_pod(reason: &str) -> World {
    World::handed_over().pod("c", waiting(reason, "no such image"))
}

fn start_without_node() -> World {
    let refused = json!({"type": "PodScheduled", "status": "False", "message": "0/1 nodes"});
    World::handed_over().pod("c", json!({"conditions": [refused]}))
}

#[test]
fn remedies_name_exactly_what_is_installed() {
    use PlannedOperation::{HandOver, NoOperation, Removal, Upgrade};
    let start = World::handed_over;
    let overlay = "apply again the overlay or file that installed deployment-controller in the namespace kube-system";
    let helm = "helm upgrade prod CHART -n kube-system --reset-then-reuse-values";
    let without_rights = || start().with(|f| f.access_reviews[0].denied_rights = Ok(vec!["create pods".to_owned()]));
    let no_bindings = || start().with(|f| f.roles_and_bindings.role_bindings = Ok(vec![]));
    let no_budgets = || start().with(|f| f.disruption_budgets = Ok(vec![]));
    let failed = || start().annotated("nonet/failed", "0.2.0+abc").annotated("nonet/version", "0.1.0+x");
    let nothing = || {
        start().reading(Ok(None)).manager("cp-0", &["*"]).with(|facts| {
            (facts.deployments, facts.pods) = (Ok(vec![]), Ok(vec![]));
        })
    };
    for (world, stage, words, expected) in [
        (without_rights(), NoOperation, "lacks rights", overlay),
        (without_rights().by_helm(), NoOperation, "lacks rights", helm),
        (no_bindings(), NoOperation, "there is no RoleBinding", overlay),
        (no_budgets(), Upgrade, "no PodDisruptionBudget", overlay),
        (no_budgets().by_helm(), Upgrade, "no PodDisruptionBudget", helm),
        (
            start_without_node(),
            NoOperation,
            "finds no node",
            "add deploy/components/any-node to the overlay; then apply",
        ),
        (start_without_node(), NoOperation, "finds no node", "tolerate the taint in the overlay; then apply"),
        (start_without_node(), NoOperation, "finds no node", overlay),
        (start_without_node().by_helm(), NoOperation, "finds no node", "values --set anyNode=true"),
        (start_with_waiting_pod("ImagePullBackOff"), NoOperation, "cannot pull", overlay),
        (start().with(unset_image), NoOperation, "has no registry", overlay),
        (start().with(unset_image).by_helm(), NoOperation, "has no registry", "--set image.registry=REGISTRY/nonet"),
        (failed(), NoOperation, "has failed on probation", "kubectl -n kube-system rollout undo deployment/nonet-dep"),
        (failed().by_helm(), NoOperation, "has failed on probation", "helm rollback prod -n kube-system"),
        (nothing(), HandOver, "Nonet is not installed", "choose and install controllers as in docs/install"),
        (
            start().manager("cp-0", &[OFF, "-job"]),
            NoOperation,
            "no process runs job-controller",
            "switch them on: take them out of --controllers",
        ),
        (
            start().lease(HOLD, 0),
            NoOperation,
            "and Nonet is held",
            "kubectl nonet release deployment-controller -n kube-system",
        ),
        (
            start().held_after_leading(),
            NoOperation,
            "Nonet has led before",
            "kubectl nonet release deployment-controller -n kube-system",
        ),
        (
            start().lease(HOLD, 0),
            Upgrade,
            "deployment-controller: held",
            "kubectl nonet release deployment-controller -n kube-system",
        ),
        (
            start().manager("cp-0", &["*"]),
            NoOperation,
            "two writers",
            "kubectl nonet hold deployment-controller -n kube-system; then add -deployment-controller to --controllers",
        ),
        (
            start().manager("cp-0", &["*"]),
            Removal,
            "must not lead",
            "kubectl nonet hold deployment-controller -n kube-system",
        ),
    ] {
        let remedy = remedy(&world, stage, words);
        assert!(remedy.contains(expected), "{expected:?} is not in {remedy:?}");
        for finding in world.check(stage) {
            let remedy = finding.remedy.unwrap_or_default();
            let names_another = remedy.contains(" -k ") || remedy.contains("overlays/") || remedy.contains("/hold");
            assert!(!names_another, "{remedy}");
        }
    }
    let static_pods = start().with(|facts| facts.deployments = Ok(vec![])).pod_of("static-pod", "s", "x:v1", json!({}));
    let world = static_pods.with(|facts| facts.roles_and_bindings.role_bindings = Ok(vec![]));
    let remedy = remedy(&world, NoOperation, "there is no RoleBinding");
    assert_eq!(
        remedy,
        "apply again the manifest with the rights of the static Pods of deployment-controller in the namespace kube-system"
    );
}

#[test]
fn two_installations_of_a_controller_are_a_problem() {
    let world = World::handed_over().another_deployment("deployment-controller", "nonet", Ok(None));
    let words = "deployment-controller is installed in several namespaces (kube-system, nonet)";
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Problem, words);
    let remedy = remedy(&world, PlannedOperation::NoOperation, words);
    assert!(remedy.contains("kubectl nonet hold deployment-controller -n kube-system, or"), "{remedy}");
    assert!(remedy.ends_with("kubectl nonet hold deployment-controller -n nonet"), "{remedy}");
}

#[test]
fn a_lease_where_its_controller_is_not_installed_is_ignored() {
    for holder in ["tenant_1", HOLD] {
        let world = World::handed_over().lease_of("job-controller", "shop", lease(holder, 1));
        for finding in world.check(PlannedOperation::NoOperation) {
            assert!(finding.status <= FindingStatus::Info, "{finding:?}");
            assert!(!finding.found.contains("job-controller: "), "{finding:?}");
        }
        assert_eq!(selected(&world, &[]), Ok(vec!["deployment-controller"]));
    }
}

#[test]
fn leases_that_were_edited_to_nonsense_are_described() {
    use FindingStatus::{Problem, Warning};
    let start = World::handed_over;
    let spec = |holder: &str, duration: i32, renewed: i64| {
        json!({
            "holderIdentity": holder, "leaseDurationSeconds": duration, "leaseTransitions": i32::MIN,
            "renewTime": micro(ago(renewed)),
        })
    };
    for (world, status, words) in [
        (start().unchanged_lease(spec("a_1", -1, 1)), Warning, "the Lease has expired; a_1 renewed it 1 s ago"),
        (start().unchanged_lease(spec("a_1", 15, -3_600)), Warning, "a_1 says that it renewed it 60 min in the future"),
        (start().unchanged_lease(spec("a_1", i32::MAX, 7_200)), Warning, "has not renewed its Lease for 2 h"),
        (start().unchanged_lease(spec("a_1", i32::MAX, 7_200)), Problem, "and no replica of Nonet leads"),
        (start().unchanged_lease(spec("!", 15, 1)), Warning, "the leader ! is not one of the Pods"),
        (start().unchanged_lease(spec(HOLD, i32::MIN, 1)), Warning, "may take the Lease from the hold now"),
        (start().unchanged_lease(json!({})), Warning, "the Lease is free"),
    ] {
        expect_among(&world, PlannedOperation::NoOperation, status, words);
    }
}

#[test]
fn what_a_hand_over_breaks_in_kube_controller_manager_is_found() {
    use FindingStatus::{Problem, Warning};
    use PlannedOperation::{HandOver, NoOperation};
    const GATE: &str = "--feature-gates=StorageVersionMigrator=true";
    const NO_COLLECTOR: &str = "*,-deployment-controller,-garbage-collector-controller";
    let start = World::handed_over;
    let without_collector = || start().manager("cp-0", &[NO_COLLECTOR]);
    let world = without_collector().manager_argument(GATE);
    let words = "kube-controller-manager-cp-0 crashes as soon as a StorageVersionMigration is processed";
    expect(&world, NoOperation, Problem, words);
    assert!(
        remedy(&world, NoOperation, words).starts_with("add -storage-version-migrator-controller to --controllers")
    );
    let world = start().another_deployment("gc-controller", "kube-system", lease(HOLD, 1)).manager_argument(GATE);
    expect_among(&world, HandOver, Warning, "crashes after the hand-over when a StorageVersionMigration");
    for world in [
        without_collector(),
        start().manager_argument(GATE),
        without_collector().manager_argument(GATE).manager_argument("--enable-garbage-collector=false"),
        start().manager("cp-0", &[NO_COLLECTOR, "-svm"]).manager_argument(GATE),
    ] {
        expect_nothing(&world, "StorageVersionMigration");
    }
    let world = start().manager("cp-0", &[OFF, "-serviceaccount-token-controller"]);
    expect(&world, NoOperation, Warning, "runs serviceaccount-token-controller although --controllers switches it off");
    expect_nothing(&start().manager("cp-0", &["job,-deployment"]), "serviceaccount-token-controller");
    let no_pods = || start().with(|facts| facts.kube_controller_manager.pods = Ok(vec![]));
    expect_among(
        &no_pods().kubeadm("controllerManager: {}"),
        NoOperation,
        Warning,
        "kubeadm join of a control-plane node waits for its port 10257",
    );
    expect_nothing(&no_pods(), "10257");
}

/// The life of a cluster whose kube-controller-manager is taken away: before, at once after it, and when it comes back.
#[test]
fn a_cluster_without_kube_controller_manager_is_told_what_it_lacks() {
    use FindingStatus::{Info, Ok as Fine, Problem, Warning};
    const AUTOSCALER: &str = "no process runs horizontal-pod-autoscaler-controller";
    const NODES_JOIN: &str =
        "no process runs certificatesigningrequest-signing-controller: approved CertificateSigning";
    let stage = PlannedOperation::NoOperation;
    // The manager still runs: the caller sees what its end will cost.
    let state_too_early = |facts: &mut Facts| facts.kube_controller_manager.stated = Some(ManagerStatement::Absent);
    let early = World::handed_over().all_controllers().with(state_too_early);
    expect(&early, stage, Problem, "kube-controller-manager still runs: cp-0_1 renewed its Lease 1 s ago");
    expect_among(&early, stage, Problem, "and Nonet both run replicaset-controller");
    expect_among(&early, stage, Warning, &format!("without kube-controller-manager, {AUTOSCALER}: Horizontal"));
    // Nonet leads only one of its controllers, and another one is held.
    let half = World::handed_over().without_manager();
    let missing = "there is no kube-controller-manager, and Nonet is not installed for it";
    expect(&half, stage, Problem, missing);
    assert!(!remedy(&half, stage, missing).contains("--controllers"), "no flag helps without a manager");
    let held = half.another_deployment("job-controller", "kube-system", lease(HOLD, 1));
    let held_words = "no process runs job-controller, ttl-after-finished-controller: there is no kube-controller-manager, and \
        Nonet is held";
    expect(&held, stage, Problem, held_words);
    assert_eq!(remedy(&held, stage, held_words), "kubectl nonet release job-controller -n kube-system");
    expect_nothing(&held, "left to kube-controller-manager");
    // All of them lead. A control plane that uses nothing of the remaining loops lacks only what concerns Secrets.
    let whole = || World::handed_over().all_controllers().without_manager();
    expect_among(&whole(), stage, Fine, "Nonet alone runs deployment-controller, replicaset-controller");
    expect_among(&whole(), stage, Info, &format!("{AUTOSCALER}, which has nothing to do in this cluster"));
    let warnings = |world: &World| {
        let about_loops = |finding: &&Finding| finding.status == Warning && finding.found.starts_with("no process");
        world.check(stage).iter().filter(about_loops).map(|finding| finding.found.clone()).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&whole()).len(), 2, "{:#?}", warnings(&whole()));
    // A node, an autoscaler, and a claim that the caller may not list.
    let used = whole().objects("Node").objects("HorizontalPodAutoscaler").with(|facts| {
        facts.kube_controller_manager.has_objects.insert("/api/v1/persistentvolumeclaims", forbidden());
    });
    for words in [NODES_JOIN, AUTOSCALER, "no process runs persistentvolume-binder-controller"] {
        expect_among(&used, stage, Warning, words);
    }
    let flags =
        "certificatesigningrequest-signing-controller and --cluster-signing-cert-file --cluster-signing-key-file";
    assert!(remedy(&used, stage, NODES_JOIN).ends_with(flags));
    expect_among(&used.kubeadm("controllerManager: {}"), stage, Warning, "kubeadm upgrade needs its manifest");
    // A caller without rights learns that the cluster may refute the flag.
    let blind = whole().with(|facts| facts.kube_controller_manager.pods = forbidden());
    expect_among(
        &blind,
        stage,
        FindingStatus::Unknown,
        "whether a kube-controller-manager runs all the same: forbidden",
    );
    // A manager comes back: first its Pod, which the kubelet has started, then its Lease.
    let pod = whole().another_manager("cp-0", &["*"]);
    expect(&pod, stage, Problem, "still runs: there is the Pod kube-controller-manager-cp-0");
    expect_among(
        &pod,
        stage,
        Problem,
        "two writers soon: kube-controller-manager-cp-0 would run deployment-controller",
    );
    let hidden = whole().with(|facts| facts.kube_controller_manager.lease = lease("elsewhere_9", 1));
    expect(&hidden, stage, Problem, "still runs: elsewhere_9 renewed its Lease 1 s ago");
}

/// Without the flag, the check names what kube-controller-manager itself could run and does not.
#[test]
fn a_manager_with_a_short_list_leaves_loops_to_nobody() {
    let world = World::handed_over().all_controllers().manager("cp-0", &["csrsigning,csrapproving"]);
    let words = "no process runs persistentvolume-binder-controller, which kube-controller-manager has switched off";
    expect_among(&world, PlannedOperation::NoOperation, FindingStatus::Info, words);
    expect_nothing(&world, "no process runs certificatesigningrequest-signing-controller");
    expect_nothing(&World::handed_over(), "no process runs");
}

#[test]
fn a_controller_that_leads_without_release_beside_kube_controller_manager_is_found() {
    let flag = |facts: &mut Facts| {
        let spec = facts.deployments.as_mut().unwrap()[0].spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        spec.containers[0].args = Some(vec!["--v=2".to_owned(), "--lead-without-release".to_owned()]);
    };
    let world = World::handed_over().with(flag);
    let words = "deployment-controller has --lead-without-release";
    expect(&world, PlannedOperation::NoOperation, FindingStatus::Warning, words);
    assert!(remedy(&world, PlannedOperation::NoOperation, words).contains("deploy/components/lead-at-once"));
    assert!(remedy(&world.by_helm(), PlannedOperation::NoOperation, words).contains("--set leadAtOnce=false"));
    let no_manager = |facts: &mut Facts| {
        (facts.kube_controller_manager.pods, facts.kube_controller_manager.lease) = (Ok(vec![]), Ok(None));
    };
    expect_nothing(&World::handed_over().with(flag).with(no_manager), words);
    expect_nothing(&World::handed_over(), words);
    let no_election = |facts: &mut Facts| {
        let spec = facts.deployments.as_mut().unwrap()[0].spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        spec.containers[0].args = Some(vec!["--leader-elect=false".to_owned()]);
    };
    let words = "deployment-controller has --leader-elect=false";
    expect(&World::handed_over().with(no_election), PlannedOperation::NoOperation, FindingStatus::Problem, words);
    expect_nothing(&World::handed_over().with(no_election).with(no_manager), words);
}

/// Each state in which a controller waits names the command that ends the wait.
#[test]
fn what_waits_names_the_command_that_ends_the_wait() {
    let start = World::handed_over;
    let release = "kubectl nonet release deployment-controller -n kube-system";
    let held = start().lease(HOLD, 0).manager("cp-0", &["*"]);
    assert!(remedy(&held, PlannedOperation::NoOperation, "there is no leader").contains(release));
    let absent = start().with(|f| f.leases.clear());
    let words = "there is no Lease yet; a running process creates it held";
    expect(&absent, PlannedOperation::HandOver, FindingStatus::Problem, words);
    assert!(!remedy(&absent, PlannedOperation::HandOver, words).contains("nonet hold"));
}

fn selected(world: &World, names: &[&str]) -> Result<Vec<&'static str>, String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let leases = release::select(&world.0, &names)?;
    Ok(leases.iter().map(|lease| lease.controller.name).collect())
}

#[test]
fn a_release_selects_installed_controllers() {
    let start = World::handed_over;
    let in_namespace = |namespace: &str| start().with(|f| f.stated_namespace = Some(namespace.to_owned()));
    let several = start().another_deployment("node-lifecycle-controller", "kube-system", Ok(None)).another_deployment(
        "endpointslice-controller",
        "kube-system",
        Ok(None),
    );
    assert_eq!(
        selected(&several, &[]).unwrap(),
        ["endpointslice-controller", "deployment-controller", "node-lifecycle-controller"]
    );
    assert_eq!(selected(&several, &["deployment-controller"]).unwrap(), ["deployment-controller"]);
    assert_eq!(selected(&in_namespace("kube-system"), &[]).unwrap(), ["deployment-controller"]);
    // A process outside the cluster has no Pod, and a Lease in kube-system.
    let outside = start().lease_of("job-controller", "kube-system", lease(HOLD, 1));
    assert_eq!(selected(&outside, &["job-controller"]).unwrap(), ["job-controller"]);
    for (world, names, words) in [
        (
            start(),
            ["job-controller"].as_slice(),
            "job-controller is not installed: install it first; a running process",
        ),
        (in_namespace("nonet"), &["deployment-controller"], "is not installed in the namespace nonet: install it"),
        (in_namespace("nonet"), &[], "Nonet is not installed in the namespace nonet"),
        (start().with(|f| f.pods = forbidden()), &[], "cannot tell which controllers are installed: forbidden"),
    ] {
        let why = selected(&world, names).unwrap_err();
        assert!(why.contains(words), "{words:?} is not in {why:?}");
    }
}

#[test]
fn a_release_that_may_start_a_second_writer_is_refused() {
    let start = World::handed_over;
    let held = || start().lease(HOLD, 0);
    let beside = |reading| held().another_deployment("deployment-controller", "nonet", reading);
    let stated = |flag: ManagerStatement| {
        move |facts: &mut Facts| {
            facts.kube_controller_manager.pods = forbidden();
            facts.kube_controller_manager.stated = Some(flag);
        }
    };
    let in_kube_system = |facts: &mut Facts| facts.stated_namespace = Some("kube-system".to_owned());
    let hold_other = "deployment-controller is installed in the namespace nonet, too, and is not held there: kubectl nonet \
        hold deployment-controller -n nonet";
    for (world, words) in [
        (held(), None),
        (held().held_after_leading(), None),
        (
            held().manager("cp-0", &["*"]),
            Some(
                "kube-controller-manager (kube-controller-manager-cp-0) has deployment-controller switched on: add \
                    -deployment-controller to --controllers",
            ),
        ),
        (held().another_manager("cp-1", &["*"]), Some("(kube-controller-manager-cp-1) has deployment-controller")),
        // Nothing is released where a process leads already.
        (start().manager("cp-0", &["*"]), None),
        (
            held().with(|f| f.kube_controller_manager.pods = forbidden()),
            Some("cannot tell whether kube-controller-manager runs deployment-controller (forbidden"),
        ),
        (held().with(|f| f.kube_controller_manager.pods = Ok(vec![])), Some("with --built-in-controllers LIST")),
        (held().with(stated(ManagerStatement::Controllers(ControllersFlag::parse(OFF)))), None),
        (
            held().with(stated(ManagerStatement::Absent)),
            Some("kube-controller-manager still runs: cp-0_1 renewed its Lease 1 s ago: type the command without"),
        ),
        (held().without_manager(), None),
        (
            held().with(stated(ManagerStatement::Controllers(ControllersFlag::default()))),
            Some("has deployment-controller switched on"),
        ),
        (held().with(|f| f.kube_controller_manager.control_plane_nodes = forbidden()), Some("every kube-controller-")),
        (
            held().with(|f| {
                let nodes = f.kube_controller_manager.control_plane_nodes.as_mut().unwrap();
                nodes.push(parse(json!({"metadata": {"name": "cp-1"}})));
            }),
            Some("cannot tell which loops cp-1 would run"),
        ),
        (beside(lease("x_1", 1)), Some(hold_other)),
        (beside(lease("", 1)), Some(hold_other)),
        (beside(lease("x_1", 60)), Some(hold_other)),
        (beside(Ok(None)), Some(hold_other)),
        (beside(lease(HOLD, 1)), Some("namespaces kube-system and nonet, and both would lead: choose one with -n")),
        (beside(lease(HOLD, 1)).with(in_kube_system), None),
        (beside(lease("x_1", 1)).with(in_kube_system), Some(hold_other)),
        (
            held().with(|f| f.cluster_wide_search = forbidden()),
            Some("what is installed in other namespaces: forbidden"),
        ),
        // A Lease that cannot be read may be held.
        (start().reading(forbidden()).manager("cp-0", &["*"]), Some("has deployment-controller switched on")),
    ] {
        let lines = release::second_writers(&world.0, &release::select(&world.0, &[]).unwrap());
        let fits = match words {
            None => lines.is_empty(),
            Some(words) => lines.iter().any(|line| line.contains(words)),
        };
        assert!(fits, "{words:?} is not in {lines:#?}");
    }
}
