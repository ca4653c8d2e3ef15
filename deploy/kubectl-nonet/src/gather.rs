//! Reads the facts about a cluster. All of its requests are GETs, except access reviews.

pub(crate) mod read;
mod reviews;

use std::collections::{BTreeMap, BTreeSet};

use common::clock::Clock;
use futures::{StreamExt as _, future::join_all, stream};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Node, Pod},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    check,
    connection::Connection,
    controllers::{self, COMPONENT_LABEL, CONTROLLER_NAME_LABEL, KUBE_SYSTEM_NAMESPACE, NONET_LABEL_SELECTOR},
    facts::{
        FactError, FactResult, Facts, FirstReading, KubeControllerManagerFacts, LeaseReading, MANAGER_LEASE,
        ManagerStatement, NamedLease, RolesAndBindings, TimeReadings,
    },
    remaining_loops::{self, ServedKind},
};

/// Label selectors of the Pods of kube-controller-manager: the first on kubeadm, the second on kOps and Talos.
const MANAGER_SELECTORS: [&str; 2] = ["component=kube-controller-manager", "k8s-app=kube-controller-manager"];
/// Maximum number of concurrent requests for Leases, and of concurrent access reviews.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Input of [`gather_facts`] from the command line.
#[derive(Clone, Debug, Default)]
pub struct GatherOptions {
    /// Namespace of Nonet; `None` searches all namespaces.
    pub namespace: Option<String>,
    /// Whether all namespaces are searched although `namespace` is stated.
    pub all_namespaces: bool,
    /// What the caller says about kube-controller-manager; `None` without a flag.
    pub stated_manager: Option<ManagerStatement>,
}

/// Reads all facts. A fact that cannot be read is an `Err` inside [`Facts`].
///
/// # Errors
/// If the API server does not answer, or does not accept the credentials.
pub async fn gather_facts(connection: &Connection, clock: &Clock, request: GatherOptions) -> Result<Facts, FactError> {
    let (server_version, clocks) = read_version_and_time(connection, clock).await?;
    let ahead =
        clocks.as_ref().map_or(SignedDuration::ZERO, |clocks| clocks.server_time.duration_since(clocks.local_time));
    let now = || clock.now().checked_add(ahead).unwrap_or_else(|_| clock.now());

    let stated = request.namespace.as_deref();
    let given = stated.filter(|_| !request.all_namespaces);
    let (mut deployments, mut pods) = tokio::join!(
        connection.list_objects::<Deployment>(given, NONET_LABEL_SELECTOR, ""),
        connection.list_objects::<Pod>(given, NONET_LABEL_SELECTOR, "")
    );
    let mut search = Ok(());
    if let (None, Some(why)) = (given, deployments.as_ref().err().or(pods.as_ref().err()).cloned()) {
        search = Err(why);
        let usual = stated.or(Some(KUBE_SYSTEM_NAMESPACE));
        (deployments, pods) = tokio::join!(
            connection.list_objects(usual, NONET_LABEL_SELECTOR, ""),
            connection.list_objects(usual, NONET_LABEL_SELECTOR, "")
        );
    }
    let of_deployments = deployments.iter().flatten().map(|deployment| &deployment.metadata);
    let found: Vec<&ObjectMeta> = of_deployments.chain(pods.iter().flatten().map(|pod| &pod.metadata)).collect();
    let mut namespaces: BTreeSet<&str> = found.iter().filter_map(|metadata| metadata.namespace.as_deref()).collect();
    namespaces.extend(stated);
    if namespaces.is_empty() {
        namespaces.insert(KUBE_SYSTEM_NAMESPACE);
    }
    let namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();

    let (mut leases, mut manager, second_writers) = tokio::join!(
        leases(connection, &namespaces, &now),
        manager(connection, request.stated_manager, &now),
        list_in_namespaces::<Event>(connection, &namespaces, "", "involvedObject.kind=Lease")
    );
    read_doubtful_leases_again(connection, clock, &mut leases, &mut manager, &now).await;
    let (budgets, roles, reviews, serving_certificate) = tokio::join!(
        list_in_namespaces::<PodDisruptionBudget>(connection, &namespaces, NONET_LABEL_SELECTOR, ""),
        roles(connection, &namespaces),
        reviews::review_installed_controllers(connection, installed(&found)),
        connection.serving_certificate()
    );
    Ok(Facts {
        namespaces,
        stated_namespace: request.namespace,
        cluster_wide_search: search,
        clocks,
        server_version,
        deployments,
        pods,
        disruption_budgets: budgets,
        leases,
        kube_controller_manager: manager,
        lease_events: second_writers,
        roles_and_bindings: roles,
        access_reviews: reviews,
        client_certificate: connection.client_certificate(),
        serving_certificate,
    })
}

/// Reads version and time of the API server. Fails without an answer. If the server refuses, only the version is an `Err`.
async fn read_version_and_time(
    connection: &Connection,
    clock: &Clock,
) -> Result<(FactResult<String>, FactResult<TimeReadings>), FactError> {
    let before = clock.now();
    let (version, date) = connection.server_version_and_date().await?;
    let local = before.checked_add(clock.now().duration_since(before) / 2).unwrap_or(before);
    let server = date.as_deref().and_then(|date| rfc2822::parse(date).ok()).map(|zoned| zoned.timestamp());
    let clocks = server.map(|server| TimeReadings { local_time: local, server_time: server }).ok_or_else(|| {
        FactError::RequestFailed { request: "GET /version".to_owned(), why: "the answer has no header Date".to_owned() }
    });
    Ok((version, clocks))
}

/// Returns name and namespace of each installed controller. Deployments in shadow mode, which write nothing, do not count.
fn installed<'a>(found: &[&'a ObjectMeta]) -> BTreeSet<(&'a str, &'a str)> {
    let controller = |metadata: &&'a ObjectMeta| {
        let labels = metadata.labels.as_ref()?;
        let is_shadow = labels.get(COMPONENT_LABEL).is_some_and(|component| component == "shadow");
        let name = labels.get(CONTROLLER_NAME_LABEL).filter(|_| !is_shadow)?;
        Some((name.as_str(), metadata.namespace.as_deref()?))
    };
    found.iter().filter_map(controller).collect()
}

/// Reads the Lease of every controller in every namespace.
async fn leases(connection: &Connection, namespaces: &[String], now: &impl Fn() -> Timestamp) -> Vec<NamedLease> {
    let all = namespaces.iter().flat_map(|namespace| controllers::ALL.iter().map(move |c| (c.name, namespace)));
    let read = all.map(|(name, namespace)| async move {
        NamedLease { name, namespace: namespace.clone(), reading: lease(connection, namespace, name, now).await }
    });
    stream::iter(read.collect::<Vec<_>>()).buffered(MAX_CONCURRENT_REQUESTS).collect().await
}

async fn lease(
    connection: &Connection,
    namespace: &str,
    name: &str,
    now: &impl Fn() -> Timestamp,
) -> FactResult<Option<LeaseReading>> {
    let lease = connection.get_object::<Lease>(Some(namespace), name).await?;
    Ok(lease.map(|lease| LeaseReading { lease, read_at: now(), first_reading: None }))
}

/// Reads the Leases that need a second reading once more, after one pause for all of them.
async fn read_doubtful_leases_again(
    connection: &Connection,
    clock: &Clock,
    leases: &mut [NamedLease],
    manager: &mut KubeControllerManagerFacts,
    now: &impl Fn() -> Timestamp,
) {
    fn doubtful(reading: &mut FactResult<Option<LeaseReading>>) -> Option<&mut LeaseReading> {
        let reading = reading.as_mut().ok()?.as_mut()?;
        check::needs_second_reading(reading).then_some(reading)
    }
    let mut again: Vec<(String, &'static str, &mut LeaseReading)> = Vec::new();
    for lease in leases {
        again.extend(doubtful(&mut lease.reading).map(|reading| (lease.namespace.clone(), lease.name, reading)));
    }
    again
        .extend(doubtful(&mut manager.lease).map(|reading| (KUBE_SYSTEM_NAMESPACE.to_owned(), MANAGER_LEASE, reading)));
    let Some(pause) = again.iter().map(|(_, _, reading)| check::pause_before_second_reading(reading)).max() else {
        return;
    };
    clock.sleep(pause).await;
    join_all(again.into_iter().map(|(namespace, name, reading)| async move {
        // If the second read fails, the result of the first read is kept.
        if let Ok(Some(mut second)) = lease(connection, &namespace, name, now).await {
            second.first_reading = Some(FirstReading { renew_time: reading.renew_time(), read_at: reading.read_at });
            *reading = second;
        }
    }))
    .await;
}

async fn manager(
    connection: &Connection,
    stated: Option<ManagerStatement>,
    now: &impl Fn() -> Timestamp,
) -> KubeControllerManagerFacts {
    let system = Some(KUBE_SYSTEM_NAMESPACE);
    let pods = async {
        let [first, second] = MANAGER_SELECTORS;
        let pods = connection.list_objects::<Pod>(system, first, "").await?;
        if pods.is_empty() { connection.list_objects(system, second, "").await } else { Ok(pods) }
    };
    let has_objects = async {
        if stated != Some(ManagerStatement::Absent) {
            return BTreeMap::new();
        }
        let kinds = remaining_loops::ALL.iter().filter(|each| each.start.is_usual()).flat_map(|each| each.kinds);
        let kinds: BTreeMap<&str, &ServedKind> = kinds.map(|kind| (kind.path, kind)).collect();
        let read = kinds.into_iter().map(|(path, kind)| async move { (path, connection.has_objects(kind).await) });
        stream::iter(read.collect::<Vec<_>>()).buffered(MAX_CONCURRENT_REQUESTS).collect().await
    };
    let (lease, pods, nodes, kubeadm, has_objects) = tokio::join!(
        lease(connection, KUBE_SYSTEM_NAMESPACE, MANAGER_LEASE, now),
        pods,
        connection.list_objects::<Node>(None, "node-role.kubernetes.io/control-plane", ""),
        connection.get_object::<ConfigMap>(system, "kubeadm-config"),
        has_objects
    );
    KubeControllerManagerFacts { lease, pods, control_plane_nodes: nodes, kubeadm_config: kubeadm, stated, has_objects }
}

async fn roles(connection: &Connection, namespaces: &[String]) -> RolesAndBindings {
    let (cluster_roles, cluster_bindings, roles, bindings) = tokio::join!(
        connection.list_objects::<ClusterRole>(None, NONET_LABEL_SELECTOR, ""),
        connection.list_objects::<ClusterRoleBinding>(None, NONET_LABEL_SELECTOR, ""),
        list_in_namespaces::<Role>(connection, namespaces, NONET_LABEL_SELECTOR, ""),
        list_in_namespaces::<RoleBinding>(connection, namespaces, NONET_LABEL_SELECTOR, "")
    );
    let named = |role: ClusterRole| role.metadata.name;
    let placed = |role: Role| Some((role.metadata.namespace?, role.metadata.name?));
    RolesAndBindings {
        cluster_role_names: cluster_roles.map(|all| all.into_iter().filter_map(named).collect()),
        cluster_role_bindings: cluster_bindings,
        role_names: roles.map(|all| all.into_iter().filter_map(placed).collect()),
        role_bindings: bindings,
    }
}

/// Lists the objects of a kind in each of `namespaces`. If one of the lists fails, the result is the error of that list.
async fn list_in_namespaces<K: read::ListableKind>(
    connection: &Connection,
    namespaces: &[String],
    labels: &str,
    fields: &str,
) -> FactResult<Vec<K>> {
    let lists =
        join_all(namespaces.iter().map(|namespace| connection.list_objects::<K>(Some(namespace), labels, fields)))
            .await;
    lists.into_iter().collect::<FactResult<Vec<Vec<K>>>>().map(|lists| lists.into_iter().flatten().collect())
}
