//! Projection of Pods: the claims that their volumes name.

use common::{
    intern::Labels,
    json::JsonStr,
    meta::{MetaWithGracePeriod, OwnerRefs},
    pods::PODS,
    prelude::*,
    store::StoreIndex,
    wire::{MessageSchema, RawMessage, messages},
};
use serde::{Deserialize, Deserializer};

/// A Pod with the volumes that have claims.
#[derive(Debug, PartialEq)]
pub struct Pod {
    /// Metadata, without labels, annotations, owners and finalizers.
    pub metadata: Meta,
    /// Whether the Pod is assigned to a node.
    pub has_node: bool,
    /// Whether the Pod is terminating without a grace period, so that its containers do not run any more.
    pub is_shut_down: bool,
    /// The claims of users that volumes name.
    pub claim_names: Box<[Text]>,
    /// The volumes whose claims are created for the Pod, in their order.
    pub ephemeral_volumes: Box<[EphemeralVolume]>,
}

/// A volume whose claim is created for the Pod. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EphemeralVolume {
    /// Name of the volume.
    pub name: Text,
    /// Name of the claim: those of the Pod and of the volume.
    pub claim_name: Text,
    /// `volumeClaimTemplate` as it was received.
    pub template: RawMessage,
}

impl Pod {
    /// Returns the names of the claims of all volumes, which may be repeated.
    pub fn all_claim_names(&self) -> impl Iterator<Item = &Text> {
        self.claim_names.iter().chain(self.ephemeral_volumes.iter().map(|volume| &volume.claim_name))
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            metadata: MetaWithGracePeriod,
            #[serde(borrow)]
            spec: Option<WireSpec<'a>>,
        }
        let Wire { metadata, spec } = Wire::deserialize(deserializer)?;
        let MetaWithGracePeriod { meta, deletion_grace_period_seconds } = metadata;
        let spec = spec.unwrap_or_default();
        let (mut claim_names, mut ephemeral_volumes) = (Vec::new(), Vec::new());
        for volume in spec.volumes.into_iter().flatten() {
            if let Some(source) = volume.persistent_volume_claim {
                claim_names.push(source.claim_name);
            } else if let Some(source) = volume.ephemeral {
                let name = Text::new(volume.name.as_deref().unwrap_or_default());
                let claim_name = Text::new(&format!("{}-{name}", meta.name));
                let template = source.volume_claim_template.unwrap_or_default();
                ephemeral_volumes.push(EphemeralVolume { name, claim_name, template });
            }
        }
        Ok(Self {
            has_node: spec.node_name.is_some_and(|name| !name.is_empty()),
            is_shut_down: meta.is_deleting() && deletion_grace_period_seconds == Some(0),
            claim_names: claim_names.into(),
            ephemeral_volumes: ephemeral_volumes.into(),
            metadata: meta,
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec<'a> {
    #[serde(borrow)]
    node_name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    volumes: Option<Vec<WireVolume<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireVolume<'a> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    persistent_volume_claim: Option<WireClaimSource>,
    ephemeral: Option<WireEphemeralSource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireClaimSource {
    claim_name: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEphemeralSource {
    volume_claim_template: Option<RawMessage>,
}

impl Object for Pod {
    const RESOURCE: Resource = PODS;
    type Indexes = (ByClaim,);
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::POD);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        self.metadata.labels = Labels::empty();
        self.metadata.owners = OwnerRefs::default();
        self.metadata.drop_annotations_and_finalizers();
    }

    fn has_hidden_fields(&self) -> bool {
        let mut templates = self.ephemeral_volumes.iter().map(|volume| &volume.template);
        templates.any(|template| template.has_unknown_fields(&messages::PERSISTENT_VOLUME_CLAIM_TEMPLATE))
    }

    fn is_cached(&self) -> bool {
        self.all_claim_names().next().is_some()
    }
}

/// Lists Pods by the claims that their volumes name.
#[derive(Clone, Copy, Debug)]
pub struct ByClaim;

impl StoreIndex<Pod> for ByClaim {
    fn value(_: &Meta, _: Option<&Pod>) -> Option<IndexValue> {
        None
    }

    fn further_values(meta: &Meta, pod: Option<&Pod>) -> Vec<IndexValue> {
        let names = pod.into_iter().flat_map(Pod::all_claim_names);
        names.map(|name| index_value_of_claim(&meta.namespace, name)).collect()
    }
}

/// Returns the value under which [`ByClaim`] lists the Pods that name a claim.
pub fn index_value_of_claim(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Text(Text::new(&format!("{namespace}/{name}")))
}
