//! The roles of `deploy/` grant exactly the rights that the controllers use.
//!
//! The rights are not listed by hand. In one story, all controllers and their shadows do everything that they ever ask the API
//! server for, on a sandbox that grants everything and records the rights that each of them asks for: by its requests, by the
//! admission plugin `OwnerReferencesPermissionEnforcement`, and by OpenShift's `RestrictedEndpointsAdmission`. The same story must
//! then come to the same end with no rights but those of the roles.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{
    api::Api,
    app::{LeadershipMode, ProgramDefinition, RunningLoops, StartParameters, start_loops},
    clock::Clock,
    gate,
    metrics::Metrics,
    object::Resource,
    process::{
        client::build_client,
        logging::VerbosityHandle,
        server::{RequestAuthorizer, ReviewOptions, ServerSettings, ServerState, start_server},
    },
};
use e2e::{
    controllers,
    nodes::Nodes,
    rights::{self, Holder},
    sandbox::{ADMIN, Operation, Right, Sandbox, Webhook},
};
use serde_json::{Value, json};
use testkit::{objects::custom_resource_definition, scene::program_options};

use crate::{
    repository::yaml,
    world::{World, name},
};

/// The components whose gates job-controller and serviceaccount-controller have in the story.
const GATED: [&str; 2] = [
    "deploy/components/gang-scheduling/kustomization.yaml",
    "deploy/components/cluster-trust-bundle/kustomization.yaml",
];
/// The certificate authorities that serviceaccount-controller publishes.
const ROOT_CA_FILE: &str = concat!("--root-ca-file=", env!("CARGO_MANIFEST_DIR"), "/../common/client/testdata/ca.crt");

/// Rights that are asked for and not granted, by design. An entry that is not asked for fails the test, too.
const REFUSED: [&str; 2] = [
    // Without it, the arguments of kube-controller-manager are no evidence of a second writer. There is other evidence, and
    // controllers of CronJobs and of ServiceAccounts need not read Pods.
    "cronjob-controller lacks: list pods",
    "serviceaccount-controller lacks: list pods",
];

/// A sandbox with nodes and all controllers, each under the identity it has with its manifests.
struct Story {
    world: World,
    running: Vec<RunningLoops>,
}

impl Story {
    /// With no rights but those of the roles, or with all rights and beside the shadows of all controllers.
    async fn new(is_enforced: bool) -> Self {
        let server = Sandbox::builder().rbac(is_enforced).record_rights(true).gate("GenericWorkload", true);
        let server = server.gate("ClusterTrustBundle", true);
        let server = server.owner_references_permission_enforcement(true).restricted_endpoints_admission(true);
        let server = server.without_namespace_controller().without_quota_controller();
        let mut world = World::new("shop", "2026-11-21T09:00:30Z", server).await;
        world.start_nodes(ADMIN, Nodes::builder().count(3)).await;
        let mut story = Self { world, running: Vec::new() };
        for definition in controllers::ALL {
            let (admin, user) = (story.world.sandbox.client(ADMIN), rights::identity(definition.name));
            rights::give(&admin, &story.world.clock, definition.name, Holder::default()).await.unwrap();
            story.world.sandbox.grant(&user, rules_of_gates(definition.name, "controller").into()).await.unwrap();
            story.start(definition, &user, &["--lead-without-release"]);
            if !is_enforced {
                story.start(definition, &shadow(definition.name), &["--shadow"]);
            }
        }
        story.pass().await;
        story
    }

    /// Starts a controller as its process does. Its caches are filled by lists, as with servers without streaming lists.
    fn start(&mut self, definition: &'static ProgramDefinition, user: &str, flags: &[&str]) {
        let of_one: &[&str] = match definition.name {
            "job-controller" => &["--feature-gates=GenericWorkload=true,WorkloadWithJob=true"],
            "serviceaccount-controller" => &["--feature-gates=ClusterTrustBundle=true", ROOT_CA_FILE],
            _ => &[],
        };
        let of_all = ["--feature-gates=WatchListClient=false"];
        let flags: Vec<&str> = [flags, &of_all, of_one].concat();
        let options = program_options(definition, &flags);
        self.running.push(start_loops(StartParameters {
            settings: Arc::new(options.settings),
            leadership: options.election_settings.map_or(LeadershipMode::Always, LeadershipMode::Elected),
            second_writer_search_period: Duration::from_mins(5),
            ..StartParameters::new(self.world.sandbox.client(user), self.world.clock.clone(), &options.loops)
        }));
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

    /// Changes the spec of an object.
    async fn change(&self, resource: &str, name: &str, spec: Value) {
        self.world.merge(resource, name, json!({ "spec": spec })).await;
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

    /// What clusterrole-controller does: it fills a role that selects another one.
    async fn aggregate_rules(&self) {
        const GROUP: &str = "rbac.authorization.k8s.io/v1";
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        let source = json!({"metadata": {"labels": {"view": "yes"}}, "rules": rules});
        let selectors = json!([{"matchLabels": {"view": "yes"}}]);
        let view = json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
        for role in [object(GROUP, "ClusterRole", "source", source), object(GROUP, "ClusterRole", "view", view)] {
            self.world.sandbox.create(role).await.unwrap();
        }
        self.pass().await;
        let view = self.world.sandbox.get("clusterroles.rbac.authorization.k8s.io", None, "view").await.unwrap();
        assert_eq!(view["rules"], rules, "the role is filled");
    }

    /// What serviceaccount-controller does besides creations: it repairs what it publishes, and deletes what is not its own.
    async fn repair_bundles(&self) {
        const TRUST_BUNDLES: &str = "clustertrustbundles.certificates.k8s.io";
        let bundles = async || self.world.sandbox.list(TRUST_BUNDLES, None).await.unwrap();
        self.world.merge("configmaps", "kube-root-ca.crt", json!({"data": {"ca.crt": "wrong"}})).await;
        let [published] = &bundles().await[..] else { panic!("{:?}", bundles().await) };
        let wrong = json!({"spec": {"trustBundle": "wrong"}});
        self.world.sandbox.merge(TRUST_BUNDLES, None, name(published), None, wrong).await.unwrap();
        let (group, spec) = ("certificates.k8s.io/v1beta1", json!({"spec": published["spec"]}));
        let other = object(group, "ClusterTrustBundle", "kubernetes.io:kube-apiserver-serving:other", spec);
        self.world.sandbox.create(other).await.unwrap();
        self.pass().await;
        let specs: Vec<Value> = bundles().await.into_iter().map(|bundle| bundle["spec"].clone()).collect();
        assert_eq!(specs, [published["spec"].clone()], "the bundle is repaired");
    }

    /// What disruption-controller does: it reads the size of an owner, writes a status, and resets a condition.
    async fn disrupt(&self) {
        let deployment = self.world.sandbox.get("deployments.apps", Some(self.world.namespace), "web").await.unwrap();
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment["metadata"]["uid"],
            "controller": true});
        let metadata = json!({"name": "direct", "labels": {"app": "direct"}, "ownerReferences": [owner]});
        let spec = json!({"containers": [{"name": "c", "image": "img:1"}]});
        self.world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).await;
        let target =
            json!({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"});
        self.world.merge_status("pods", "direct", &json!({ "conditions": [target] })).await;
        let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "direct"}}});
        self.world.create(object("policy/v1", "PodDisruptionBudget", "direct", json!({ "spec": spec }))).await;
        self.world.pass(200).await;
        let budgets = self.world.list("poddisruptionbudgets.policy").await;
        assert_eq!(budgets[0]["status"]["expectedPods"], deployment["spec"]["replicas"], "the size is read");
    }

    /// What resourcequota-controller does: it counts Pods and objects of a kind that discovery shows.
    async fn count_usage(&self) {
        let spec = json!({"hard": {"pods": "100", "count/deployments.apps": "100"}});
        self.world.create(object("v1", "ResourceQuota", "all", json!({ "spec": spec }))).await;
        self.pass().await;
        let quotas = self.world.list("resourcequotas").await;
        assert!(quotas[0]["status"]["used"]["pods"].is_string(), "the quota is counted: {quotas:?}");
        self.world.delete("v1", "resourcequotas/all", "Background").await;
    }

    /// What volume-controller does: it creates a claim, writes a condition, and removes finalizers.
    async fn free_storage(&self) {
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let ephemeral = json!({"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}});
        let spec = json!({"containers": [{"name": "c", "image": "img:1"}], "volumes": [ephemeral]});
        self.world.create(object("v1", "Pod", "stored", json!({ "spec": spec }))).await;
        let spec =
            json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}});
        let volume = object("v1", "PersistentVolume", "stored", json!({ "spec": spec }));
        let class = json!({"driverName": "csi.example.com", "parameters": {"iops": "1"}});
        let class = object("storage.k8s.io/v1", "VolumeAttributesClass", "stored", class);
        for object in [volume, class] {
            self.world.sandbox.create(object).await.unwrap();
        }
        self.pass().await;
        assert_eq!(self.of_kind("persistentvolumeclaims", "Pod").await, ["stored-e"], "the claim is created");
        let namespace = Some(self.world.namespace);
        self.world.sandbox.delete("pods", namespace, "stored").await.unwrap();
        let classes = "volumeattributesclasses.storage.k8s.io";
        for (resource, namespace) in [("persistentvolumes", None), (classes, None)] {
            self.world.sandbox.delete(resource, namespace, "stored").await.unwrap();
        }
        self.pass().await;
        for (resource, namespace, name) in [
            ("persistentvolumeclaims", namespace, "stored-e"),
            ("persistentvolumes", None, "stored"),
            (classes, None, "stored"),
        ] {
            let found = self.world.sandbox.get(resource, namespace, name).await;
            assert_eq!(found.unwrap_err().code, 404, "{resource} {name} is freed");
        }
    }

    /// Everything that controllers do.
    async fn tell(&self) {
        self.aggregate_rules().await;
        self.repair_bundles().await;
        self.change_owners().await;
        self.disrupt().await;
        self.count_usage().await;
        self.free_storage().await;
        self.change_workloads().await;
        self.delete_owners().await;
        self.lose_nodes().await;
        self.delete_namespace().await;
    }

    /// Everything that controllers do with owner references.
    async fn change_owners(&self) {
        let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
        self.world.sandbox.create(custom_resource_definition(&widgets)).await.unwrap();
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
        // No list of kinds would contain this one.
        for (name, owners) in [("of-one", &both[..1]), ("of-both", &both)] {
            let metadata = json!({"name": name, "ownerReferences": owners});
            self.world.create(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})).await;
        }
        self.pass().await;
        // The name of the third Pod is taken.
        let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
        let spec = json!({"replicas": 3, "persistentVolumeClaimRetentionPolicy": policy});
        self.change("statefulsets.apps", "db", spec).await;
        self.world.merge("services", "web", json!({"metadata": {"labels": {"any": "thing"}}})).await;
        self.world.merge("endpoints", "outside", json!({"subsets": [{"addresses": [{"ip": "10.9.9.8"}]}]})).await;
        self.pass().await;
        self.change("statefulsets.apps", "db", json!({"replicas": 1})).await;
        self.pass().await;
        assert_eq!(self.of_kind("pods", "StatefulSet").await, ["db-0"], "the set is scaled down");
        for (resource, kind) in
            children.into_iter().filter(|(resource, _)| ["replicasets.apps", "pods"].contains(resource))
        {
            self.relabel(resource, kind).await;
        }
        self.pass().await;
    }

    /// Changes after which controllers roll out, roll back, scale, and remove what is too much.
    async fn change_workloads(&self) {
        // The second change returns to the first revision, and after the third one there is a revision too many.
        for image in ["img:2", "img:1", "img:3"] {
            let template = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
            let names =
                ["deployments.apps/web", "deployments.apps/once", "statefulsets.apps/db", "daemonsets.apps/agent"];
            for (resource, name) in names.iter().filter_map(|path| path.split_once('/')) {
                self.change(resource, name, json!({"revisionHistoryLimit": 1, "template": template})).await;
            }
            self.pass().await;
        }
        // The revision 0 is the one before, and there is no revision 99.
        for revision in ["0", "99"] {
            let annotations = json!({"deprecated.deployment.rollback.to": revision});
            self.world.merge("deployments.apps", "web", json!({"metadata": {"annotations": annotations}})).await;
            self.pass().await;
        }
        self.change("replicasets.apps", "sets", json!({"replicas": 1})).await;
        self.change("replicationcontrollers", "rc", json!({"replicas": 1})).await;
        self.change("jobs.batch", "sum", json!({"suspend": true})).await;
        self.change("cronjobs.batch", "tick", json!({"concurrencyPolicy": "Replace"})).await;
        // The status lists a Job that does not exist, and does not list the ones that do.
        let active = json!([{"kind": "Job", "apiVersion": "batch/v1", "name": "gone", "uid": "gone"}]);
        self.world.merge_status("cronjobs.batch", "tick", &json!({"active": active})).await;
        self.pass().await;
    }

    /// Deletes owners, whose children are orphaned or deleted.
    async fn delete_owners(&self) {
        self.world.delete("apps/v1", "replicasets/sets", "Orphan").await;
        self.world.delete("apps/v1", "deployments/web", "Foreground").await;
        for (resource, name) in [("configmaps", "one"), ("services", "web"), ("endpoints", "outside")] {
            self.world.sandbox.delete(resource, Some(self.world.namespace), name).await.unwrap();
        }
        self.pass().await;
    }

    /// Loses a node for longer than Pods tolerate, and another one for good.
    async fn lose_nodes(&self) {
        self.world.nodes().silence("node-1").unwrap();
        self.world.nodes().remove("node-2").unwrap();
        self.world.pass(600).await;
    }

    /// Deletes a namespace with a protected object, because of which the others of its kind are deleted by name. NAMESPACE-46.
    async fn delete_namespace(&self) {
        let sandbox = &self.world.sandbox;
        sandbox.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}})).await.unwrap();
        for name in ["free", "held"] {
            let metadata = json!({"name": name, "namespace": "old"});
            sandbox.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await.unwrap();
        }
        let guard = Webhook::new("guard", Operation::Delete, "configmaps").namespace("old").object("held");
        sandbox.webhooks().install(guard.denies(403, "it is protected"));
        sandbox.delete("namespaces", None, "old").await.unwrap();
        self.pass().await;
        sandbox.webhooks().remove("guard");
        self.pass().await;
        assert_eq!(sandbox.get("namespaces", None, "old").await.unwrap_err().code, 404);
    }

    /// Lets kube-controller-manager run, and record Events for every loop, at two times, so that leaders report it twice, and its
    /// end twice.
    async fn find_second_writers(&self) {
        let pods = "/api/v1/namespaces/kube-system/pods";
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "manager", "labels": {"component": "kube-controller-manager"}},
            "spec": {"containers": [{"name": "c", "image": "img:1", "command": ["kube-controller-manager"]}]}});
        let components: BTreeSet<_> = controllers::ALL
            .iter()
            .flat_map(|c| c.loops)
            .map(|l| l.event_component)
            .filter(|c| !c.is_empty())
            .collect();
        for seconds in (0..2400).step_by(10) {
            let change = match seconds % 1200 {
                0 => Some((http::Method::POST, pods.to_owned(), Some(&pod))),
                420 => Some((http::Method::DELETE, format!("{pods}/manager?gracePeriodSeconds=0"), None)),
                _ => None,
            };
            if let Some((method, path, body)) = change {
                self.world.sandbox.send(method, &path, "application/json", body).await.unwrap();
            }
            // A search every five minutes finds it, and it counts for ten minutes.
            for component in components.iter().filter(|_| seconds % 1200 < 420) {
                let path = format!(
                    "/api/v1/namespaces/{0}/events/{component}?fieldManager=kube-controller-manager&force=true",
                    self.world.namespace
                );
                let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": component},
                    "involvedObject": {"kind": "Pod", "namespace": self.world.namespace, "name": "any"}, "type": "Normal",
                    "reason": "Any", "message": "any", "count": seconds + 1, "reportingComponent": component});
                let media = "application/apply-patch+yaml";
                self.world.sandbox.send(http::Method::PATCH, &path, media, Some(&event)).await.unwrap();
            }
            self.world.pass(10).await;
        }
    }

    /// The differences between the rights of all roles and the rights that their holders have asked for.
    fn differences(&self, of_reviews: &BTreeSet<Right>) -> Vec<String> {
        let mut found = Vec::new();
        for definition in controllers::ALL {
            let name = definition.name;
            let of_shadow =
                (format!("the shadow of {name}"), shadow(name), format!("deploy/shadows/{name}/clusterrole.yaml"));
            let of_controller =
                (name.to_owned(), rights::identity(name), format!("deploy/controllers/{name}/rbac.yaml"));
            for ((holder, user, manifest), component) in [(of_controller, "controller"), (of_shadow, "shadow")] {
                let mut roles = yaml(&manifest);
                roles.push(json!({"kind": "ClusterRole", "rules": rules_of_gates(name, component)}));
                let asked = &self.world.sandbox.rights_asked_by(&user) | of_reviews;
                found.extend(differences(&granted(&roles), &asked).iter().map(|found| format!("{holder} {found}")));
            }
        }
        found
    }
}

/// The user of the shadow of a controller.
fn shadow(name: &str) -> String {
    format!("{}-shadow", rights::identity(name))
}

/// The rules that the components with feature gates add to the role of a controller or of its shadow.
fn rules_of_gates(name: &str, component: &str) -> Vec<Value> {
    let patches = GATED.iter().flat_map(|path| yaml(path).remove(0)["patches"].as_array().unwrap().clone());
    let patches = patches.filter(|patch| {
        let labels = patch["target"]["labelSelector"].as_str().unwrap_or_default();
        patch["target"]["name"] == format!("nonet:{name}") && labels.ends_with(&format!("={component}"))
    });
    let operations =
        patches.flat_map(|patch| -> Vec<Value> { serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap() });
    operations.map(|operation| operation["value"].clone()).collect()
}

/// The rights that the roles among these objects grant, a Role in the namespace of the overlays.
fn granted(objects: &[Value]) -> BTreeSet<Right> {
    let mut granted = BTreeSet::new();
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    for role in objects {
        let namespace = (role["kind"] == "Role").then(|| rights::NAMESPACE.to_owned());
        for rule in role["rules"].as_array().into_iter().flatten() {
            let names = texts(&rule["resourceNames"]).into_iter().map(Some).collect::<Vec<_>>();
            let names = if names.is_empty() { vec![None] } else { names };
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        granted.extend(names.iter().map(|name| Right {
                            verb: verb.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            namespace: namespace.clone(),
                            name: name.clone(),
                        }));
                    }
                }
            }
        }
    }
    granted
}

/// Whether `granted` is a subresource of all resources, such as `*/scale`, and `asked` is one of these.
fn is_any_with_subresource(granted: &str, asked: &str) -> bool {
    granted.strip_prefix('*').is_some_and(|subresource| subresource.starts_with('/') && asked.ends_with(subresource))
}

/// Whether a right that a role grants includes a right that is asked for.
fn includes(granted: &Right, asked: &Right) -> bool {
    let is = |granted: &str, asked: &str| granted == "*" || granted == asked;
    is(&granted.verb, &asked.verb)
        && is(&granted.group, &asked.group)
        && (is(&granted.resource, &asked.resource) || is_any_with_subresource(&granted.resource, &asked.resource))
        && (granted.namespace.is_none() || granted.namespace == asked.namespace)
        && (granted.name.is_none() || granted.name == asked.name)
}

/// The rights that are asked for and not granted, and the rights without which all that is asked for is granted, too.
fn differences(granted: &BTreeSet<Right>, asked: &BTreeSet<Right>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut needed = BTreeSet::new();
    for asked in asked {
        let mut including = granted.iter().filter(|granted| includes(granted, asked));
        match (including.next(), including.next()) {
            (None, _) => drop(found.insert(format!("lacks: {asked}"))),
            (Some(only), None) => drop(needed.insert(only)),
            (Some(_), Some(_)) => {}
        }
    }
    found.extend(granted.iter().filter(|right| !needed.contains(right)).map(|right| format!("does not need: {right}")));
    found
}

/// The rights that the HTTP server of a process asks for when a caller reads metrics.
async fn rights_of_reviews() -> BTreeSet<Right> {
    let (clock, user) = (Clock::system(), "server");
    let sandbox = Sandbox::builder().record_rights(true).clock(clock.clone()).build();
    let (keeper, gate) = gate::closed_write_gate(clock.clone());
    keeper.open_without_deadline();
    let api = Api::new(sandbox.client(user), clock.clone(), gate, user);
    let metrics = Metrics::new();
    let authorizer = RequestAuthorizer::new(api.clone(), api, ReviewOptions::new(&[]), &metrics);
    let settings = ServerSettings { secure_address: Some(([127, 0, 0, 1], 0).into()), ..ServerSettings::default() };
    let state = ServerState::new(metrics, VerbosityHandle::new_detached());
    let server = start_server(&settings, &state, Some(authorizer), &clock).unwrap();
    let mut config = kube::Config::new(format!("https://{}", server.secure_address.unwrap()).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(sandbox.token("reader").into());
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    build_client(&config).unwrap().request_text(request).await.unwrap();
    sandbox.rights_asked_by(user)
}

fn object(api: &str, kind: &str, name: &str, mut rest: Value) -> Value {
    (rest["apiVersion"], rest["kind"], rest["metadata"]["name"]) = (api.into(), kind.into(), name.into());
    rest
}

/// Objects of each kind that has children.
fn objects() -> Vec<Value> {
    let template = |app: &str, restart: &str| {
        json!({"metadata": {"labels": {"app": app}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "img:1"}]}})
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
    let mut finished = job("short");
    finished["template"]["metadata"]["annotations"] = json!({"sim/exit": "0", "sim/after": "1"});
    finished["ttlSecondsAfterFinished"] = 1.into();
    let mut gang = job("gang");
    gang["completionMode"] = "Indexed".into();
    let rc = json!({"replicas": 2, "selector": {"app": "rc"}, "template": template("rc", "Always")});
    let tick = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job("tick")}});
    let port = json!([{"port": 80}]);
    let subsets = json!([{"addresses": [{"ip": "10.9.9.9"}], "ports": port}]);
    vec![
        workload("Deployment", "web", json!({"replicas": 2})),
        workload("Deployment", "once", json!({"strategy": {"type": "Recreate"}})),
        workload("ReplicaSet", "sets", json!({"replicas": 2})),
        workload("StatefulSet", "db", json!({"replicas": 2, "serviceName": "db", "volumeClaimTemplates": [claim]})),
        workload("DaemonSet", "agent", json!({})),
        object("v1", "Pod", "db-2", json!({"spec": {"containers": [{"name": "c", "image": "img:1"}]}})),
        object("v1", "ReplicationController", "rc", json!({ "spec": rc })),
        object("batch/v1", "Job", "sum", json!({ "spec": selecting })),
        object("batch/v1", "Job", "short", json!({ "spec": finished })),
        object("batch/v1", "Job", "gang", json!({ "spec": gang })),
        object("batch/v1", "CronJob", "tick", json!({ "spec": tick })),
        object("v1", "Service", "web", json!({"spec": {"selector": {"app": "web"}, "ports": port}})),
        object("v1", "Service", "outside", json!({"spec": {"ports": port}})),
        object("v1", "Endpoints", "outside", json!({ "subsets": subsets })),
        object("v1", "ConfigMap", "one", json!({})),
        object("v1", "ConfigMap", "two", json!({})),
        object("v1", "ConfigMap", "of-both", json!({})),
    ]
}

#[tokio::test]
async fn roles_grant_what_their_holders_ask_for_and_nothing_else() {
    let of_reviews = rights_of_reviews().await;
    tokio::time::pause();
    let story = Story::new(false).await;
    story.tell().await;
    story.find_second_writers().await;
    assert_eq!(story.differences(&of_reviews), REFUSED);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_refused_with_the_rights_of_the_roles() {
    let story = Story::new(true).await;
    story.tell().await;
    let events = story.world.sandbox.list("events", None).await.unwrap();
    let refused: Vec<&Value> =
        events.iter().map(|event| &event["message"]).filter(|m| m.to_string().contains("forbidden")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let differences = story.differences(&BTreeSet::new());
    let lacks: Vec<&String> = differences.iter().filter(|difference| difference.contains("lacks")).collect();
    assert_eq!(lacks, REFUSED);
}

#[test]
fn a_right_too_many_and_a_right_too_few_are_differences() {
    let rule = |groups: Value, resources: Value, verbs: Value| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let pods = |verbs| rule(json!([""]), json!(["pods"]), verbs);
    let lease = |name: &str| {
        let mut rule = rule(json!(["coordination.k8s.io"]), json!(["leases"]), json!(["get"]));
        rule["resourceNames"] = json!([name]);
        rule
    };
    let rights = |kind: &str, rules: Value| granted(&[json!({"kind": kind, "rules": rules})]);
    let asked = &rights("ClusterRole", json!([pods(json!(["get", "list"]))])) | &rights("Role", json!([lease("a")]));
    let found = |roles: &[BTreeSet<Right>]| -> Vec<String> {
        let granted = roles.iter().flatten().cloned().collect();
        differences(&granted, &asked).into_iter().collect()
    };
    let own = rights("Role", json!([lease("a")]));
    let everything = rights("ClusterRole", json!([rule(json!(["*"]), json!(["*"]), json!(["get", "list"]))]));
    let some = |verbs| rights("ClusterRole", json!([pods(verbs)]));
    let nothing = [""; 0];
    assert_eq!(found(&[own.clone(), some(json!(["get", "list"]))]), nothing);
    assert_eq!(found(&[own.clone(), some(json!(["list"]))]), ["lacks: get pods"]);
    assert_eq!(found(&[own.clone(), some(json!(["get", "list", "watch"]))]), ["does not need: watch pods"]);
    assert_eq!(found(std::slice::from_ref(&everything)), nothing);
    assert_eq!(found(&[everything, own]), ["does not need: get leases.coordination.k8s.io"], "it is granted twice");
    let other = rights("Role", json!([lease("b")]));
    let lease = "get leases.coordination.k8s.io";
    let both = [format!("does not need: {lease}"), format!("lacks: {lease}")];
    assert_eq!(found(&[other, some(json!(["get", "list"]))]), both, "the right to another Lease");
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
        let path = match definition.name {
            // CronJobs are all about Jobs.
            "cronjob-controller" => "/apis/batch/v1/cronjobs",
            "serviceaccount-controller" => "/api/v1/namespaces",
            _ => "/api/v1/pods",
        };
        ask(path).await.unwrap();
        ask(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{}", definition.name))
            .await
            .map_or_else(|e| assert!(e.to_string().contains("not found"), "{e}"), drop);
        // Every object may have an owner, a namespace and a quota: these three read objects of all kinds and create none.
        let (secrets, post) = ("/api/v1/namespaces/default/secrets", http::Request::post);
        let reads_all =
            ["gc-controller", "namespace-controller", "resourcequota-controller"].contains(&definition.name);
        let refused = if reads_all { send(post(secrets)) } else { ask(secrets) };
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
