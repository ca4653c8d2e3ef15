//! The roles of `deploy/` give each controller the rights that its owner references ask for where the admission plugin
//! `OwnerReferencesPermissionEnforcement` is on.
//!
//! The rights are not listed by hand: one story makes every controller set, change and drop owner references, on a sandbox that
//! grants everything, and the rights follow from what was written. The same story must then come to the same end with the
//! plugin on and no rights but those of the roles.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use common::{clock::Clock, settings::OperatorSettings};
use e2e::{
    controllers,
    loops::Loops,
    nodes::Nodes,
    rights::{self, Holder},
    sandbox::{ADMIN, Sandbox, owner_references::Right},
};
use serde_json::{Value, json};

/// Where everything happens.
const NS: &str = "shop";

/// A sandbox with nodes and all controllers, each under the identity it has with its manifests.
struct World {
    sandbox: Sandbox,
    clock: Clock,
    _nodes: Nodes,
    _loops: Vec<Loops>,
}

impl World {
    /// With the plugin and no rights but those of the roles, or without either.
    async fn new(is_enforced: bool) -> Self {
        let clock = Clock::simulated("2026-11-21T09:00:30Z".parse().unwrap(), 7);
        let builder = Sandbox::builder().clock(clock.clone()).rbac(is_enforced);
        let sandbox = builder.owner_references_permission_enforcement(is_enforced).build();
        let nodes = Nodes::builder().count(2).start(sandbox.client(ADMIN), clock.clone());
        nodes.ready().await;
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}})).await.unwrap();
        let mut loops = Vec::new();
        for definition in controllers::ALL {
            rights::give(&sandbox.client(ADMIN), &clock, definition.name, Holder::default()).await.unwrap();
            let client = sandbox.client(&controllers::identity(definition.name));
            loops.push(Loops::start(&client, &clock, OperatorSettings::new(), definition.loops));
        }
        let world = Self { sandbox, clock, _nodes: nodes, _loops: loops };
        world.pass().await;
        world
    }

    /// Lets the controllers do what is to be done.
    async fn pass(&self) {
        self.clock.sleep(Duration::from_secs(90)).await;
    }

    async fn apply(&self, object: Value) {
        self.sandbox.create(object).await.unwrap();
    }

    async fn list(&self, resource: &str) -> Vec<Value> {
        self.sandbox.list(resource, Some(NS)).await.unwrap()
    }

    async fn merge(&self, resource: &str, name: &str, patch: Value) {
        self.sandbox.merge(resource, Some(NS), name, None, patch).await.unwrap();
    }

    async fn delete(&self, path: &str, propagation: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation});
        self.sandbox.send(http::Method::DELETE, path, "application/json", Some(&options)).await.unwrap();
    }

    /// The objects of a resource that are controlled by an object of this kind, by name.
    async fn of_kind(&self, resource: &str, kind: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .list(resource)
            .await
            .iter()
            .filter(|object| controller(object).is_some_and(|controller| controller["kind"] == kind))
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// Takes the owners of the children of this kind away, so that they are adopted again.
    async fn orphan(&self, resource: &str, kind: &str) {
        let children = self.of_kind(resource, kind).await;
        assert!(!children.is_empty(), "no {resource} of a {kind}");
        for child in children {
            self.merge(resource, &child, json!({"metadata": {"ownerReferences": null}})).await;
        }
    }

    /// Takes a label away from the first child of this kind, so that it is released.
    async fn relabel(&self, resource: &str, kind: &str) {
        let children = self.of_kind(resource, kind).await;
        self.merge(resource, &children[0], json!({"metadata": {"labels": {"app": "other"}}})).await;
    }

    /// Everything that controllers do with owner references.
    async fn story(&self) {
        for object in objects() {
            self.apply(object).await;
        }
        self.pass().await;
        let children = [
            ("replicasets.apps", "Deployment"),
            ("pods", "ReplicaSet"),
            ("pods", "ReplicationController"),
            ("pods", "StatefulSet"),
            ("controllerrevisions.apps", "StatefulSet"),
            ("pods", "DaemonSet"),
            ("controllerrevisions.apps", "DaemonSet"),
            ("pods", "Job"),
            ("endpointslices.discovery.k8s.io", "Service"),
            ("endpointslices.discovery.k8s.io", "Endpoints"),
        ];
        for (resource, kind) in children {
            self.orphan(resource, kind).await;
        }
        let mut both = Vec::new();
        for name in ["one", "two"] {
            let uid = self.sandbox.get("configmaps", Some(NS), name).await.unwrap()["metadata"]["uid"].clone();
            both.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}));
        }
        self.merge("configmaps", "of-both", json!({"metadata": {"ownerReferences": both}})).await;
        self.pass().await;
        let claims = json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}});
        self.merge("statefulsets.apps", "db", json!({"spec": claims})).await;
        self.merge("services", "web", json!({"metadata": {"labels": {"any": "thing"}}})).await;
        self.merge("endpoints", "outside", json!({"subsets": [{"addresses": [{"ip": "10.9.9.8"}]}]})).await;
        self.pass().await;
        self.merge("statefulsets.apps", "db", json!({"spec": {"replicas": 1}})).await;
        self.pass().await;
        assert_eq!(self.of_kind("pods", "StatefulSet").await, ["db-0"], "the set is scaled down");
        for (resource, kind) in [
            ("replicasets.apps", "Deployment"),
            ("pods", "ReplicaSet"),
            ("pods", "ReplicationController"),
            ("pods", "StatefulSet"),
            ("pods", "DaemonSet"),
            ("pods", "Job"),
        ] {
            self.relabel(resource, kind).await;
        }
        self.pass().await;
        self.delete(&format!("/apis/apps/v1/namespaces/{NS}/replicasets/sets"), "Orphan").await;
        self.delete(&format!("/apis/apps/v1/namespaces/{NS}/deployments/web"), "Foreground").await;
        self.sandbox.delete("configmaps", Some(NS), "one").await.unwrap();
        self.pass().await;
    }

    /// The rights that the writes of each controller ask for.
    fn needed(&self) -> BTreeMap<&'static str, BTreeSet<Right>> {
        let writes = self.sandbox.writes().all();
        let of = |name: &str| {
            let identity = controllers::identity(name);
            let own = writes.iter().filter(|write| write.identity == identity);
            own.flat_map(|write| self.sandbox.owner_reference_rights(write)).collect()
        };
        controllers::ALL.iter().map(|definition| (definition.name, of(definition.name))).collect()
    }
}

fn controller(object: &Value) -> Option<&Value> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    references.iter().find(|reference| reference["controller"] == true)
}

/// One object of each kind that has children.
fn objects() -> Vec<Value> {
    let template = |app: &str, restart: &str| {
        json!({"metadata": {"labels": {"app": app}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "img:1"}]}})
    };
    let object = |api: &str, kind: &str, name: &str, mut rest: Value| {
        rest["apiVersion"] = api.into();
        rest["kind"] = kind.into();
        rest["metadata"]["name"] = name.into();
        rest["metadata"]["namespace"] = NS.into();
        rest
    };
    let workload = |app: &str, more: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"app": app}}, "template": template(app, "Always")});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"spec": spec})
    };
    let claim = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claims = json!({"replicas": 2, "serviceName": "db", "volumeClaimTemplates": [claim]});
    let job = |app: &str| {
        let mut template = template(app, "Never");
        template["metadata"]["annotations"] = json!({"sim/after": "10000"});
        json!({"parallelism": 2, "completions": 2, "template": template})
    };
    let selected = |mut job: Value| {
        job["manualSelector"] = true.into();
        job["selector"] = json!({"matchLabels": {"app": "sum"}});
        job
    };
    let port = json!([{"port": 80}]);
    vec![
        object("apps/v1", "Deployment", "web", workload("web", json!({"replicas": 2}))),
        object("apps/v1", "ReplicaSet", "sets", workload("sets", json!({"replicas": 2}))),
        object(
            "v1",
            "ReplicationController",
            "rc",
            json!({"spec": {"replicas": 2, "selector": {"app": "rc"}, "template": template("rc", "Always")}}),
        ),
        object("apps/v1", "StatefulSet", "db", workload("db", claims)),
        object("apps/v1", "DaemonSet", "agent", workload("agent", json!({}))),
        object("batch/v1", "Job", "sum", json!({"spec": selected(job("sum"))})),
        object(
            "batch/v1",
            "CronJob",
            "tick",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job("tick")}}}),
        ),
        object("v1", "Service", "web", json!({"spec": {"selector": {"app": "web"}, "ports": port}})),
        object("v1", "Service", "outside", json!({"spec": {"ports": port}})),
        object(
            "v1",
            "Endpoints",
            "outside",
            json!({"subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}]}),
        ),
        object("v1", "ConfigMap", "one", json!({})),
        object("v1", "ConfigMap", "two", json!({})),
        object("v1", "ConfigMap", "of-both", json!({})),
    ]
}

/// The rights by the table that the story has to come to. A controller without a row needs none.
fn table() -> BTreeMap<&'static str, BTreeSet<String>> {
    let rows: &[(&str, &[&str])] = &[
        ("deployment-controller", &["delete replicasets.apps", "update deployments.apps/finalizers"]),
        (
            "replicaset-controller",
            &["delete pods", "update replicasets.apps/finalizers", "update replicationcontrollers/finalizers"],
        ),
        (
            "statefulset-controller",
            &[
                "delete controllerrevisions.apps",
                "delete persistentvolumeclaims",
                "delete pods",
                "update pods/finalizers",
                "update statefulsets.apps/finalizers",
            ],
        ),
        (
            "daemonset-controller",
            &["delete controllerrevisions.apps", "delete pods", "update daemonsets.apps/finalizers"],
        ),
        ("job-controller", &["delete pods", "update jobs.batch/finalizers"]),
        ("cronjob-controller", &["update cronjobs.batch/finalizers"]),
        (
            "endpointslice-controller",
            &["delete endpointslices.discovery.k8s.io", "update endpoints/finalizers", "update services/finalizers"],
        ),
        ("gc-controller", &["delete configmaps", "delete pods"]),
    ];
    rows.iter().map(|(name, rights)| (*name, rights.iter().map(|right| (*right).to_owned()).collect())).collect()
}

fn in_words(rights: &BTreeMap<&'static str, BTreeSet<Right>>) -> BTreeMap<&'static str, BTreeSet<String>> {
    let needed = rights.iter().filter(|(_, rights)| !rights.is_empty());
    needed.map(|(name, rights)| (*name, rights.iter().map(ToString::to_string).collect())).collect()
}

/// The rules of the ClusterRole that a controller is shipped with.
fn rules(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../deploy/controllers/{name}/rbac.yaml"));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    let role = documents.iter().find(|document| document["kind"] == "ClusterRole").unwrap();
    role["rules"].as_array().unwrap().clone()
}

fn grants(rules: &[Value], right: &Right) -> bool {
    let has = |list: &Value, item: &str| list.as_array().unwrap().iter().any(|each| each == "*" || each == item);
    rules.iter().any(|rule| {
        rule["resourceNames"].is_null()
            && has(&rule["apiGroups"], &right.group)
            && has(&rule["resources"], &right.resource)
            && has(&rule["verbs"], right.verb)
    })
}

#[tokio::test(start_paused = true)]
async fn every_right_that_owner_references_ask_for_is_in_the_role() {
    let world = World::new(false).await;
    world.story().await;
    let needed = world.needed();
    assert_eq!(in_words(&needed), table(), "what the story asks for");
    let mut missing = Vec::new();
    for (name, rights) in &needed {
        let rules = rules(name);
        missing.extend(rights.iter().filter(|right| !grants(&rules, right)).map(|right| format!("{name}: {right}")));
    }
    assert_eq!(missing, [""; 0], "rights that deploy/controllers lacks");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_refused_with_the_plugin_on_and_the_rights_of_the_roles() {
    let world = World::new(true).await;
    world.story().await;
    let events = world.sandbox.list("events", None).await.unwrap();
    let refused: Vec<&Value> =
        events.iter().map(|event| &event["message"]).filter(|m| m.to_string().contains("forbidden")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    assert_eq!(in_words(&world.needed()), table());
}
