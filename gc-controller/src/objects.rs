//! What is read of an object: its metadata, and of that only what collection needs.

use common::{
    intern::Labels,
    meta::{Annotations, Meta},
    object::{Object, Resource},
};

use crate::graph::{FOREGROUND, ORPHAN};

/// What asks for the metadata of one object.
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// An object of any kind.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Partial {
    /// Its metadata.
    pub(crate) metadata: Meta,
}

impl Object for Partial {
    /// Stands for whatever the monitor watches.
    const RESOURCE: Resource = Resource {
        group: "meta.k8s.io",
        version: "v1",
        plural: "partialobjectmetadata",
        kind: "PartialObjectMetadata",
        namespaced: false,
    };

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        let meta = &mut self.metadata;
        (meta.labels, meta.annotations) = (Labels::default(), Annotations::default());
        if !meta.finalizers.is_empty() {
            let ours = meta.finalizers.iter().filter(|f| *f == FOREGROUND || *f == ORPHAN);
            meta.finalizers = ours.cloned().collect();
        }
    }
}
