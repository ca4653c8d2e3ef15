//! The table of all projections, which each controller enters once: the objects that it reads, and the guards of its caches.

use std::fmt::Debug;

use common::object::Object;
use k8s_openapi::{
    Resource,
    api::{
        apps::v1 as apps, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, scheduling::v1alpha2 as scheduling,
    },
};
use sandbox::declared::Scope;
use serde::de::DeserializeOwned;

/// What a test does with each projection `P` of the API's type `T`.
pub(crate) trait Visitor {
    /// Visits a projection.
    fn visit<P: Object + Debug, T: Resource + DeserializeOwned>(&mut self, row: Row)
    where
        T::Scope: Scope;
}

/// What the tests need to know of a projection.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each program of tests reads the fields that it needs")]
pub(crate) struct Row {
    /// Whether the projection is read from protobuf, too.
    pub(crate) is_protobuf: bool,
    /// The guards of the cache.
    pub(crate) guards: Option<Guards>,
}

/// What the guards of a cache measure.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each program of tests reads the fields that it needs")]
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
const JSON: Row = Row { is_protobuf: false, guards: None };
/// A projection that is read from both formats.
const PROTOBUF: Row = Row { is_protobuf: true, guards: None };

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

/// Visits every projection.
pub(crate) fn visit(visitor: &mut impl Visitor) {
    visitor.visit::<common::pods::Pod, core::Pod>(JSON);
    visitor.visit::<common::revision::ControllerRevision, apps::ControllerRevision>(JSON);
    {
        use cronjob_controller::objects::{CronJob, Job};
        visitor.visit::<CronJob, batch::CronJob>(JSON);
        visitor.visit::<Job, batch::Job>(PROTOBUF.guarded("cronjob", "CronJob").foreign("Workflow"));
    }
    {
        use daemonset_controller::objects::{CachedPod, ControllerRevision, DaemonSet, Node};
        let pod =
            PROTOBUF.guarded("daemonset", "DaemonSet").foreign("StatefulSet").filtered("controller-revision-hash");
        visitor.visit::<CachedPod, core::Pod>(pod);
        let revision = PROTOBUF.guarded("daemonset", "DaemonSet").foreign("StatefulSet");
        visitor.visit::<ControllerRevision, apps::ControllerRevision>(revision);
        visitor.visit::<DaemonSet, apps::DaemonSet>(JSON);
        visitor.visit::<Node, core::Node>(PROTOBUF.guarded("daemonset", ""));
    }
    {
        use deployment_controller::objects::{Deployment, Pod, ReplicaSet};
        visitor.visit::<Deployment, apps::Deployment>(JSON);
        visitor.visit::<Pod, core::Pod>(PROTOBUF.guarded("deployment", "ReplicaSet").foreign("StatefulSet"));
        visitor.visit::<ReplicaSet, apps::ReplicaSet>(JSON);
    }
    {
        use endpointslice_controller::objects::{Endpoints, Node, Pod, Service, Slice};
        visitor.visit::<Endpoints, core::Endpoints>(PROTOBUF);
        visitor.visit::<Node, core::Node>(PROTOBUF.guarded("endpointslice", ""));
        visitor.visit::<Pod, core::Pod>(PROTOBUF.guarded("endpointslice", "ReplicaSet"));
        visitor.visit::<Service, core::Service>(PROTOBUF);
        visitor.visit::<Slice, discovery::EndpointSlice>(PROTOBUF.guarded("endpointslice", ""));
    }
    {
        use job_controller::objects::{CachedPod, Job, PodGroup, Workload};
        visitor.visit::<CachedPod, core::Pod>(PROTOBUF.guarded("job", "Job").foreign("ReplicaSet"));
        visitor.visit::<Job, batch::Job>(JSON);
        visitor.visit::<PodGroup, scheduling::PodGroup>(JSON);
        visitor.visit::<Workload, scheduling::Workload>(JSON);
    }
    {
        use node_lifecycle_controller::objects::{CachedPod, Lease, Node};
        visitor.visit::<CachedPod, core::Pod>(PROTOBUF.guarded("node-lifecycle", "ReplicaSet"));
        visitor.visit::<Lease, coordination::Lease>(PROTOBUF.guarded("node-lifecycle", ""));
        visitor.visit::<Node, core::Node>(PROTOBUF.guarded("node-lifecycle", ""));
    }
    {
        use replicaset_controller::{kind, objects::CachedSet, pod_cache::CachedPod};
        visitor.visit::<CachedPod, core::Pod>(PROTOBUF.guarded("replicaset", "ReplicaSet").foreign("StatefulSet"));
        visitor.visit::<CachedSet<kind::ReplicaSets>, apps::ReplicaSet>(JSON);
        visitor.visit::<CachedSet<kind::ReplicationControllers>, core::ReplicationController>(JSON);
    }
    {
        use statefulset_controller::objects::{CachedPod, CachedRevision, CachedVolumeClaim, StatefulSet};
        let pod = PROTOBUF.guarded("statefulset", "StatefulSet").foreign("ReplicaSet");
        visitor.visit::<CachedPod, core::Pod>(pod.filtered("statefulset.kubernetes.io/pod-name"));
        visitor.visit::<CachedVolumeClaim, core::PersistentVolumeClaim>(PROTOBUF);
        let revision = PROTOBUF.guarded("statefulset", "StatefulSet").foreign("DaemonSet");
        visitor.visit::<CachedRevision, apps::ControllerRevision>(revision);
        visitor.visit::<StatefulSet, apps::StatefulSet>(JSON);
    }
}
