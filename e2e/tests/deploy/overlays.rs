//! What every rendered overlay keeps, whatever the order of its lists.

use std::collections::{BTreeMap, BTreeSet};

use common::app::{self, ParsedCommandLine};
use e2e::controllers;
use serde_json::{Value, json};

use super::{
    deploy, directories, fields,
    kustomize::{self, Rendered, needs_kubectl},
    names, strings, yaml,
};
use crate::{
    docs::{markdown, pages},
    repository::{files, read},
};

const NAME: &str = "app.kubernetes.io/name";
const COMPONENT: &str = "app.kubernetes.io/component";
/// The registry of images that were not published: no name under `.invalid` resolves.
const UNPUBLISHED: &str = "registry.invalid/nonet";

/// Nodes that Pods may run on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Nodes {
    ControlPlane,
    Any,
}

/// What an overlay promises.
pub(crate) struct Expected {
    namespace: &'static str,
    controllers: BTreeSet<String>,
    shadows: BTreeSet<String>,
    replicas: u64,
    nodes: Nodes,
    /// Whether controllers take a Lease that does not exist, instead of creating it held.
    leads_at_once: bool,
}

fn production() -> Expected {
    Expected {
        namespace: "kube-system",
        controllers: names(),
        shadows: BTreeSet::new(),
        replicas: 2,
        nodes: Nodes::ControlPlane,
        leads_at_once: false,
    }
}

fn chosen(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("{name}-controller")).collect()
}

/// Overlays that run controllers as Deployments, and what each promises.
pub(crate) fn expectations() -> BTreeMap<&'static str, Expected> {
    let shadow = || Expected { controllers: BTreeSet::new(), shadows: names(), replicas: 1, ..production() };
    let workloads = chosen(&["deployment", "replicaset", "statefulset"]);
    BTreeMap::from([
        ("overlays/default", production()),
        ("overlays/monitored", production()),
        ("overlays/gang-scheduling", production()),
        ("overlays/any-node", Expected { nodes: Nodes::Any, ..production() }),
        ("overlays/single", Expected { replicas: 1, ..production() }),
        ("overlays/shadow", shadow()),
        ("overlays/shadow-any-node", Expected { nodes: Nodes::Any, ..shadow() }),
        ("examples/batch", Expected { controllers: chosen(&["job", "cronjob"]), ..production() }),
        ("examples/garbage-collector", Expected { namespace: "nonet", controllers: chosen(&["gc"]), ..production() }),
        ("examples/workloads", Expected { controllers: workloads, nodes: Nodes::Any, ..production() }),
        ("kind/controllers", Expected { nodes: Nodes::Any, leads_at_once: true, ..production() }),
    ])
}

/// Everything else that renders.
pub(crate) const OTHERS: [&str; 11] = [
    "namespace",
    "overlays/rescue",
    "overlays/rescue-any-node",
    "overlays/static-pods",
    "static-pods",
    "examples/batch/rescue",
    "examples/garbage-collector/rescue",
    "examples/hosted",
    "examples/workloads/rescue",
    "kind/rescue",
    "kind/rescue-any-node",
];

/// Taints of the nodes on which the Pods shall run, by key, value and effect.
const TAINTS: [(&str, &str, &str); 4] = [
    // Control-plane nodes.
    ("node-role.kubernetes.io/control-plane", "", "NoSchedule"),
    // Nodes of RKE2 that run etcd.
    ("node-role.kubernetes.io/etcd", "true", "NoExecute"),
    // Servers of RKE2 and k3s without other workloads.
    ("CriticalAddonsOnly", "true", "NoExecute"),
    // Node pools of AKS for the system.
    ("CriticalAddonsOnly", "true", "NoSchedule"),
];

/// The argument by which a controller takes a Lease that does not exist.
const LEAD_AT_ONCE: &str = "--lead-without-release";

pub(crate) fn of_kind<'a>(objects: &'a Rendered, kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|((k, _), _)| k == kind).map(|(_, object)| object).collect()
}

fn find<'a>(objects: &'a Rendered, kind: &str, name: &Value) -> &'a Value {
    let name = name.as_str().unwrap_or_else(|| panic!("{kind}: {name} is no name"));
    objects.get(&(kind.to_owned(), name.to_owned())).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The controller that an object belongs to.
fn controller(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][NAME].as_str()
}

/// The specs of all Pods, those of Deployments among them, with their controllers.
pub(super) fn pods(objects: &Rendered) -> Vec<(&str, &Value)> {
    let spec = |object: &'_ Value| match object["kind"].as_str() {
        Some("Pod") => Some("/spec"),
        Some("Deployment") => Some("/spec/template/spec"),
        _ => None,
    };
    let pods = objects.values().filter_map(|object| Some((object, object.pointer(spec(object)?)?)));
    pods.map(|(object, pod)| (controller(object).expect("the label of a controller"), pod)).collect()
}

pub(super) fn container(pod: &Value) -> &Value {
    let [container] = pod["containers"].as_array().unwrap().as_slice() else { panic!("one container") };
    container
}

pub(super) fn arguments(pod: &Value) -> Vec<&str> {
    strings(&container(pod)["args"])
}

pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    selector.as_object().unwrap().iter().all(|(key, value)| labels[key] == *value)
}

/// Fails unless a value has all these fields; null stands for a field that is absent.
fn assert_has(what: &str, value: &Value, expected: &Value) {
    match expected {
        Value::Object(fields) => {
            fields.iter().for_each(|(field, expected)| assert_has(&format!("{what}.{field}"), &value[field], expected));
        }
        expected => assert_eq!(value, expected, "{what}"),
    }
}

/// Verbs by group and resource.
fn rights(role: &Value) -> BTreeSet<(String, String, String)> {
    let mut out = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let [groups, resources, verbs] = ["apiGroups", "resources", "verbs"].map(|field| strings(&rule[field]));
        for (group, resource) in
            groups.iter().flat_map(|group| resources.iter().map(move |resource| (*group, *resource)))
        {
            out.extend(verbs.iter().map(|verb| right(group, resource, verb)));
        }
    }
    out
}

fn right(group: &str, resource: &str, verb: &str) -> (String, String, String) {
    (group.to_owned(), resource.to_owned(), verb.to_owned())
}

/// Whether a shadow has this right of its controller. It reads single objects only before it writes.
fn is_of_shadow((_, resource, verb): &(String, String, String)) -> bool {
    matches!(verb.as_str(), "list" | "watch") || matches!(resource.as_str(), "tokenreviews" | "subjectaccessreviews")
}

/// The toleration of a Pod for a taint.
fn toleration<'a>(pod: &'a Value, (key, value, effect): (&str, &str, &str)) -> Option<&'a Value> {
    pod["tolerations"].as_array()?.iter().find(|of| {
        let is_for = |field: &str, other: &str| of[field].is_null() || of[field] == other;
        is_for("key", key) && is_for("effect", effect) && (of["operator"] == "Exists" || of["value"] == value)
    })
}

/// The Pod runs on nodes with Linux, whatever their taints.
fn check_nodes(name: &str, pod: &Value) {
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}), "{name}");
    for taint in TAINTS {
        let found = toleration(pod, taint).unwrap_or_else(|| panic!("{name}: {taint:?} is not tolerated"));
        assert!(found["tolerationSeconds"].is_null(), "{name}: {found}");
    }
}

/// The binary of a container takes its arguments.
pub(super) fn check_arguments(controller: &str, pod: &Value) {
    let definition = controllers::ALL.iter().find(|d| d.name == controller).unwrap();
    let arguments = arguments(pod).into_iter().map(|arg| arg.replace("$(POD_NAMESPACE)", "anywhere"));
    let program = [controller.to_owned()];
    let parsed = app::parse_command_line(definition, program.into_iter().chain(arguments), || "me".to_owned());
    match parsed {
        Ok(ParsedCommandLine::Run(options)) if options.command_line_warnings.is_empty() => {}
        Ok(ParsedCommandLine::Run(options)) => panic!("{controller}: {:?}", options.command_line_warnings),
        Ok(ParsedCommandLine::Print(_)) => panic!("{controller} prints and ends"),
        Err(why) => panic!("{controller}: {why}"),
    }
}

/// The Pod security standard `restricted`, and a bound on what it uses.
pub(super) fn check_confined(controller: &str, pod: &Value) {
    let container = container(pod);
    let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    assert_has(controller, pod, &json!({ "securityContext": security }));
    let security =
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
    let image = format!("{UNPUBLISHED}/{controller}:dev");
    assert_has(controller, container, &json!({"image": image, "securityContext": security}));
    for figure in ["/requests/cpu", "/requests/memory", "/limits/memory"] {
        assert!(container["resources"].pointer(figure).is_some_and(Value::is_string), "{controller}: {figure}");
    }
}

pub(crate) fn check(objects: &Rendered, expected: &Expected) {
    let namespace = expected.namespace;
    for ((kind, name), object) in objects {
        let of_cluster = matches!(kind.as_str(), "ClusterRole" | "ClusterRoleBinding");
        assert_eq!(object["metadata"]["namespace"].as_str(), (!of_cluster).then_some(namespace), "{kind} {name}");
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/part-of"], "nonet", "{kind} {name}");
        if namespace != "kube-system" {
            assert!(!object.to_string().contains("kube-system"), "{kind} {name}: {object}");
        }
    }
    let deployments = of_kind(objects, "Deployment");
    let running = |component: &str| -> BTreeSet<String> {
        let of_component = deployments.iter().filter(|d| d["metadata"]["labels"][COMPONENT] == component);
        of_component.map(|d| controller(d).unwrap().to_owned()).collect()
    };
    assert_eq!((running("controller"), running("shadow")), (expected.controllers.clone(), expected.shadows.clone()));
    for deployment in &deployments {
        check_deployment(objects, deployment, expected);
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        let matching = deployments.iter().filter(|other| selects(&other["spec"]["selector"]["matchLabels"], labels));
        assert_eq!(matching.count(), 1, "{labels}: several Deployments select these Pods");
    }
    // Nothing is left over for a controller that is not there.
    for kind in ["ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"] {
        let of_controllers = of_kind(objects, kind).into_iter().filter_map(controller);
        assert_eq!(of_controllers.count(), deployments.len(), "{kind}");
    }
}

fn check_deployment(objects: &Rendered, deployment: &Value, expected: &Expected) {
    let (metadata, spec) = (&deployment["metadata"], &deployment["spec"]);
    let (controller, labels, pod) = (controller(deployment).unwrap(), &metadata["labels"], &spec["template"]["spec"]);
    let shadow = labels[COMPONENT] == "shadow";
    let name = if shadow { format!("nonet-{controller}-shadow") } else { format!("nonet-{controller}") };
    let replicas = if shadow { 1 } else { expected.replicas };
    assert_has(&name, deployment, &json!({"metadata": {"name": name}, "spec": {"replicas": replicas}}));
    assert!(spec["minReadySeconds"].as_u64() > Some(0), "{name}");
    let disruptions = find(objects, "PodDisruptionBudget", &metadata["name"]);
    let policy = find(objects, "NetworkPolicy", &metadata["name"]);
    for selected in [
        &spec["selector"]["matchLabels"],
        &spec["template"]["metadata"]["labels"],
        &disruptions["spec"]["selector"]["matchLabels"],
        &policy["spec"]["podSelector"]["matchLabels"],
    ] {
        assert_eq!(selected, labels, "{name}");
    }

    let affinity = &pod["affinity"];
    let apart = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if replicas > 1 {
        // A rollout needs another node.
        let hashes = json!(["pod-template-hash"]);
        assert_has(&name, &apart[0], &json!({"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": hashes}));
        assert!(selects(&apart[0]["labelSelector"]["matchLabels"], labels), "{name}");
        assert_eq!(disruptions["spec"]["maxUnavailable"], 1, "{name}");
        // Two zones are better than one, but no replica waits for another zone.
        let zones = &pod["topologySpreadConstraints"][0];
        let soft = json!({"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"});
        assert_has(&name, zones, &soft);
        for field in ["labelSelector", "matchLabelKeys"] {
            assert_eq!(zones[field], apart[0][field], "{name}");
        }
    } else {
        assert!(apart.is_null(), "{name}");
    }
    check_nodes(&name, pod);
    let placed = affinity["nodeAffinity"].to_string().contains("node-role.kubernetes.io/control-plane");
    assert_eq!(placed, expected.nodes == Nodes::ControlPlane, "{name}");

    let arguments = arguments(pod);
    for (argument, is_given) in [
        ("--shadow", shadow),
        (LEAD_AT_ONCE, expected.leads_at_once && !shadow),
        ("--leader-elect-resource-namespace=$(POD_NAMESPACE)", true),
        // A rollout starts a new replica beside the old one, also where there is one replica.
        ("--probation=1m", true),
    ] {
        let flag = argument.split('=').next().unwrap();
        let given: Vec<&&str> = arguments.iter().filter(|given| given.split('=').next() == Some(flag)).collect();
        assert_eq!(given, [&argument][..usize::from(is_given)], "{name}: {arguments:?}");
    }
    let namespace = json!({"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}});
    assert_has(&name, &container(pod)["env"][0], &namespace);
    if controller == "node-lifecycle-controller" && !shadow {
        check_tolerations(pod, expected.nodes);
    }
    check_arguments(controller, pod);
    check_confined(controller, pod);
    check_roles(objects, controller, shadow, &pod["serviceAccountName"], expected.namespace);
}

/// A node that node-lifecycle-controller has tainted takes a new replica of it: nobody else removes the taint.
fn check_tolerations(pod: &Value, nodes: Nodes) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let of_effect = |effect: &str| -> &Value {
            let found = toleration(pod, (key, "", effect));
            &found.unwrap_or_else(|| panic!("{key}:{effect} is not tolerated"))["tolerationSeconds"]
        };
        assert!(of_effect("NoSchedule").is_null());
        // A control-plane node comes back, or its Node is deleted. Any other node may be lost for good.
        let evicted_after = of_effect("NoExecute").as_u64();
        assert_eq!(evicted_after, (nodes == Nodes::Any).then_some(300), "{key}");
    }
}

/// The ServiceAccount of a Deployment has the rights of its controller, those on its Lease among them; that of a shadow only
/// reads.
fn check_roles(objects: &Rendered, controller: &str, shadow: bool, account: &Value, namespace: &str) {
    find(objects, "ServiceAccount", account);
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": namespace});
    let bound = |kind: &str| -> Vec<&Value> {
        of_kind(objects, kind).into_iter().filter(|b| b["subjects"] == json!([subject])).collect()
    };
    let [binding] = bound("ClusterRoleBinding")[..] else { panic!("one ClusterRoleBinding of {account}") };
    let role = rights(find(objects, "ClusterRole", &binding["roleRef"]["name"]));
    let bindings = bound("RoleBinding");
    if shadow {
        assert!(bindings.is_empty(), "{bindings:?}");
        // The controller itself may be part of another overlay.
        let own = yaml(&format!("controllers/{controller}/rbac.yaml")).swap_remove(0);
        let beside = objects.get(&("ClusterRole".to_owned(), format!("nonet:{controller}")));
        let mut read: BTreeSet<_> = rights(beside.unwrap_or(&own)).into_iter().filter(is_of_shadow).collect();
        // A shadow does not look for second writers.
        read.remove(&right("", "events", "list"));
        read.remove(&right("", "events", "watch"));
        if !read.contains(&right("", "pods", "watch")) {
            read.remove(&right("", "pods", "list"));
        }
        assert_eq!(role, read, "the shadow of {controller}");
        return;
    }
    let [binding] = bindings[..] else { panic!("one RoleBinding of {account}") };
    let leases = find(objects, "Role", &binding["roleRef"]["name"])["rules"].as_array().unwrap();
    // The flag that names the Lease is not given: its default is the name of the controller.
    let own = leases.iter().find(|rule| !rule["resourceNames"].is_null()).unwrap();
    assert_eq!(own["resourceNames"], json!([controller]));
}

/// The rules of the ClusterRole that is all that a ServiceAccount has.
fn only_role<'a>(objects: &'a Rendered, account: &Value) -> &'a Value {
    let bound = |kind: &str| -> Vec<&Value> {
        of_kind(objects, kind).into_iter().filter(|binding| binding["subjects"][0]["name"] == *account).collect()
    };
    assert!(bound("RoleBinding").is_empty(), "{account}");
    let [binding] = bound("ClusterRoleBinding")[..] else { panic!("one ClusterRoleBinding of {account}") };
    &find(objects, "ClusterRole", &binding["roleRef"]["name"])["rules"]
}

#[test]
fn every_overlay_keeps_its_promises() {
    needs_kubectl!();
    for (path, expected) in expectations() {
        println!("{path}");
        check(&kustomize::build(path), &expected);
    }
}

#[test]
fn every_kustomization_is_looked_at() {
    let known: BTreeSet<String> = expectations().into_keys().chain(OTHERS).map(str::to_owned).collect();
    let found = ["overlays", "examples", "kind"].into_iter().flat_map(|of| {
        let with_parts = move |each: String| ["", "/rescue"].map(|part| format!("{of}/{each}{part}"));
        directories(of).into_iter().flat_map(with_parts)
    });
    for path in found.filter(|path| deploy(path).is_dir()) {
        assert!(known.contains(&path), "{path}: add what it promises");
    }
}

/// Orders of a list in which every member comes directly before every other one: 0, 1, n-1, 2, n-2, ... and its shifts, for an even
/// n (Williams). For an odd number of members, one place is empty.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let count = items.len().next_multiple_of(2);
    let first = |at: usize| if at % 2 == 1 { at.div_ceil(2) } else { count - at / 2 };
    let shifted = |shift: usize| (0..count).filter_map(|at| items.get((first(at) + shift) % count).cloned()).collect();
    (0..count).map(shifted).collect()
}

/// An overlay in `deploy/overlays/default` with other lists.
fn overlay(resources: &[String], components: &[String]) -> Value {
    json!({
        "namespace": "elsewhere",
        "resources": resources,
        "components": components,
        "replacements": replacements(),
    })
}

/// What an overlay in another namespace needs: the replacement of the example, and that of the page for monitoring.
fn replacements() -> Vec<Value> {
    let page = read("docs/operating.md");
    let (_, block) = page.split_once("```yaml\nreplacements:").expect("the page shows the replacement for monitoring");
    let block = format!("replacements:{}", block.split("```").next().unwrap());
    let of_page: Value = serde_saphyr::from_str(&block).unwrap();
    let of_example = &yaml("examples/garbage-collector/kustomization.yaml")[0]["replacements"];
    [of_example, &of_page["replacements"]].into_iter().flat_map(|list| list.as_array().unwrap().clone()).collect()
}

/// All controllers and, beside them, shadows of some.
fn everything() -> Vec<String> {
    let shadows = ["replicaset", "gc", "job"].map(|name| format!("../../shadows/{name}-controller"));
    names().into_iter().map(|name| format!("../../controllers/{name}")).chain(shadows).collect()
}

fn components() -> Vec<String> {
    directories("components").into_iter().map(|name| format!("../../components/{name}")).collect()
}

#[test]
fn the_order_of_resources_and_components_changes_nothing() {
    needs_kubectl!();
    let directory = "overlays/default";
    let expected = Expected {
        namespace: "elsewhere",
        shadows: chosen(&["replicaset", "gc", "job"]),
        nodes: Nodes::Any,
        leads_at_once: true,
        ..production()
    };
    let resources = everything();
    let components = components();
    assert!(components.len() >= 5, "{components:?}");
    let overlay_of =
        |resources: &[String], components: &[String]| kustomize::texts(directory, &overlay(resources, components));
    check(&kustomize::render(directory, &overlay(&resources, &components)), &expected);
    let first = overlay_of(&resources, &components);
    let orders = orders(&components);
    let pairs: BTreeSet<_> = orders.iter().flat_map(|order| order.windows(2)).collect();
    assert_eq!(pairs.len(), components.len() * (components.len() - 1));
    let mut rotated = resources.clone();
    for order in orders {
        rotated.rotate_left(1);
        assert!(overlay_of(&rotated, &order) == first, "{order:?} of {rotated:?} render something else");
    }
}

/// The choices of an operator, one at a time: a component beside those of production, and a controller alone.
#[test]
fn every_component_and_every_controller_can_be_chosen_alone() {
    needs_kubectl!();
    let all: Vec<String> = names().into_iter().collect();
    let choose = |controllers: &[String], component: &str| {
        let resources = controllers.iter().map(|name| format!("../../controllers/{name}")).collect::<Vec<_>>();
        let components: BTreeSet<&str> = ["debug", "ha", "images", component].into();
        let components: Vec<String> = components.iter().map(|name| format!("../../components/{name}")).collect();
        let kustomization = json!({"namespace": "kube-system", "resources": resources, "components": components});
        kustomize::render("overlays/default", &kustomization)
    };
    for component in directories("components") {
        let expected = match component.as_str() {
            "any-node" => Expected { nodes: Nodes::Any, ..production() },
            "lead-at-once" => Expected { leads_at_once: true, ..production() },
            _ => production(),
        };
        println!("{component}");
        check(&choose(&all, &component), &expected);
    }
    for name in all {
        println!("{name}");
        let objects = choose(std::slice::from_ref(&name), "ha");
        check(&objects, &Expected { controllers: BTreeSet::from([name]), ..production() });
    }
}

#[test]
fn a_pull_secret_reaches_every_pod_that_can_use_it() {
    needs_kubectl!();
    let secrets = json!([{"name": "registry"}]);
    for path in ["overlays/any-node", "overlays/shadow", "overlays/rescue", "overlays/rescue-any-node", "static-pods"] {
        let mut kustomization = kustomize::kustomization(path);
        let mut components = strings(&kustomization["components"]);
        components.push(if path == "static-pods" {
            "../components/pull-secret"
        } else {
            "../../components/pull-secret"
        });
        kustomization["components"] = components.into();
        for (name, pod) in pods(&kustomize::render(path, &kustomization)) {
            // The API server refuses mirrors of static Pods that refer to Secrets.
            let expected = if path == "static-pods" { &Value::Null } else { &secrets };
            assert_eq!(&pod["imagePullSecrets"], expected, "{path}: {name}");
        }
    }
}

/// The patches that a page shows for an overlay of an operator.
#[test]
fn every_documented_patch_changes_an_overlay() {
    needs_kubectl!();
    let fences = pages().into_iter().flat_map(|page| markdown::parse(&read(&page)).fences);
    let documents = fences.filter(|fence| fence.language == "yaml").map(|fence| fence.lines.join("\n"));
    let patches: Vec<Value> = documents
        .filter(|text| text.starts_with("patches:"))
        .map(|text| serde_saphyr::from_str::<Value>(&text).unwrap()["patches"].take())
        .collect();
    assert!(!patches.is_empty(), "no page shows a patch");
    for patches in patches {
        let kustomization = json!({"resources": ["../monitored"], "patches": patches});
        let changed = kustomize::render("overlays/default", &kustomization);
        assert!(changed != kustomize::build("overlays/monitored"), "{patches} changes nothing");
    }
}

#[test]
fn another_namespace_is_one_line() {
    needs_kubectl!();
    for (path, expected) in expectations() {
        let mut kustomization = kustomize::kustomization(path);
        kustomization["namespace"] = "elsewhere".into();
        check(&kustomize::render(path, &kustomization), &Expected { namespace: "elsewhere", ..expected });
    }
}

/// A controller that finds no Lease creates it held. So nothing that an operator applies may contain a Lease, which could be free
/// or take the place of a live one, or the argument that leads without a release.
#[test]
fn nothing_that_is_applied_leads_by_itself_except_for_clusters_without_the_built_in_loops() {
    needs_kubectl!();
    let parts = names().into_iter().map(|name| format!("controllers/{name}/rescue"));
    for path in expectations().into_keys().chain(OTHERS).map(str::to_owned).chain(parts) {
        let objects = kustomize::build(&path);
        assert!(of_kind(&objects, "Lease").is_empty(), "{path}");
        for (name, pod) in pods(&objects) {
            assert_eq!(arguments(pod).contains(&LEAD_AT_ONCE), path.starts_with("kind/"), "{path}: {name}");
        }
    }
    // The same of the files themselves, of which an operator may apply or copy each.
    let mut leading = BTreeSet::new();
    let is_applied = |path: &&str| !path.starts_with("kubectl-nonet/");
    for path in files().iter().filter_map(|path| path.strip_prefix("deploy/")).filter(is_applied) {
        let text = read(&format!("deploy/{path}"));
        assert!(!text.lines().any(|line| line.trim() == "kind: Lease"), "{path} has a Lease");
        if text.contains(LEAD_AT_ONCE) {
            leading.insert(path.to_owned());
        }
    }
    assert_eq!(leading, BTreeSet::from(["components/lead-at-once/kustomization.yaml".to_owned()]));
}

#[test]
fn lead_at_once_reaches_every_process_that_takes_part_in_elections() {
    needs_kubectl!();
    for path in ["overlays/default", "overlays/shadow", "overlays/rescue", "static-pods"] {
        let mut kustomization = kustomize::kustomization(path);
        let up = if path == "static-pods" { ".." } else { "../.." };
        kustomization["components"].as_array_mut().unwrap().push(format!("{up}/components/lead-at-once").into());
        let objects = kustomize::render(path, &kustomization);
        let pods = pods(&objects);
        assert!(pods.len() >= 4, "{path}");
        for (name, pod) in pods {
            let arguments = arguments(pod);
            let count = arguments.iter().filter(|argument| **argument == LEAD_AT_ONCE).count();
            assert_eq!(count, usize::from(!arguments.contains(&"--shadow")), "{path} {name}: {arguments:?}");
        }
    }
}

/// One `kubectl apply -f default.yaml -l app.kubernetes.io/name=NAME` upgrades one controller with all that it needs.
#[test]
fn the_label_of_a_controller_selects_all_its_objects_in_a_file_of_a_release() {
    needs_kubectl!();
    let objects = kustomize::build("overlays/default");
    for name in names() {
        let own = objects.iter().filter(|(_, object)| controller(object) == Some(&name));
        let own: BTreeSet<&str> = own.map(|((kind, _), _)| kind.as_str()).collect();
        for kind in ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"] {
            assert!(own.contains(kind), "{name}: {kind}");
        }
    }
    let controllers: BTreeSet<String> = objects.values().filter_map(controller).map(str::to_owned).collect();
    assert!(controllers.is_subset(&names()), "{controllers:?}");
}

/// The port that a Pod in the network of its node serves on, once it is sure that nobody else can reach it there.
fn loopback_port(controller: &str, pod: &Value) -> u64 {
    let (container, arguments) = (container(pod), arguments(pod));
    let port = container["ports"][0]["containerPort"].as_u64().unwrap();
    for argument in ["--bind-address=127.0.0.1".to_owned(), format!("--secure-port={port}")] {
        assert!(arguments.contains(&argument.as_str()), "{controller}: {arguments:?}");
    }
    assert_eq!((&pod["hostNetwork"], &container["ports"][0]["hostPort"]), (&json!(true), &json!(port)), "{controller}");
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["host"], "127.0.0.1", "{controller}");
    }
    check_arguments(controller, pod);
    check_confined(controller, pod);
    port
}

#[test]
fn static_pods_need_nothing_but_a_kubelet_and_a_kubeconfig() {
    needs_kubectl!();
    let manifests = kustomize::build("static-pods");
    for name in names() {
        let pod = find(&manifests, "Pod", &format!("nonet-{name}").into());
        assert_eq!(pod["metadata"]["namespace"], "kube-system");
        // A directory of its own: a file that is mounted by itself is not seen any more once another is renamed over it.
        let directory = format!("/etc/kubernetes/nonet/{name}");
        let arguments = arguments(&pod["spec"]);
        for argument in [format!("--kubeconfig={directory}/kubeconfig").as_str(), "--probation=1m"] {
            assert!(arguments.contains(&argument), "{name}: {arguments:?}");
        }
        let container = container(&pod["spec"]);
        let mounts = json!([{"name": "kubeconfig", "mountPath": directory, "readOnly": true}]);
        let volumes = json!([{"name": "kubeconfig", "hostPath": {"path": directory, "type": "Directory"}}]);
        assert_eq!((&container["volumeMounts"], &pod["spec"]["volumes"]), (&mounts, &volumes), "{name}");
        // The API server refuses mirrors of static Pods that refer to objects.
        assert!(pod["spec"]["serviceAccountName"].is_null() && container["env"].is_null(), "{name}");
    }
    assert_eq!(manifests.len(), names().len());
}

/// On one node, a rescue Pod can run beside the static Pods, also of its own controller.
#[test]
fn every_pod_in_the_network_of_a_node_has_a_port_of_its_own() {
    needs_kubectl!();
    let rescues = names().into_iter().map(|name| format!("controllers/{name}/rescue"));
    let mut ports = BTreeSet::new();
    for path in rescues.chain(["static-pods".to_owned()]) {
        for (name, pod) in pods(&kustomize::build(&path)) {
            let port = loopback_port(name, pod);
            assert!(ports.insert(port), "{path}: {port} of {name} belongs to another Pod");
            assert!(!(10248..=10260).contains(&port), "{path}: {port} belongs to a component of Kubernetes");
        }
    }
    assert_eq!(ports.len(), 2 * names().len());
}

#[test]
fn the_scrape_configuration_has_the_port_of_every_static_pod() {
    needs_kubectl!();
    let manifests = kustomize::build("static-pods");
    let address = |(name, pod): (&str, &Value)| (name.to_owned(), format!("127.0.0.1:{}", loopback_port(name, pod)));
    let addresses: BTreeMap<String, String> = pods(&manifests).into_iter().map(address).collect();
    let scrape = &yaml("static-pods/scrape.yaml")[0]["scrape_configs"][0];
    // All nodes have the same addresses, so that the label instance has to differ for alerts that group by it.
    let relabel = json!([{"target_label": "instance", "replacement": "NODE"}]);
    assert_has("scrape", scrape, &json!({"scheme": "https", "relabel_configs": relabel}));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let targets = scrape["static_configs"].as_array().unwrap().iter().map(|each| {
        assert_eq!(each["labels"]["namespace"], "kube-system");
        (text(&each["labels"]["job"]), text(&each["targets"][0]))
    });
    assert_eq!(targets.collect::<BTreeMap<_, _>>(), addresses);
}

#[test]
fn the_rights_of_static_pods_are_those_of_deployments() {
    needs_kubectl!();
    let mut all = kustomize::build("overlays/default");
    all.retain(|(kind, _), _| !matches!(kind.as_str(), "Deployment" | "PodDisruptionBudget" | "NetworkPolicy"));
    assert!(kustomize::build("overlays/static-pods") == all);
}

#[test]
fn rescue_needs_no_controller_no_network_plugin_and_no_ready_node() {
    needs_kubectl!();
    let dead_cluster = || chosen(&["daemonset", "deployment", "node-lifecycle", "replicaset", "serviceaccount"]);
    // The rescue, the overlay with its ServiceAccounts, the controllers in both.
    let mut all = vec![
        ("overlays/rescue".to_owned(), "overlays/default", dead_cluster(), Nodes::ControlPlane),
        ("overlays/rescue-any-node".to_owned(), "overlays/any-node", dead_cluster(), Nodes::Any),
        ("kind/rescue".to_owned(), "kind/controllers", dead_cluster(), Nodes::ControlPlane),
        ("kind/rescue-any-node".to_owned(), "kind/controllers", dead_cluster(), Nodes::Any),
    ];
    for (path, expected) in expectations().into_iter().filter(|(path, _)| path.starts_with("examples/")) {
        all.push((format!("{path}/rescue"), path, expected.controllers, expected.nodes));
    }
    assert!(all.len() > 5);
    for (path, beside, controllers, nodes) in all {
        let pods = kustomize::build(&path);
        let accounts = kustomize::build(beside);
        let rescued: BTreeSet<String> = pods.values().filter_map(controller).map(str::to_owned).collect();
        assert_eq!(rescued, controllers, "{path}");
        for pod in pods.values() {
            let (name, spec) = (controller(pod).unwrap(), &pod["spec"]);
            assert_has(&path, pod, &json!({"kind": "Pod", "spec": {"tolerations": [{"operator": "Exists"}]}}));
            check_nodes(&path, spec);
            let account = find(&accounts, "ServiceAccount", &spec["serviceAccountName"]);
            let namespace = &pod["metadata"]["namespace"];
            assert_has(&path, account, &json!({"metadata": {"labels": {NAME: name}, "namespace": namespace}}));
            let selector = &yaml(&format!("controllers/{name}/deployment.yaml"))[0]["spec"]["selector"]["matchLabels"];
            assert!(!selects(selector, &pod["metadata"]["labels"]), "{name}: the Deployment would count it as its own");
            let environment: Vec<&Value> = fields(&container(spec)["env"], "/name").collect();
            let placed = nodes == Nodes::ControlPlane;
            let local = ["POD_NAMESPACE", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
            assert_eq!(environment, local[..if placed { 3 } else { 1 }], "{path}");
            assert_eq!(!spec["affinity"]["nodeAffinity"].is_null(), placed, "{path}");
        }
    }
}

/// What the Pods of a controller have in common, whether a Deployment, a kubelet or an operator starts them.
fn common_part(pod: &Value) -> Value {
    let mut pod = pod.clone();
    let own = ["hostNetwork", "priorityClassName", "serviceAccountName", "volumes"];
    let of_scheduling = ["affinity", "nodeSelector", "tolerations", "topologySpreadConstraints"];
    pod.as_object_mut().unwrap().retain(|field, _| !own.contains(&&**field) && !of_scheduling.contains(&&**field));
    let container = pod["containers"][0].as_object_mut().unwrap();
    container.retain(|field, _| !["args", "env", "ports", "volumeMounts"].contains(&&**field));
    for probe in ["livenessProbe", "readinessProbe"] {
        container[probe]["httpGet"].as_object_mut().unwrap().remove("host");
    }
    pod
}

#[test]
fn a_controller_has_the_same_settings_wherever_it_runs() {
    needs_kubectl!();
    let deployments = kustomize::build("overlays/default");
    let rescues = names().into_iter().map(|name| format!("controllers/{name}/rescue"));
    for path in rescues.chain(["static-pods".to_owned()]) {
        for (name, pod) in pods(&kustomize::build(&path)) {
            let deployment = find(&deployments, "Deployment", &format!("nonet-{name}").into());
            let template = &deployment["spec"]["template"]["spec"];
            assert_eq!(common_part(pod), common_part(template), "{path}: {name}");
            assert!(arguments(pod).contains(&arguments(template)[0]), "{path}: {name}");
            // A static Pod is part of its node.
            let priority =
                if path == "static-pods" { &json!("system-node-critical") } else { &template["priorityClassName"] };
            assert_eq!(&pod["priorityClassName"], priority, "{path}: {name}");
        }
    }
}

#[test]
fn images_are_set_in_one_place() {
    needs_kubectl!();
    for (component, prefix) in [("images", UNPUBLISHED.to_owned()), ("shadow-images", format!("{UNPUBLISHED}/shadow"))]
    {
        let images = &yaml(&format!("components/{component}/kustomization.yaml"))[0]["images"];
        let listed: BTreeSet<String> = fields(images, "/name").map(|name| name.as_str().unwrap().to_owned()).collect();
        assert_eq!(listed, names().iter().map(|name| format!("{prefix}/{name}")).collect());
    }
    let of_path = |path: &'static str| (path, kustomize::kustomization(path));
    // As a release sets them, and as a GitOps tool does on a remote base.
    let releases = ["overlays/default", "overlays/shadow", "overlays/rescue", "static-pods"].map(of_path);
    let on_bases =
        ["default", "shadow", "rescue"].map(|base| ("overlays/default", json!({"resources": [format!("../{base}")]})));
    for (path, mut kustomization) in releases.into_iter().chain(on_bases) {
        let digest = format!("sha256:{}", "0".repeat(64));
        // As if the components had not set any name yet.
        let components = strings(&kustomization["components"]).into_iter().filter(|path| !path.ends_with("images"));
        kustomization["components"] = components.collect();
        let image = |prefix: &str, name: &str| {
            let new = format!("registry.example:5000/team/{name}");
            json!({"name": format!("{UNPUBLISHED}/{prefix}{name}"), "newName": new, "newTag": "v1.2.3", "digest": digest})
        };
        kustomization["images"] = names().iter().flat_map(|name| [image("", name), image("shadow/", name)]).collect();
        for (name, pod) in pods(&kustomize::render(path, &kustomization)) {
            assert_eq!(container(pod)["image"], format!("registry.example:5000/team/{name}:v1.2.3@{digest}"));
        }
    }
}

/// Kinds that one command deletes, in docs/operating.md: the list behind a word of that command.
fn kinds_deleted() -> BTreeSet<String> {
    let page = read("docs/operating.md");
    let command =
        page.lines().find(|line| line.contains("delete deployment,")).expect("the command that removes one controller");
    let list = command.split_whitespace().find(|word| word.starts_with("deployment,")).unwrap();
    list.split(',').map(str::to_owned).collect()
}

#[test]
fn one_command_by_labels_removes_one_controller() {
    needs_kubectl!();
    let kinds = kinds_deleted();
    for name in names() {
        let mut objects = kustomize::build(&format!("controllers/{name}"));
        objects.extend(kustomize::build(&format!("controllers/{name}/absence")));
        assert!(objects.len() >= 9, "{name}");
        for ((kind, object), value) in objects {
            let expected = json!({NAME: name, COMPONENT: "controller", "app.kubernetes.io/part-of": "nonet"});
            assert_eq!(value["metadata"]["labels"], expected, "{kind} {object}");
            // The Prometheus operator's kind may be unknown to the cluster; the page says so.
            assert!(kind == "PrometheusRule" || kinds.contains(&kind.to_lowercase()), "{kind} stays behind");
        }
        // The Lease stays: it is what keeps other replicas back.
        assert!(!kinds.contains("lease"));
    }
}

#[test]
fn a_component_that_is_listed_twice_changes_nothing() {
    needs_kubectl!();
    let once = components();
    let twice: Vec<String> = ["ha", "images", "shadow-images"].map(|name| format!("../../components/{name}")).into();
    let of = |components: &[String]| kustomize::texts("overlays/default", &overlay(&everything(), components));
    assert!(of(&[once.clone(), twice].concat()) == of(&once));
}

#[test]
fn installations_in_two_namespaces_share_no_object_of_the_cluster() {
    needs_kubectl!();
    let in_namespace = |path: &str, namespace: &str| -> BTreeSet<(String, String)> {
        let mut kustomization = kustomize::kustomization(path);
        kustomization["namespace"] = namespace.into();
        let objects = kustomize::render(path, &kustomization);
        let of_cluster = |kind: &str| matches!(kind, "ClusterRole" | "ClusterRoleBinding" | "FlowSchema");
        objects.into_keys().filter(|(kind, _)| of_cluster(kind)).collect()
    };
    let collector = in_namespace("examples/garbage-collector", "one");
    assert!(collector.len() >= 6, "{collector:?}");
    for path in ["examples/garbage-collector", "overlays/monitored"] {
        let other = in_namespace(path, "two");
        // A controller that is installed twice is a mistake, and the later installation takes the rights.
        let shared: BTreeSet<&str> = collector.intersection(&other).map(|(_, name)| name.as_str()).collect();
        // Only one installation lists `components/debug`.
        assert_eq!(shared, BTreeSet::from(["nonet:debug-reader", "nonet:gc-controller"]), "{path}");
    }
}

#[test]
fn a_namespace_is_made_by_itself_and_keeps_the_standard_that_pods_keep() {
    needs_kubectl!();
    let made = kustomize::build("namespace");
    let namespace = find(&made, "Namespace", &"nonet".into());
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    // A quota permits the priority of all Pods there.
    let quota = find(&made, "ResourceQuota", &"nonet-priority".into());
    assert_eq!((&quota["metadata"]["namespace"], made.len()), (&json!("nonet"), 2));
    let permitted = strings(&quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"]);
    for path in ["examples/garbage-collector", "examples/garbage-collector/rescue", "overlays/shadow"] {
        for (name, pod) in pods(&kustomize::build(path)) {
            assert!(permitted.contains(&pod["priorityClassName"].as_str().unwrap()), "{path}: {name}");
        }
    }
    // Whatever deletes an overlay or releases its Leases leaves the namespace alone.
    for path in expectations().into_keys().chain(OTHERS).filter(|path| *path != "namespace") {
        assert!(of_kind(&kustomize::build(path), "Namespace").is_empty(), "{path}");
    }
}

#[test]
fn an_alert_for_absence_is_there_exactly_for_controllers_that_are_scraped() {
    needs_kubectl!();
    for (path, expected) in expectations() {
        let objects = kustomize::build(path);
        let rules = of_kind(&objects, "PrometheusRule").into_iter();
        let alerts: BTreeSet<String> = rules.filter_map(controller).map(str::to_owned).collect();
        let scraped = if of_kind(&objects, "PodMonitor").is_empty() { BTreeSet::new() } else { expected.controllers };
        assert_eq!(alerts, scraped, "{path}");
    }
}

#[test]
fn prometheus_keeps_its_own_token() {
    needs_kubectl!();
    // For an agent on each node that scrapes static Pods, as docs/operating.md has it.
    let absent = names().into_iter().map(|name| format!("../../controllers/{name}/absence"));
    let resources: Vec<String> = absent.chain(["../static-pods".to_owned()]).collect();
    let static_pods =
        json!({"namespace": "kube-system", "resources": resources, "components": ["../../components/monitoring"]});
    for objects in [kustomize::build("overlays/monitored"), kustomize::render("overlays/default", &static_pods)] {
        let [monitor] = of_kind(&objects, "PodMonitor")[..] else { panic!("one PodMonitor") };
        // endpointslice-controller writes the targets of a ServiceMonitor, and would be scraped by what it writes.
        assert!(of_kind(&objects, "ServiceMonitor").is_empty() && of_kind(&objects, "Service").is_empty());
        for endpoint in monitor["spec"]["podMetricsEndpoints"].as_array().unwrap() {
            assert!(endpoint["bearerTokenFile"].is_null(), "{endpoint}");
            let secret = find(&objects, "Secret", &endpoint["authorization"]["credentials"]["name"]);
            assert_eq!(secret["type"], "kubernetes.io/service-account-token");
            let account = &secret["metadata"]["annotations"]["kubernetes.io/service-account.name"];
            find(&objects, "ServiceAccount", account);
            let rules = only_role(&objects, account);
            assert_eq!(*rules, json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]));
        }
    }
}

#[test]
fn readers_of_diagnostics_change_nothing_and_read_no_profiles_of_other_components() {
    needs_kubectl!();
    let server = read("common/service/src/server.rs");
    let with_debug = ["overlays/default", "overlays/single", "overlays/static-pods"].into_iter();
    for path in with_debug.chain(["examples/batch", "examples/garbage-collector", "examples/workloads"]) {
        let objects = kustomize::build(path);
        let account = json!("nonet-debug-reader");
        // Tokens are made on demand; no Pod has one.
        assert_eq!(find(&objects, "ServiceAccount", &account)["automountServiceAccountToken"], false, "{path}");
        let rules = only_role(&objects, &account);
        let paths = strings(&rules[0]["nonResourceURLs"]);
        assert_eq!(*rules, json!([{"nonResourceURLs": paths, "verbs": ["get"]}]), "{path}");
        // A wildcard would grant /debug/pprof of kube-apiserver and other components.
        for granted in paths {
            assert!(server.contains(&format!(".route(\"{granted}\", ")), "{path}: {granted} is not served");
        }
        for of_debug in ["explain", "queue", "cache", "graph"].map(|page| format!("/debug/{page}")) {
            assert!(rules.to_string().contains(&of_debug), "{path}: {of_debug}");
        }
    }
}
