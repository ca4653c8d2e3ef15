//! The roles of `deploy/` give each controller the rights that its owner references ask for where the admission plugin
//! `OwnerReferencesPermissionEnforcement` is on.
//!
//! The rights are not listed by hand: one story makes every controller set, change and drop owner references, on a sandbox that
//! grants everything, and the rights follow from what was written. The same story must then come to the same end with the
//! plugin on and no rights but those of the roles.

use std::collections::{BTreeMap, BTreeSet};

use common::clock::Clock;
use e2e::{
    controllers,
    nodes::Nodes,
    rights::{self, Holder},
    sandbox::{ADMIN, Sandbox, owner_references::Right},
};
use serde_json::{Value, json};

use crate::{
    repository::yaml,
    world::{World, name},
};

/// A sandbox with nodes and all controllers, each under the identity it has with its manifests.
struct Story {
    world: World,
}

impl Story {
    /// With the plugin and no rights but those of the roles, or without either.
    async fn new(is_enforced: bool) -> Self {
        let server = Sandbox::builder().rbac(is_enforced).owner_references_permission_enforcement(is_enforced);
        let mut world = World::new("shop", "2026-11-21T09:00:30Z", server).await;
        world.start_nodes(ADMIN, Nodes::builder().count(2)).await;
        for definition in controllers::ALL {
            let admin = world.sandbox.client(ADMIN);
            rights::give(&admin, &world.clock, definition.name, Holder::default()).await.unwrap();
        }
        world.start_controllers(rights::identity, &[]);
        let story = Self { world };
        story.pass().await;
        story
    }

    /// Lets the controllers do what is to be done.
    async fn pass(&self) {
        self.world.pass(90).await;
    }

    /// The objects of a resource that are controlled by an object of this kind, by name.
    async fn of_kind(&self, resource: &str, kind: &str) -> Vec<String> {
        let is_controller = |owner: &&Value| owner["controller"] == true && owner["kind"] == kind;
        let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let objects = self.world.list(resource).await;
        let children = objects.iter().filter(|object| owners(object).iter().any(|owner| is_controller(&owner)));
        let names: BTreeSet<String> = children.map(|object| name(object).to_owned()).collect();
        names.into_iter().collect()
    }

    /// Takes the owners of the children of this kind away, so that they are adopted again.
    async fn orphan(&self, resource: &str, kind: &str) {
        let children = self.of_kind(resource, kind).await;
        assert!(!children.is_empty(), "no {resource} of a {kind}");
        for child in children {
            self.world.merge(resource, &child, json!({"metadata": {"ownerReferences": null}})).await;
        }
    }

    /// Takes a label away from the first child of this kind, so that it is released.
    async fn relabel(&self, resource: &str, kind: &str) {
        let children = self.of_kind(resource, kind).await;
        self.world.merge(resource, &children[0], json!({"metadata": {"labels": {"app": "other"}}})).await;
    }

    /// Everything that controllers do with owner references.
    async fn tell(&self) {
        for object in objects() {
            self.world.create(object).await;
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
            let uid = self.world.sandbox.get("configmaps", Some(self.world.namespace), name).await.unwrap()["metadata"]
                ["uid"]
                .clone();
            both.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}));
        }
        self.world.merge("configmaps", "of-both", json!({"metadata": {"ownerReferences": both}})).await;
        self.pass().await;
        let claims = json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}});
        self.world.merge("statefulsets.apps", "db", json!({"spec": claims})).await;
        self.world.merge("services", "web", json!({"metadata": {"labels": {"any": "thing"}}})).await;
        self.world.merge("endpoints", "outside", json!({"subsets": [{"addresses": [{"ip": "10.9.9.8"}]}]})).await;
        self.pass().await;
        self.world.merge("statefulsets.apps", "db", json!({"spec": {"replicas": 1}})).await;
        self.pass().await;
        assert_eq!(self.of_kind("pods", "StatefulSet").await, ["db-0"], "the set is scaled down");
        for (resource, kind) in
            children.into_iter().filter(|(resource, _)| ["replicasets.apps", "pods"].contains(resource))
        {
            self.relabel(resource, kind).await;
        }
        self.pass().await;
        self.world.delete("apps/v1", "replicasets/sets", "Orphan").await;
        self.world.delete("apps/v1", "deployments/web", "Foreground").await;
        self.world.sandbox.delete("configmaps", Some(self.world.namespace), "one").await.unwrap();
        self.pass().await;
    }

    /// The rights that the writes of each controller ask for.
    fn needed(&self) -> BTreeMap<&'static str, BTreeSet<Right>> {
        let writes = self.world.sandbox.writes().all();
        let of = |name: &str| {
            let identity = rights::identity(name);
            let own = writes.iter().filter(|write| write.identity == identity);
            own.flat_map(|write| self.world.sandbox.owner_reference_rights(write)).collect()
        };
        controllers::ALL.iter().map(|definition| (definition.name, of(definition.name))).collect()
    }
}

/// One object of each kind that has children.
fn objects() -> Vec<Value> {
    let template = |app: &str, restart: &str| {
        json!({"metadata": {"labels": {"app": app}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "img:1"}]}})
    };
    let object = |api: &str, kind: &str, name: &str, mut rest: Value| {
        (rest["apiVersion"], rest["kind"], rest["metadata"]["name"]) = (api.into(), kind.into(), name.into());
        rest
    };
    let workload = |kind: &str, app: &str, mut spec: Value| {
        spec["selector"] = json!({"matchLabels": {"app": app}});
        spec["template"] = template(app, "Always");
        object("apps/v1", kind, app, json!({ "spec": spec }))
    };
    let claim = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let job = |app: &str| {
        let mut template = template(app, "Never");
        template["metadata"]["annotations"] = json!({"sim/after": "10000"});
        json!({"parallelism": 2, "completions": 2, "template": template})
    };
    let mut selecting = job("sum");
    selecting["manualSelector"] = true.into();
    selecting["selector"] = json!({"matchLabels": {"app": "sum"}});
    let rc = json!({"replicas": 2, "selector": {"app": "rc"}, "template": template("rc", "Always")});
    let tick = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job("tick")}});
    let port = json!([{"port": 80}]);
    let subsets = json!([{"addresses": [{"ip": "10.9.9.9"}], "ports": port}]);
    vec![
        workload("Deployment", "web", json!({"replicas": 2})),
        workload("ReplicaSet", "sets", json!({"replicas": 2})),
        workload("StatefulSet", "db", json!({"replicas": 2, "serviceName": "db", "volumeClaimTemplates": [claim]})),
        workload("DaemonSet", "agent", json!({})),
        object("v1", "ReplicationController", "rc", json!({ "spec": rc })),
        object("batch/v1", "Job", "sum", json!({ "spec": selecting })),
        object("batch/v1", "CronJob", "tick", json!({ "spec": tick })),
        object("v1", "Service", "web", json!({"spec": {"selector": {"app": "web"}, "ports": port}})),
        object("v1", "Service", "outside", json!({"spec": {"ports": port}})),
        object("v1", "Endpoints", "outside", json!({ "subsets": subsets })),
        object("v1", "ConfigMap", "one", json!({})),
        object("v1", "ConfigMap", "two", json!({})),
        object("v1", "ConfigMap", "of-both", json!({})),
    ]
}

/// The rights by the table that the story has to come to. A controller without a row needs none.
fn table() -> BTreeMap<&'static str, BTreeSet<String>> {
    let rows = [
        ("deployment-controller", "delete replicasets.apps, update deployments.apps/finalizers"),
        (
            "replicaset-controller",
            "delete pods, update replicasets.apps/finalizers, update replicationcontrollers/finalizers",
        ),
        (
            "statefulset-controller",
            "delete controllerrevisions.apps, delete persistentvolumeclaims, delete pods, update pods/finalizers, \
             update statefulsets.apps/finalizers",
        ),
        ("daemonset-controller", "delete controllerrevisions.apps, delete pods, update daemonsets.apps/finalizers"),
        ("job-controller", "delete pods, update jobs.batch/finalizers"),
        ("cronjob-controller", "update cronjobs.batch/finalizers"),
        (
            "endpointslice-controller",
            "delete endpointslices.discovery.k8s.io, update endpoints/finalizers, update services/finalizers",
        ),
        ("gc-controller", "delete configmaps, delete pods"),
    ];
    rows.into_iter().map(|(name, rights)| (name, rights.split(", ").map(str::to_owned).collect())).collect()
}

fn in_words(rights: &BTreeMap<&'static str, BTreeSet<Right>>) -> BTreeMap<&'static str, BTreeSet<String>> {
    let needed = rights.iter().filter(|(_, rights)| !rights.is_empty());
    needed.map(|(name, rights)| (*name, rights.iter().map(ToString::to_string).collect())).collect()
}

/// The rules of the ClusterRole that a controller is shipped with.
fn rules(name: &str) -> Vec<Value> {
    let documents = yaml(&format!("deploy/controllers/{name}/rbac.yaml"));
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
    let story = Story::new(false).await;
    story.tell().await;
    let needed = story.needed();
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
    let story = Story::new(true).await;
    story.tell().await;
    let events = story.world.sandbox.list("events", None).await.unwrap();
    let refused: Vec<&Value> =
        events.iter().map(|event| &event["message"]).filter(|m| m.to_string().contains("forbidden")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    assert_eq!(in_words(&story.needed()), table());
}

#[tokio::test]
async fn a_controller_may_what_its_manifests_say_and_nothing_else() {
    let clock = Clock::system();
    let sandbox = Sandbox::builder().rbac(true).clock(clock.clone()).build();
    for definition in controllers::ALL {
        rights::give(&sandbox.client(ADMIN), &clock, definition.name, Holder::default()).await.unwrap();
        let client = sandbox.client(&rights::identity(definition.name));
        let send = |request: http::request::Builder| {
            let (client, request) = (client.clone(), request.body(Vec::new()).unwrap());
            async move { client.request_text(request).await }
        };
        let ask = |path: &str| send(http::Request::get(path));
        // CronJobs are all about Jobs.
        let pods = definition.name != "cronjob-controller";
        ask(if pods { "/api/v1/pods" } else { "/apis/batch/v1/cronjobs" }).await.unwrap();
        ask(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{}", definition.name))
            .await
            .map_or_else(|e| assert!(e.to_string().contains("not found"), "{e}"), drop);
        // Every object may have an owner: the garbage collector reads all objects and creates none.
        let (secrets, post) = ("/api/v1/namespaces/default/secrets", http::Request::post);
        let refused = if definition.name == "gc-controller" { send(post(secrets)) } else { ask(secrets) };
        let error = refused.await.unwrap_err().to_string();
        assert!(error.contains("forbidden"), "{}: {error}", definition.name);
    }
}

#[tokio::test]
async fn another_user_gets_the_same_rights_and_a_lease_elsewhere() {
    let clock = Clock::system();
    let sandbox = Sandbox::builder().rbac(true).clock(clock.clone()).build();
    let holder = Holder { user: Some("first"), lease_namespace: "default" };
    rights::give(&sandbox.client(ADMIN), &clock, "replicaset-controller", holder).await.unwrap();
    let ask = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        sandbox.client("first").request_text(request).await.map_err(|e| e.to_string())
    };
    ask("/api/v1/pods").await.unwrap();
    let lease =
        |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/replicaset-controller");
    assert!(ask(&lease("default")).await.unwrap_err().contains("not found"));
    assert!(ask(&lease("kube-system")).await.unwrap_err().contains("forbidden"));
}
