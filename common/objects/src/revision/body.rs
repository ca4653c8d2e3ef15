//! The body of the request that creates a `ControllerRevision`.

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use super::{CONTROLLER_REVISIONS, template::PodTemplateWithRevisionData};
use crate::{
    meta::{Annotations, OwnerRef},
    refs::Owner,
};

/// The fields of a new revision except its data.
#[derive(Clone, Copy, Debug)]
pub struct NewRevision<'a> {
    /// `metadata.name` of the new revision: the name of the owner and a hash.
    pub name: &'a str,
    /// Value of the field `revision`. The newest revision has the highest number.
    pub revision: i64,
    /// Key and value of the label that contains the hash of the revision.
    pub hash_label: (&'a str, &'a str),
    /// Annotations of the owner, which are copied to the revision.
    pub annotations: &'a Annotations,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: String,
    kind: &'a str,
    metadata: Metadata<'a>,
    data: &'a RawValue,
    #[serde(rename = "revision")]
    number: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    name: &'a str,
    labels: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    annotations: Map<String, Value>,
    owner_references: [OwnerRef; 1],
}

impl NewRevision<'_> {
    /// Returns the object to create, with the labels of the template. The server stores the bytes of `data` as they are sent.
    ///
    /// Upstream: `pkg/controller/history`, `NewControllerRevision`; `pkg/controller/daemon`, `snapshot`.
    pub fn creation_request_body(
        &self,
        owner: &Owner,
        template: &PodTemplateWithRevisionData,
    ) -> serde_json::Result<Box<RawValue>> {
        let texts = |(key, value): (&str, &str)| (key.to_owned(), Value::from(value));
        let mut labels: Map<String, Value> = template.labels().iter().map(texts).collect();
        labels.insert(self.hash_label.0.to_owned(), self.hash_label.1.into());
        serde_json::value::to_raw_value(&Body {
            api_version: CONTROLLER_REVISIONS.api_version(),
            kind: CONTROLLER_REVISIONS.kind(),
            metadata: Metadata {
                name: self.name,
                labels,
                annotations: self.annotations.iter().map(texts).collect(),
                owner_references: [owner.controller_reference()],
            },
            data: serde_json::from_slice(template.revision_data().bytes())?,
            number: self.revision,
        })
    }
}
