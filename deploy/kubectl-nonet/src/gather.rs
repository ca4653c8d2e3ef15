//! Reads the facts of a cluster. Every request but access reviews is a GET.

mod read;
mod reviews;

use std::{collections::BTreeSet, time::Duration};

use common::clock::Clock;
use futures::{StreamExt as _, future::join_all, stream};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Node, Pod},
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};

use crate::{
    check,
    connection::Connection,
    controllers::{self, KUBE_SYSTEM, SELECTOR},
    facts::{Before, BuiltInFacts, Facts, LeaseReading, NamedLease, Read, Roles, Stated, Times, Unreadable},
};
use read::{Place, Reader};

/// The pause between two readings of a Lease: a little more than leaders leave between two renewals.
const PAUSE: Duration = Duration::from_millis(2_600);
/// Labels of kube-controller-manager's Pods: kubeadm's, then those of kOps and Talos.
const MANAGER_SELECTORS: [&str; 2] = ["component=kube-controller-manager", "k8s-app=kube-controller-manager"];
const MANAGER_LEASE: &str = "kube-controller-manager";
/// Requests that are open at once.
const AT_ONCE: usize = 8;

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The namespace of Nonet; searched for if none.
    pub namespace: Option<String>,
    /// What the caller says about kube-controller-manager.
    pub stated: Option<Stated>,
}

/// Reads the facts of a cluster.
///
/// # Errors
/// If the API server does not answer at all.
pub async fn gather(connection: &Connection, clock: &Clock, request: Request) -> Result<Facts, Unreadable> {
    let reader = Reader::new(connection);
    let (server_version, clocks) = version(&reader, clock).await?;
    let ahead = clocks.as_ref().map_or(SignedDuration::ZERO, |clocks| clocks.server.duration_since(clocks.local));
    let now = || clock.now().checked_add(ahead).unwrap_or_else(|_| clock.now());

    let place = request.namespace.as_deref().map_or(Place::Everywhere, Place::In);
    let (mut deployments, mut pods) =
        tokio::join!(reader.list::<Deployment>(place, SELECTOR, ""), reader.list::<Pod>(place, SELECTOR, ""));
    let mut search = Ok(());
    if let (None, Some(why)) = (&request.namespace, deployments.as_ref().err().or(pods.as_ref().err()).cloned()) {
        search = Err(why);
        let usual = Place::In(KUBE_SYSTEM);
        (deployments, pods) = tokio::join!(reader.list(usual, SELECTOR, ""), reader.list(usual, SELECTOR, ""));
    }
    let namespaces = namespaces(request.namespace.as_deref(), &deployments, &pods);

    let (leases, manager, second_writers) = tokio::join!(
        leases(&reader, &namespaces, &now),
        manager(&reader, request.stated, &now),
        events(&reader, &namespaces)
    );
    let (mut leases, mut manager) = (leases, manager);
    read_again(&reader, clock, &mut leases, &mut manager, &now).await;
    let (budgets, roles, reviews, serving_certificate) = tokio::join!(
        in_all::<PodDisruptionBudget>(&reader, &namespaces, SELECTOR, ""),
        roles(&reader, &namespaces),
        reviews::ask(&reader, installed(&deployments, &pods)),
        connection.serving_certificate()
    );
    Ok(Facts {
        namespaces,
        search,
        clocks,
        server_version,
        deployments,
        pods,
        budgets,
        leases,
        manager,
        second_writers,
        roles,
        reviews,
        client_certificate: connection.client_certificate(),
        serving_certificate,
    })
}

/// Reads the version and the time of the API server. A server that refuses the version is a server.
async fn version(reader: &Reader<'_>, clock: &Clock) -> Result<(Read<String>, Read<Times>), Unreadable> {
    let before = clock.now();
    let (version, date) = reader.version().await?;
    let local = before.checked_add(clock.now().duration_since(before) / 2).unwrap_or(before);
    let server = date.as_deref().and_then(|date| rfc2822::parse(date).ok()).map(|zoned| zoned.timestamp());
    let clocks = server.map(|server| Times { local, server }).ok_or_else(|| Unreadable::Failed {
        request: "GET /version".to_owned(),
        why: "the answer has no header Date".to_owned(),
    });
    Ok((version, clocks))
}

fn namespaces(given: Option<&str>, deployments: &Read<Vec<Deployment>>, pods: &Read<Vec<Pod>>) -> Vec<String> {
    let found = deployments.iter().flatten().map(|d| &d.metadata).chain(pods.iter().flatten().map(|pod| &pod.metadata));
    let mut all: BTreeSet<String> = found.filter_map(|metadata| metadata.namespace.clone()).collect();
    if all.is_empty() {
        all.insert(given.unwrap_or(KUBE_SYSTEM).to_owned());
    }
    all.into_iter().collect()
}

/// Controllers that are installed, with their namespaces.
fn installed(deployments: &Read<Vec<Deployment>>, pods: &Read<Vec<Pod>>) -> BTreeSet<(&'static str, String)> {
    let found = deployments.iter().flatten().map(|d| &d.metadata).chain(pods.iter().flatten().map(|pod| &pod.metadata));
    let controller = |metadata: &kube::core::ObjectMeta| -> Option<(&'static str, String)> {
        let labels = metadata.labels.as_ref()?;
        if labels.get(controllers::COMPONENT).is_some_and(|component| component == "shadow") {
            return None;
        }
        let name = labels.get(controllers::NAME)?;
        let controller = controllers::ALL.iter().find(|controller| controller.name == name)?;
        Some((controller.name, metadata.namespace.clone()?))
    };
    found.filter_map(controller).collect()
}

/// Reads the Lease of every controller in every namespace.
async fn leases(reader: &Reader<'_>, namespaces: &[String], now: &impl Fn() -> Timestamp) -> Vec<NamedLease> {
    let all = namespaces.iter().flat_map(|namespace| controllers::ALL.iter().map(move |c| (c.name, namespace)));
    let read = all.map(|(name, namespace)| async move {
        NamedLease { name, namespace: namespace.clone(), reading: lease(reader, namespace, name, now).await }
    });
    stream::iter(read.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await
}

async fn lease(
    reader: &Reader<'_>,
    namespace: &str,
    name: &str,
    now: &impl Fn() -> Timestamp,
) -> Read<Option<LeaseReading>> {
    let lease = reader.get::<Lease>(Place::In(namespace), name).await?;
    Ok(lease.map(|lease| LeaseReading { lease, at: now(), before: None }))
}

/// Reads those Leases again that leave a doubt, after one pause for all.
async fn read_again(
    reader: &Reader<'_>,
    clock: &Clock,
    leases: &mut [NamedLease],
    manager: &mut BuiltInFacts,
    now: &impl Fn() -> Timestamp,
) {
    fn doubtful(reading: &mut Read<Option<LeaseReading>>) -> Option<&mut LeaseReading> {
        let reading = reading.as_mut().ok()?.as_mut()?;
        check::needs_second_reading(&reading.lease, reading.at).then_some(reading)
    }
    let mut again: Vec<(String, &'static str, &mut LeaseReading)> = Vec::new();
    for lease in leases {
        again.extend(doubtful(&mut lease.reading).map(|reading| (lease.namespace.clone(), lease.name, reading)));
    }
    again.extend(doubtful(&mut manager.lease).map(|reading| (KUBE_SYSTEM.to_owned(), MANAGER_LEASE, reading)));
    if again.is_empty() {
        return;
    }
    clock.sleep(PAUSE).await;
    join_all(again.into_iter().map(|(namespace, name, reading)| async move {
        // A second reading that fails leaves the first.
        if let Ok(Some(mut second)) = lease(reader, &namespace, name, now).await {
            let renewed = reading.lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
            second.before = Some(Before { renewed, at: reading.at });
            *reading = second;
        }
    }))
    .await;
}

async fn manager(reader: &Reader<'_>, stated: Option<Stated>, now: &impl Fn() -> Timestamp) -> BuiltInFacts {
    let system = Place::In(KUBE_SYSTEM);
    let pods = async {
        let [first, second] = MANAGER_SELECTORS;
        let pods = reader.list::<Pod>(system, first, "").await?;
        if pods.is_empty() { reader.list(system, second, "").await } else { Ok(pods) }
    };
    let (lease, pods, nodes, kubeadm) = tokio::join!(
        lease(reader, KUBE_SYSTEM, MANAGER_LEASE, now),
        pods,
        reader.list::<Node>(Place::Cluster, "node-role.kubernetes.io/control-plane", ""),
        reader.get::<ConfigMap>(system, "kubeadm-config")
    );
    BuiltInFacts { lease, pods, nodes, kubeadm, stated }
}

async fn events(reader: &Reader<'_>, namespaces: &[String]) -> Read<Vec<Event>> {
    in_all::<Event>(reader, namespaces, "", "involvedObject.kind=Lease").await
}

async fn roles(reader: &Reader<'_>, namespaces: &[String]) -> Roles {
    let (cluster_roles, cluster_bindings, roles, bindings) = tokio::join!(
        reader.list::<ClusterRole>(Place::Cluster, SELECTOR, ""),
        reader.list::<ClusterRoleBinding>(Place::Cluster, SELECTOR, ""),
        in_all::<Role>(reader, namespaces, SELECTOR, ""),
        in_all::<RoleBinding>(reader, namespaces, SELECTOR, "")
    );
    let named = |role: ClusterRole| role.metadata.name;
    let placed = |role: Role| Some((role.metadata.namespace?, role.metadata.name?));
    Roles {
        cluster_roles: cluster_roles.map(|all| all.into_iter().filter_map(named).collect()),
        cluster_bindings,
        roles: roles.map(|all| all.into_iter().filter_map(placed).collect()),
        bindings,
    }
}

/// Lists objects in some namespaces.
async fn in_all<K: read::Readable>(
    reader: &Reader<'_>,
    namespaces: &[String],
    labels: &str,
    fields: &str,
) -> Read<Vec<K>> {
    let lists =
        join_all(namespaces.iter().map(|namespace| reader.list::<K>(Place::In(namespace), labels, fields))).await;
    lists.into_iter().collect::<Read<Vec<Vec<K>>>>().map(|lists| lists.into_iter().flatten().collect())
}
