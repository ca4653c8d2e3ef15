//! The workload `namespaces`: namespaces with content of many kinds and aggregated ClusterRoles, from creation to deletion.

use anyhow::Result;
use common::object::Resource;
use serde_json::{Value, json};

use super::{IDLE, REST, numbered, pass, settle_and_rest};
use crate::{
    bench::{
        objects::Objects,
        observer::State,
        stage::{Request, Stage},
    },
    suite::{PatchKind, prelude::custom_resource_definition, resources},
};

/// The kinds that show the work of the controllers.
pub(super) const OBSERVED_KINDS: &[Resource] =
    &[resources::NAMESPACES, resources::SERVICE_ACCOUNTS, resources::CONFIG_MAPS, resources::CLUSTER_ROLES];

const WIDGETS: Resource = Resource::namespaced("bench.nonet.io", "v1", "widgets", "Widget");

/// The label by which aggregated ClusterRoles select others; its value is the number of the aggregated role.
const SELECTED: &str = "bench.nonet.io/aggregate-to";
/// The number of ClusterRoles that an aggregated role selects at first, and after a change of labels.
const SOURCES: usize = 6;
const SOURCES_LEFT: usize = 3;
/// One namespace of this number has Pods, and one has objects with a finalizer.
const WITH_PODS: usize = 4;
const HELD: usize = 10;
/// The names of the objects that each namespace has.
const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

pub(super) async fn run(stage: &mut Stage<'_>) -> Result<()> {
    let (objects, scale) = (Objects::read()?, stage.pods());
    let count = scale as usize;
    let roles = count.div_ceil(20);
    stage.send([Request::Create(resources::DEFINITIONS, custom_resource_definition(&WIDGETS))]).await?;
    stage.measure_idle_memory().await;
    pass(stage, "idle", IDLE).await?;

    stage.begin("create").await?;
    stage.add_namespaces(scale).await?;
    let prefix = stage.namespaces()[0].clone();
    stage.send(cluster_roles(&prefix, roles)).await?;
    stage.send_to((0..count).flat_map(|n| content(&objects, n))).await?;
    stage.until("every namespace has its objects", kept(count, count, roles * SOURCES)).await?;
    stage.reached("every namespace has its objects");
    stage.finish(1).await?;
    settle_and_rest(stage).await?;

    stage.begin("change").await?;
    let quarter = |of: usize| (0..count).filter(|n| n % 4 == of).count();
    stage.send_to((0..count).map(|n| (n, change(n)))).await?;
    stage.send(unselected(&prefix, roles)).await?;
    let (accounts, config_maps) = (count + quarter(0), count + quarter(1) + quarter(2));
    stage.until("all changes are repaired", kept(accounts, config_maps, roles * SOURCES_LEFT)).await?;
    stage.reached("all changes are repaired");
    stage.finish(1).await?;

    stage.begin("delete").await?;
    let namespaces = stage.namespaces().iter().cloned();
    let deletions: Vec<Request> = namespaces.map(|name| Request::Delete(resources::NAMESPACES, name)).collect();
    stage.send(deletions).await?;
    let held = || (0..count).step_by(HELD);
    stage.until("only held namespaces are left", |state| state.count(&resources::NAMESPACES) == held().len()).await?;
    stage.reached("only held namespaces are left");
    let release = json!({"metadata": {"finalizers": null}});
    let release = || Request::Patch(resources::CONFIG_MAPS, "held".to_owned(), PatchKind::Merge, release.clone());
    stage.send_to(held().map(|n| (n, release()))).await?;
    stage.until("all namespaces are gone", |state| state.count(&resources::NAMESPACES) == 0).await?;
    stage.reached("all namespaces are gone");
    stage.finish(1).await?;
    pass(stage, "rest afterwards", REST).await?;

    let delete = |name| Request::Delete(resources::CLUSTER_ROLES, name);
    stage.send(selected_names(&prefix, roles).chain(aggregated_names(&prefix, roles)).map(delete)).await?;
    stage.send([Request::Delete(resources::DEFINITIONS, WIDGETS.to_string())]).await
}

/// Whether accounts and ConfigMaps were created or repaired so many times, and aggregated ClusterRoles have so many rules.
fn kept(accounts: usize, config_maps: usize, rules: usize) -> impl Fn(&State) -> bool {
    move |state| {
        let kept = [resources::SERVICE_ACCOUNTS, resources::CONFIG_MAPS].map(|resource| state.kept(&resource));
        kept == [accounts, config_maps] && state.total(&resources::CLUSTER_ROLES) == rules as i64
    }
}

/// The content of the namespace with this number.
fn content(objects: &Objects, number: usize) -> impl Iterator<Item = (usize, Request)> {
    let create = |resource: Resource, template: &str, prefix: &str, count: usize| {
        let object = |name: String| Request::Create(resource.clone(), objects.object(template, &name, 2));
        numbered(prefix, count).map(object).collect::<Vec<_>>()
    };
    let every = |period: usize, count: usize| if number.is_multiple_of(period) { count } else { 0 };
    let widget = json!({"apiVersion": WIDGETS.api_version(), "kind": WIDGETS.kind(), "metadata": {"name": "widget"}});
    let held = Request::Create(resources::CONFIG_MAPS, objects.object("HeldConfigMap", "held", 0));
    let requests = [
        create(resources::CONFIG_MAPS, "ConfigMap", "config", 5),
        create(resources::SECRETS, "Secret", "secret", 2),
        create(resources::SERVICES, "Service", "web", 2),
        create(resources::DEPLOYMENTS, "Deployment", "web", 1),
        create(resources::PODS, "Pod", "web", every(WITH_PODS, 2)),
        vec![Request::Create(WIDGETS, widget)],
        vec![held; every(HELD, 1)],
    ];
    requests.into_iter().flatten().map(move |request| (number, request))
}

/// The change of an object that the namespace with this number has.
fn change(number: usize) -> Request {
    let patch = |resource, name: &str, patch| Request::Patch(resource, name.to_owned(), PatchKind::Merge, patch);
    match number % 4 {
        0 => Request::Delete(resources::SERVICE_ACCOUNTS, ACCOUNT.to_owned()),
        1 => Request::Delete(resources::CONFIG_MAPS, ROOT_CA.to_owned()),
        2 => patch(resources::CONFIG_MAPS, ROOT_CA, json!({"data": {"extra": ""}})),
        _ => patch(resources::SERVICE_ACCOUNTS, ACCOUNT, json!({"imagePullSecrets": [{"name": "registry"}]})),
    }
}

fn selected_names(prefix: &str, roles: usize) -> impl Iterator<Item = String> {
    (0..roles * SOURCES).map(move |n| format!("{prefix}-selected-{n}"))
}

fn aggregated_names(prefix: &str, roles: usize) -> impl Iterator<Item = String> {
    (0..roles).map(move |n| format!("{prefix}-aggregated-{n}"))
}

/// Aggregated ClusterRoles, and those that they select.
fn cluster_roles(prefix: &str, roles: usize) -> Vec<Request> {
    let create = |name: String, labels: Value, rules: Value, aggregation_rule: Value| {
        let mut object = json!({"apiVersion": resources::CLUSTER_ROLES.api_version(), "kind": "ClusterRole"});
        object["metadata"] = json!({"name": name, "labels": labels});
        (object["rules"], object["aggregationRule"]) = (rules, aggregation_rule);
        Request::Create(resources::CLUSTER_ROLES, object)
    };
    let aggregated = aggregated_names(prefix, roles).enumerate().map(|(n, name)| {
        let selector = json!({"matchLabels": {SELECTED: n.to_string()}});
        create(name, json!({}), json!([]), json!({"clusterRoleSelectors": [selector]}))
    });
    let selected = selected_names(prefix, roles).enumerate().map(|(n, name)| {
        let rule = json!({"apiGroups": ["bench.nonet.io"], "resources": [format!("kind-{n}")], "verbs": ["get"]});
        create(name, json!({SELECTED: (n % roles).to_string()}), json!([rule]), Value::Null)
    });
    aggregated.chain(selected).collect()
}

/// Takes their label from ClusterRoles, so that [`SOURCES_LEFT`] are left for each aggregated role.
fn unselected(prefix: &str, roles: usize) -> impl Iterator<Item = Request> {
    let patch = json!({"metadata": {"labels": {SELECTED: null}}});
    let request = move |name| Request::Patch(resources::CLUSTER_ROLES, name, PatchKind::Merge, patch.clone());
    selected_names(prefix, roles).skip(roles * SOURCES_LEFT).map(request)
}
