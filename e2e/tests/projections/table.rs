//! The table of all projections, which each controller enters once: the objects that it reads, and the guards of its caches.

use std::fmt::Debug;

use common::object::Object;
use k8s_openapi::{
    Resource,
    api::{
        apps::v1 as apps, batch::v1 as batch, certificates::v1beta1 as certificates, coordination::v1 as coordination,
        core::v1 as core, discovery::v1 as discovery, policy::v1 as policy, rbac::v1 as rbac, resource::v1 as resource,
        scheduling::v1alpha2 as scheduling, storage::v1 as storage,
    },
};
use sandbox::declared::{Scope, undeclared};
use serde::de::DeserializeOwned;

/// What a test does with each projection.
pub(crate) trait Visitor {
    /// Visits a projection.
    fn visit<P: Object + Debug>(&mut self, row: Row);
}

/// What the tests need to know of a projection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Whether the projection is read from protobuf, too.
    pub(crate) is_protobuf: bool,
    /// The guards of the cache.
    pub(crate) guards: Option<Guards>,
    /// Returns what the projection reads and its type in the API does not declare.
    pub(crate) undeclared: fn() -> Vec<String>,
}

/// What the guards of a cache measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guards {
    /// The controller in the paths of the guards.
    pub(crate) controller: &'static str,
    /// The kind of the controlling owner of a cached object; empty if all objects are cached.
    pub(crate) owner: &'static str,
    /// The kind of the owner of an object that does not concern the controller.
    pub(crate) foreign_owner: Option<&'static str>,
    /// The label by which the API server filters.
    pub(crate) label: Option<&'static str>,
}

/// A projection that is read from JSON only.
const JSON: Row = Row { is_protobuf: false, guards: None, undeclared: Vec::new };
/// A projection that is read from both formats.
const PROTOBUF: Row = Row { is_protobuf: true, guards: None, undeclared: Vec::new };

impl Row {
    /// Guards the cache, with an object that has an owner of this kind.
    const fn guarded(self, controller: &'static str, owner: &'static str) -> Self {
        Self { guards: Some(Guards { controller, owner, foreign_owner: None, label: None }), ..self }
    }

    /// Guards the events of an object with an owner of another kind, too.
    const fn foreign(self, foreign_owner: &'static str) -> Self {
        let Some(guards) = self.guards else { return self };
        Self { guards: Some(Guards { foreign_owner: Some(foreign_owner), ..guards }), ..self }
    }

    /// Guards the cache behind a filter by this label.
    const fn filtered(self, label: &'static str) -> Self {
        let Some(guards) = self.guards else { return self };
        Self { guards: Some(Guards { label: Some(label), ..guards }), ..self }
    }
}

/// Visits the projection `P` of the API's type `T`.
fn add<P: Object + Debug, T: Resource + DeserializeOwned>(visitor: &mut impl Visitor, row: Row)
where
    T::Scope: Scope,
{
    visitor.visit::<P>(Row { undeclared: undeclared::<P, T>, ..row });
}

/// Visits every projection.
pub(crate) fn visit(visitor: &mut impl Visitor) {
    add::<common::pods::Pod, core::Pod>(visitor, JSON);
    add::<common::revision::ControllerRevision, apps::ControllerRevision>(visitor, JSON);
    add::<clusterrole_controller::objects::ClusterRole, rbac::ClusterRole>(visitor, JSON);
    {
        use cronjob_controller::objects::{CronJob, Job};
        add::<CronJob, batch::CronJob>(visitor, JSON);
        add::<Job, batch::Job>(visitor, PROTOBUF.guarded("cronjob", "CronJob").foreign("Workflow"));
    }
    {
        use daemonset_controller::objects::{CachedPod, ControllerRevision, DaemonSet, Node};
        let pod =
            PROTOBUF.guarded("daemonset", "DaemonSet").foreign("StatefulSet").filtered("controller-revision-hash");
        add::<CachedPod, core::Pod>(visitor, pod);
        let revision = PROTOBUF.guarded("daemonset", "DaemonSet").foreign("StatefulSet");
        add::<ControllerRevision, apps::ControllerRevision>(visitor, revision);
        add::<DaemonSet, apps::DaemonSet>(visitor, PROTOBUF);
        add::<Node, core::Node>(visitor, PROTOBUF.guarded("daemonset", ""));
    }
    {
        use deployment_controller::objects::{Deployment, Pod, ReplicaSet};
        add::<Deployment, apps::Deployment>(visitor, PROTOBUF);
        add::<Pod, core::Pod>(visitor, PROTOBUF.guarded("deployment", "ReplicaSet").foreign("StatefulSet"));
        add::<ReplicaSet, apps::ReplicaSet>(visitor, PROTOBUF);
    }
    {
        use endpointslice_controller::objects::{Endpoints, Node, Pod, Service, Slice};
        add::<Endpoints, core::Endpoints>(visitor, PROTOBUF);
        add::<Node, core::Node>(visitor, PROTOBUF.guarded("endpointslice", ""));
        add::<Pod, core::Pod>(visitor, PROTOBUF.guarded("endpointslice", "ReplicaSet"));
        add::<Service, core::Service>(visitor, PROTOBUF);
        add::<Slice, discovery::EndpointSlice>(visitor, PROTOBUF.guarded("endpointslice", ""));
    }
    {
        use job_controller::objects::{CachedPod, Job, PodGroup, Workload};
        add::<CachedPod, core::Pod>(visitor, PROTOBUF.guarded("job", "Job").foreign("ReplicaSet"));
        add::<Job, batch::Job>(visitor, PROTOBUF);
        add::<PodGroup, scheduling::PodGroup>(visitor, JSON);
        add::<Workload, scheduling::Workload>(visitor, JSON);
    }
    {
        use resourcequota_controller::objects::{Claim, DeviceClass, Pod, Quota, ResourceClaim, Service};
        add::<Claim, core::PersistentVolumeClaim>(visitor, PROTOBUF);
        add::<DeviceClass, resource::DeviceClass>(visitor, JSON);
        add::<Pod, core::Pod>(visitor, PROTOBUF);
        add::<Quota, core::ResourceQuota>(visitor, PROTOBUF);
        add::<ResourceClaim, resource::ResourceClaim>(visitor, JSON);
        add::<Service, core::Service>(visitor, PROTOBUF);
    }
    {
        use disruption_controller::objects::{
            Budget, Deployments, Pod, ReplicaSets, ReplicationControllers, StatefulSets, Workload,
        };
        add::<Budget, policy::PodDisruptionBudget>(visitor, PROTOBUF);
        add::<Pod, core::Pod>(visitor, PROTOBUF);
        add::<Workload<Deployments>, apps::Deployment>(visitor, PROTOBUF);
        add::<Workload<ReplicaSets>, apps::ReplicaSet>(visitor, PROTOBUF);
        add::<Workload<ReplicationControllers>, core::ReplicationController>(visitor, PROTOBUF);
        add::<Workload<StatefulSets>, apps::StatefulSet>(visitor, PROTOBUF);
    }
    {
        use volume_controller::objects::{Claim, Class, PersistentVolume, Pod};
        add::<Claim, core::PersistentVolumeClaim>(visitor, PROTOBUF);
        add::<Class, storage::VolumeAttributesClass>(visitor, JSON);
        add::<PersistentVolume, core::PersistentVolume>(visitor, PROTOBUF);
        add::<Pod, core::Pod>(visitor, PROTOBUF);
    }
    {
        use namespace_controller::objects::Namespace;
        add::<Namespace, core::Namespace>(visitor, PROTOBUF);
    }
    {
        use node_lifecycle_controller::objects::{CachedPod, Lease, Node};
        add::<CachedPod, core::Pod>(visitor, PROTOBUF.guarded("node-lifecycle", "ReplicaSet"));
        add::<Lease, coordination::Lease>(visitor, PROTOBUF.guarded("node-lifecycle", ""));
        add::<Node, core::Node>(visitor, PROTOBUF.guarded("node-lifecycle", ""));
    }
    {
        use replicaset_controller::{kind, objects::CachedSet, pod_cache::CachedPod};
        add::<CachedPod, core::Pod>(visitor, PROTOBUF.guarded("replicaset", "ReplicaSet").foreign("StatefulSet"));
        add::<CachedSet<kind::ReplicaSets>, apps::ReplicaSet>(visitor, PROTOBUF.guarded("replicaset", "Deployment"));
        add::<CachedSet<kind::ReplicationControllers>, core::ReplicationController>(visitor, PROTOBUF);
    }
    {
        use serviceaccount_controller::objects::{ClusterTrustBundle, ConfigMap, Namespace, ServiceAccount};
        add::<ClusterTrustBundle, certificates::ClusterTrustBundle>(visitor, JSON);
        add::<ConfigMap, core::ConfigMap>(visitor, JSON);
        add::<Namespace, core::Namespace>(visitor, JSON);
        add::<ServiceAccount, core::ServiceAccount>(visitor, JSON);
    }
    {
        use statefulset_controller::objects::{CachedPod, CachedRevision, CachedVolumeClaim, StatefulSet};
        let pod = PROTOBUF.guarded("statefulset", "StatefulSet").foreign("ReplicaSet");
        add::<CachedPod, core::Pod>(visitor, pod.filtered("statefulset.kubernetes.io/pod-name"));
        add::<CachedVolumeClaim, core::PersistentVolumeClaim>(visitor, PROTOBUF);
        let revision = PROTOBUF.guarded("statefulset", "StatefulSet").foreign("DaemonSet");
        add::<CachedRevision, apps::ControllerRevision>(visitor, revision);
        add::<StatefulSet, apps::StatefulSet>(visitor, PROTOBUF);
    }
}
