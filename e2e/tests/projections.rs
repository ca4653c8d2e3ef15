//! What the controllers read of objects is what the API declares: by name and by type.

use std::{collections::BTreeSet, fs, path::Path};

use common::{meta::Meta, object::Object};
use k8s_openapi::{
    Resource,
    api::{
        apps::v1 as apps, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        discovery::v1 as discovery, scheduling::v1alpha2 as scheduling,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use sandbox::declared::{Scope, undeclared, unknown_fields};
use serde::de::DeserializeOwned;

/// The projections that were looked at, and what is wrong with them.
#[derive(Default)]
struct Looked {
    at: BTreeSet<String>,
    found: Vec<String>,
}

impl Looked {
    /// Looks at a projection.
    fn at<P: Object, T: Resource + DeserializeOwned>(&mut self)
    where
        T::Scope: Scope,
    {
        let name = name::<P>();
        self.found.extend(undeclared::<P, T>().into_iter().map(|wrong| format!("{name}: {wrong}")));
        self.at.insert(name);
    }
}

/// Crate and type, without parameters.
fn name<P>() -> String {
    let path = std::any::type_name::<P>();
    let path = path.split('<').next().unwrap_or(path);
    let (krate, _) = path.split_once("::").unwrap_or_default();
    let (_, kind) = path.rsplit_once("::").unwrap_or_default();
    format!("{} {kind}", krate.replace('_', "-"))
}

#[test]
fn each_projection_names_only_what_the_api_declares() {
    let mut looked = Looked::default();
    looked.at::<common::pods::Pod, core::Pod>();
    looked.at::<common::revision::ControllerRevision, apps::ControllerRevision>();
    {
        use cronjob_controller::objects::{CronJob, Job};
        looked.at::<CronJob, batch::CronJob>();
        looked.at::<Job, batch::Job>();
    }
    {
        use daemonset_controller::objects::{CachedPod, ControllerRevision, DaemonSet, Node};
        looked.at::<CachedPod, core::Pod>();
        looked.at::<ControllerRevision, apps::ControllerRevision>();
        looked.at::<DaemonSet, apps::DaemonSet>();
        looked.at::<Node, core::Node>();
    }
    {
        use deployment_controller::objects::{Deployment, Pod, ReplicaSet};
        looked.at::<Deployment, apps::Deployment>();
        looked.at::<Pod, core::Pod>();
        looked.at::<ReplicaSet, apps::ReplicaSet>();
    }
    {
        use endpointslice_controller::objects::{Endpoints, Node, Pod, Service, Slice};
        looked.at::<Endpoints, core::Endpoints>();
        looked.at::<Node, core::Node>();
        looked.at::<Pod, core::Pod>();
        looked.at::<Service, core::Service>();
        looked.at::<Slice, discovery::EndpointSlice>();
    }
    {
        use job_controller::objects::{CachedPod, Job, PodGroup, Workload};
        looked.at::<CachedPod, core::Pod>();
        looked.at::<Job, batch::Job>();
        looked.at::<PodGroup, scheduling::PodGroup>();
        looked.at::<Workload, scheduling::Workload>();
    }
    {
        use node_lifecycle_controller::objects::{CachedPod, Lease, Node};
        looked.at::<CachedPod, core::Pod>();
        looked.at::<Lease, coordination::Lease>();
        looked.at::<Node, core::Node>();
    }
    {
        use replicaset_controller::{kind, objects::CachedSet, pod_cache::CachedPod};
        looked.at::<CachedPod, core::Pod>();
        looked.at::<CachedSet<kind::ReplicaSets>, apps::ReplicaSet>();
        looked.at::<CachedSet<kind::ReplicationControllers>, core::ReplicationController>();
    }
    {
        use statefulset_controller::objects::{CachedPod, CachedRevision, CachedVolumeClaim, StatefulSet};
        looked.at::<CachedPod, core::Pod>();
        looked.at::<CachedVolumeClaim, core::PersistentVolumeClaim>();
        looked.at::<CachedRevision, apps::ControllerRevision>();
        looked.at::<StatefulSet, apps::StatefulSet>();
    }
    // The garbage collector reads metadata of whatever there is, and nothing else.
    looked.found.extend(unknown_fields::<Meta, ObjectMeta>());
    looked.at.insert("gc-controller PartialObject".to_owned());

    // One type is read from both kinds, and this count is only of the one.
    looked
        .found
        .retain(|wrong| wrong != "replicaset-controller CachedSet: .status.terminatingReplicas is not declared");
    assert_eq!(looked.found, [""; 0]);
    let there = implementations();
    assert_eq!(looked.at, there, "each type that implements Object is looked at here");
}

/// The types of the product that implement `Object`, by its source.
fn implementations() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut out = BTreeSet::new();
    collect("nonet-objects", &root.join("common/objects/src"), &mut out);
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let krate = entry.file_name().to_string_lossy().into_owned();
        if krate.ends_with("-controller") {
            collect(&krate, &entry.path().join("src"), &mut out);
        }
    }
    out
}

fn collect(krate: &str, folder: &Path, out: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(krate, &path, out);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap_or_default();
        // What only tests have stands further in, or in files of their own.
        let is_test = path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")));
        for line in source.lines().filter(|line| !is_test && line.starts_with("impl")) {
            let Some((_, kind)) = line.split_once(" Object for ") else { continue };
            let kind: String = kind.chars().take_while(|c| c.is_alphanumeric()).collect();
            out.insert(format!("{krate} {kind}"));
        }
    }
}
