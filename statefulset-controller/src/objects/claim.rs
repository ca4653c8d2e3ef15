//! PersistentVolumeClaims, and their comparison with the claim template of the set.

use std::collections::BTreeSet;

use common::{
    intern::Labels,
    json::null_as_default,
    prelude::*,
    quantity::Quantity,
    wire::{MessageSchema, messages},
};
use serde::Deserialize;
use serde_json::Value;

use super::PERSISTENT_VOLUME_CLAIMS;

/// The annotation that named the storage class before `spec.storageClassName` existed. The API server still honours it.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The fields of a PersistentVolumeClaim that the controller reads.
#[derive(Debug, Deserialize)]
pub struct CachedVolumeClaim {
    /// Metadata, without labels, annotations and finalizers.
    pub metadata: Meta,
    /// The requested storage, access modes, storage class and volume mode.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: VolumeClaimSpec,
}

impl Object for CachedVolumeClaim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
    type Indexes = ();
    const PROTOBUF_SCHEMA: Option<&'static MessageSchema> = Some(&messages::PERSISTENT_VOLUME_CLAIM);

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn drop_unneeded_fields(&mut self) {
        let annotations = &self.metadata.annotations;
        self.spec.storage_class =
            self.spec.storage_class.take().or_else(|| annotations.get(STORAGE_CLASS_ANNOTATION).map(Text::new));
        self.metadata.labels = Labels::empty();
        self.metadata.drop_annotations_and_finalizers();
    }
}

/// The fields of a claim's `spec` that are compared with its template. Claims of one template share the interned texts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "WireSpec")]
pub struct VolumeClaimSpec {
    /// `resources.requests.storage` as written.
    storage: Option<Text>,
    /// The access modes, sorted and separated by commas.
    access_modes: Text,
    /// The storage class. The empty name requests a volume without a class.
    storage_class: Option<Text>,
    /// Whether `volumeMode` is `Block`.
    block: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSpec {
    access_modes: Option<BTreeSet<Text>>,
    resources: Option<WireResources>,
    storage_class_name: Option<Text>,
    volume_mode: Option<Text>,
}

#[derive(Deserialize)]
struct WireResources {
    requests: Option<WireRequests>,
}

#[derive(Deserialize)]
struct WireRequests {
    storage: Option<Value>,
}

impl From<WireSpec> for VolumeClaimSpec {
    fn from(wire: WireSpec) -> Self {
        let storage = wire.resources.and_then(|resources| resources.requests?.storage);
        let modes = wire.access_modes.unwrap_or_default();
        let modes: Vec<&str> = modes.iter().map(Text::as_str).collect();
        Self {
            storage: storage.map(|storage| match storage {
                Value::String(text) => Text::new(&text),
                other => Text::new(&other.to_string()),
            }),
            access_modes: Text::new(&modes.join(",")),
            storage_class: wire.storage_class_name,
            block: wire.volume_mode.is_some_and(|mode| &*mode == "Block"),
        }
    }
}

impl VolumeClaimSpec {
    /// Describes how a claim with this spec falls short of its template; `None` if the claim satisfies the template.
    ///
    /// A claim may have more storage, because users expand claims, and further access modes. A storage class is compared only
    /// if the template names one.
    pub fn describe_shortfall(&self, template: &Self) -> Option<String> {
        if self == template {
            return None;
        }
        let mut parts = Vec::new();
        if let (Some(has), Some(wanted)) = (&self.storage, &template.storage)
            && let (Ok(a), Ok(b)) = (Quantity::parse(has), Quantity::parse(wanted))
            && a < b
        {
            parts.push(format!("it requests {has} of storage, and the template requests {wanted}"));
        }
        let modes: BTreeSet<&str> = self.access_modes.split(',').collect();
        if !template.access_modes.is_empty() && !template.access_modes.split(',').all(|mode| modes.contains(mode)) {
            let (has, wanted) = (&self.access_modes, &template.access_modes);
            parts.push(format!("its access modes are {has}, and the template requests {wanted}"));
        }
        let class = self.storage_class.as_deref().unwrap_or_default();
        if let Some(wanted) = template.storage_class.as_deref().filter(|wanted| *wanted != class) {
            let named = |class: &str| if class.is_empty() { "none".to_owned() } else { class.to_owned() };
            parts.push(format!("its storage class is {}, and the template requests {}", named(class), named(wanted)));
        }
        if self.block != template.block {
            let named = |block: bool| if block { "Block" } else { "Filesystem" };
            let (has, wanted) = (named(self.block), named(template.block));
            parts.push(format!("its volume mode is {has}, and the template requests {wanted}"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(storage: &str, modes: &[&str], class: Option<&str>, mode: Option<&str>) -> VolumeClaimSpec {
        let json = json!({"accessModes": modes, "resources": {"requests": {"storage": storage}},
            "storageClassName": class, "volumeMode": mode});
        serde_json::from_str(&json.to_string()).unwrap()
    }

    /// STATEFULSET-88.
    #[test]
    fn a_claim_that_satisfies_its_template_has_no_shortfall() {
        let template = spec("2Gi", &["ReadWriteOnce"], None, None);
        for claim in [
            spec("2Gi", &["ReadWriteOnce"], None, Some("Filesystem")),
            spec("2147483648", &["ReadWriteOnce"], None, None),
            spec("10Gi", &["ReadWriteOnce"], None, None),
            spec("2Gi", &["ReadOnlyMany", "ReadWriteOnce"], None, None),
            spec("2Gi", &["ReadWriteOnce"], Some("fast"), None),
        ] {
            assert_eq!(claim.describe_shortfall(&template), None, "{claim:?}");
        }
        let without_class = spec("2Gi", &["ReadWriteOnce"], Some(""), None);
        assert_eq!(spec("2Gi", &["ReadWriteOnce"], None, None).describe_shortfall(&without_class), None);
        assert_eq!(spec("2Gi", &["ReadWriteOnce"], None, None).describe_shortfall(&VolumeClaimSpec::default()), None);
    }

    /// STATEFULSET-88.
    #[test]
    fn a_shortfall_names_size_access_modes_class_and_volume_mode() {
        let template = spec("2Gi", &["ReadWriteMany", "ReadWriteOnce"], Some("fast"), None);
        let shortfall = |claim: VolumeClaimSpec| claim.describe_shortfall(&template).unwrap();
        let modes = &["ReadWriteOnce", "ReadWriteMany"];
        assert_eq!(
            shortfall(spec("1500Mi", modes, Some("fast"), None)),
            "it requests 1500Mi of storage, and the template requests 2Gi"
        );
        assert_eq!(
            shortfall(spec("2Gi", &["ReadWriteOnce"], Some("fast"), None)),
            "its access modes are ReadWriteOnce, and the template requests ReadWriteMany,ReadWriteOnce"
        );
        assert_eq!(
            shortfall(spec("2Gi", modes, Some("slow"), None)),
            "its storage class is slow, and the template requests fast"
        );
        assert_eq!(
            shortfall(spec("2Gi", modes, None, Some("Block"))),
            "its storage class is none, and the template requests fast; \
             its volume mode is Block, and the template requests Filesystem"
        );
    }

    /// STATEFULSET-88.
    #[test]
    fn the_storage_class_is_read_from_its_old_annotation() {
        let json = json!({"metadata": {"name": "c", "annotations": {STORAGE_CLASS_ANNOTATION: "fast"}}, "spec": {}});
        let mut claim: CachedVolumeClaim = serde_json::from_str(&json.to_string()).unwrap();
        claim.drop_unneeded_fields();
        assert_eq!(claim.spec.storage_class.as_deref(), Some("fast"));
        assert_eq!(claim.metadata.annotations.get(STORAGE_CLASS_ANNOTATION), None);
    }
}
