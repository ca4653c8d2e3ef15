//! The Go types inside a Pod template as Kubernetes 1.36 declares them: order, names and types of all fields.
//!
//! The layout determines the text that is hashed into the names of `ReplicaSets` ([`crate::hash`]). It also determines the
//! values that mean the same as an absent field ([`crate::template`]). The data is in `layout-1.36.json`. Fields that the
//! layout does not know are not an error.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

/// The layout of Kubernetes 1.36, parsed at the first use.
static LAYOUT: LazyLock<PodTemplateLayout> = LazyLock::new(|| {
    PodTemplateLayout::new(serde_json::from_str(include_str!("layout-1.36.json")).unwrap_or_default())
});

/// Name of the Go type of a whole Pod template.
const TEMPLATE: &str = "v1.PodTemplateSpec";

#[derive(Default)]
pub(crate) struct PodTemplateLayout {
    structs: Vec<GoStruct>,
    template: usize,
}

/// The fields of one Go struct.
#[derive(Default)]
pub(crate) struct GoStruct {
    /// Fields in the order of their declaration.
    pub(crate) fields: Vec<GoField>,
    /// Members of the JSON object, including those of embedded structs, sorted by name.
    members: Vec<(&'static str, GoType)>,
}

/// Name and type of one field of a Go struct.
#[derive(Deserialize)]
pub(crate) struct GoField {
    /// Name in Go, which the hashed text contains.
    pub(crate) go: &'static str,
    /// Name in JSON; empty for embedded structs and for fields that JSON does not contain.
    pub(crate) json: &'static str,
    /// Type in Go, which the hashed text contains, for example `*int64`.
    #[serde(rename = "type")]
    pub(crate) type_name: &'static str,
    /// Parsed form of `type_name`. Set after all types of the layout are read.
    #[serde(skip)]
    pub(crate) go_type: GoType,
    /// Whether the members of this struct appear directly in the JSON object of the outer struct.
    #[serde(default)]
    pub(crate) inline: bool,
}

/// The type of a field's values: a base type, and the pointer, list or map around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GoType {
    pub(crate) wrapper: GoTypeWrapper,
    pub(crate) base: GoBaseType,
}

/// Whether a field has one value, an optional value, a list or a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GoTypeWrapper {
    /// One value. Absence means the zero value.
    #[default]
    Plain,
    /// One value or none.
    Pointer,
    List,
    /// A map from strings to values.
    Map,
}

/// The type of a single value, without pointer, list or map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum GoBaseType {
    #[default]
    Text,
    Bool,
    Int,
    Time,
    Quantity,
    IntOrString,
    /// `managedFields[].fieldsV1`: JSON kept as bytes.
    FieldsV1,
    Struct(usize),
}

impl GoType {
    /// Returns the type of one value of type `base`, without pointer, list or map.
    pub(crate) fn single_value(base: GoBaseType) -> Self {
        Self { wrapper: GoTypeWrapper::Plain, base }
    }
}

impl PodTemplateLayout {
    /// Returns the layout of Kubernetes 1.36.
    pub(crate) fn get() -> &'static Self {
        &LAYOUT
    }

    /// Returns the type of a whole Pod template.
    pub(crate) fn template_type(&self) -> GoBaseType {
        GoBaseType::Struct(self.template)
    }

    /// Returns the fields of a struct in the order of their declaration; empty if no struct has this `id`.
    pub(crate) fn struct_fields(&self, id: usize) -> &[GoField] {
        self.structs.get(id).map_or(&[], |s| &s.fields)
    }

    /// Returns the type of the member `name` in the JSON object of a struct; `None` if the struct has no such member.
    pub(crate) fn struct_member_type(&self, id: usize, name: &str) -> Option<GoType> {
        let members = &self.structs.get(id)?.members;
        let at = members.binary_search_by(|(n, _)| (*n).cmp(name)).ok()?;
        Some(members[at].1)
    }

    fn new(LayoutFile { mut types, named }: LayoutFile) -> Self {
        let ids: BTreeMap<&str, usize> = types.keys().enumerate().map(|(id, name)| (*name, id)).collect();
        for field in types.values_mut().flatten() {
            field.go_type = parse_go_type(field.type_name, &ids, &named);
        }
        let mut structs: Vec<GoStruct> =
            types.into_values().map(|fields| GoStruct { fields, members: Vec::new() }).collect();
        for id in 0..structs.len() {
            let mut members = Vec::new();
            collect_json_members(&structs, id, &mut members);
            members.sort_by_key(|(name, _)| *name);
            structs[id].members = members;
        }
        Self { structs, template: ids.get(TEMPLATE).copied().unwrap_or(usize::MAX) }
    }
}

fn collect_json_members(structs: &[GoStruct], id: usize, members: &mut Vec<(&'static str, GoType)>) {
    for field in structs.get(id).map_or(&[][..], |s| &s.fields) {
        match field.go_type.base {
            GoBaseType::Struct(inner) if field.inline => collect_json_members(structs, inner, members),
            _ if field.json.is_empty() => {}
            _ => members.push((field.json, field.go_type)),
        }
    }
}

/// The content of `layout-1.36.json`.
#[derive(Default, Deserialize)]
struct LayoutFile {
    /// Fields of each Go struct, by the name of the struct.
    #[serde(borrow)]
    types: BTreeMap<&'static str, Vec<GoField>>,
    /// Underlying type, for example `string`, of each named scalar type, by the name of the scalar type.
    named: BTreeMap<&'static str, &'static str>,
}

/// Parses the name of a Go type, for example `*int64` or `[]string`.
fn parse_go_type(kind: &str, ids: &BTreeMap<&str, usize>, named: &BTreeMap<&str, &str>) -> GoType {
    let (wrapper, name) = match kind {
        "v1.ResourceList" => (GoTypeWrapper::Map, "resource.Quantity"),
        _ => [("*", GoTypeWrapper::Pointer), ("[]", GoTypeWrapper::List), ("map[string]", GoTypeWrapper::Map)]
            .into_iter()
            .find_map(|(prefix, wrapper)| Some((wrapper, kind.strip_prefix(prefix)?)))
            .unwrap_or((GoTypeWrapper::Plain, kind)),
    };
    let base = match name {
        "v1.Time" => GoBaseType::Time,
        "v1.FieldsV1" => GoBaseType::FieldsV1,
        "resource.Quantity" => GoBaseType::Quantity,
        "intstr.IntOrString" => GoBaseType::IntOrString,
        _ => match (ids.get(name), *named.get(name).unwrap_or(&name)) {
            (Some(id), _) => GoBaseType::Struct(*id),
            (None, "bool") => GoBaseType::Bool,
            (None, "string") => GoBaseType::Text,
            (None, _) => GoBaseType::Int,
        },
    };
    GoType { wrapper, base }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Cardinality, FieldSchema, MessageSchema, ValueType, ZeroMeaning, messages::POD_TEMPLATE_SPEC};

    fn find(path: &[&str]) -> GoType {
        let layout = PodTemplateLayout::get();
        path.iter().fold(GoType::single_value(layout.template_type()), |shape, name| match shape.base {
            GoBaseType::Struct(id) => layout.struct_member_type(id, name).unwrap_or_else(|| panic!("no {name}")),
            other => panic!("{other:?} has no {name}"),
        })
    }

    #[test]
    fn knows_the_fields_of_a_pod_template() {
        let shape = |wrapper, base| GoType { wrapper, base };
        assert_eq!(find(&["metadata", "labels"]), shape(GoTypeWrapper::Map, GoBaseType::Text));
        assert_eq!(find(&["metadata", "creationTimestamp"]), GoType::single_value(GoBaseType::Time));
        assert_eq!(find(&["spec", "overhead"]), shape(GoTypeWrapper::Map, GoBaseType::Quantity));
        assert_eq!(
            find(&["spec", "containers", "resources", "limits"]),
            shape(GoTypeWrapper::Map, GoBaseType::Quantity)
        );
        assert_eq!(find(&["spec", "securityContext"]).wrapper, GoTypeWrapper::Pointer);
        assert_eq!(find(&["spec", "terminationGracePeriodSeconds"]), shape(GoTypeWrapper::Pointer, GoBaseType::Int));
        assert_eq!(find(&["spec", "restartPolicy"]), GoType::single_value(GoBaseType::Text));
        assert_eq!(find(&["spec", "hostNetwork"]), GoType::single_value(GoBaseType::Bool));
    }

    #[test]
    fn members_of_embedded_structs_appear_in_the_outer_object() {
        assert_eq!(find(&["spec", "volumes", "emptyDir", "sizeLimit"]).base, GoBaseType::Quantity);
        assert_eq!(
            find(&["spec", "containers", "livenessProbe", "httpGet", "port"]),
            GoType::single_value(GoBaseType::IntOrString)
        );
        assert_eq!(
            find(&["spec", "containers", "livenessProbe", "periodSeconds"]),
            GoType::single_value(GoBaseType::Int)
        );
    }

    #[test]
    fn all_quantities_of_the_specification_are_known() {
        for path in [
            &["spec", "containers", "resources", "requests"][..],
            &["spec", "initContainers", "resources", "limits"],
            &["spec", "ephemeralContainers", "resources", "limits"],
            &["spec", "resources", "limits"],
            &["spec", "overhead"],
            &["spec", "volumes", "emptyDir", "sizeLimit"],
            &["spec", "volumes", "ephemeral", "volumeClaimTemplate", "spec", "resources", "requests"],
            &["spec", "volumes", "downwardAPI", "items", "resourceFieldRef", "divisor"],
            &["spec", "volumes", "projected", "sources", "downwardAPI", "items", "resourceFieldRef", "divisor"],
            &["spec", "containers", "env", "valueFrom", "resourceFieldRef", "divisor"],
        ] {
            assert_eq!(find(path).base, GoBaseType::Quantity, "{path:?}");
        }
    }

    /// The members of the JSON object of a message, sorted by name. They include the fields of inlined messages.
    fn members(message: &'static MessageSchema) -> Vec<&'static FieldSchema> {
        let mut members: Vec<_> = message
            .fields
            .iter()
            .flat_map(|field| match field.value_type {
                ValueType::Object(inlined) if field.name.is_empty() => members(inlined),
                _ => vec![field],
            })
            .collect();
        members.sort_by_key(|field| field.name);
        members
    }

    fn compare(id: usize, message: &'static MessageSchema) {
        let of_layout = &PodTemplateLayout::get().structs[id].members;
        let of_message = members(message);
        assert!(of_layout.iter().map(|(name, _)| *name).eq(of_message.iter().map(|field| field.name)), "{message:?}");
        for ((_, go_type), field) in of_layout.iter().zip(of_message) {
            let wrapper = match (field.cardinality, field.zero_meaning) {
                (Cardinality::Many, _) => GoTypeWrapper::List,
                (Cardinality::Keyed, _) => GoTypeWrapper::Map,
                (Cardinality::One, ZeroMeaning::PresentIfSet | ZeroMeaning::NullInJson) => GoTypeWrapper::Pointer,
                (Cardinality::One, ZeroMeaning::OmittedInJson | ZeroMeaning::WrittenInJson) => GoTypeWrapper::Plain,
            };
            assert_eq!(go_type.wrapper, wrapper, "{} {}", message.name, field.name);
            match (go_type.base, field.value_type) {
                (GoBaseType::Struct(id), ValueType::Object(inner)) => compare(id, inner),
                (GoBaseType::Text, ValueType::Text)
                | (GoBaseType::Bool, ValueType::Bool)
                | (GoBaseType::Int, ValueType::Int)
                | (GoBaseType::Time, ValueType::Time)
                | (GoBaseType::Quantity, ValueType::Quantity)
                | (GoBaseType::IntOrString, ValueType::IntOrString)
                | (GoBaseType::FieldsV1, ValueType::Json) => {}
                (base, value_type) => panic!("{} {}: {base:?}, not {value_type:?}", message.name, field.name),
            }
        }
    }

    #[test]
    fn the_protobuf_schema_has_the_same_fields() {
        let GoBaseType::Struct(template) = PodTemplateLayout::get().template_type() else { panic!("a struct") };
        compare(template, &POD_TEMPLATE_SPEC);
    }
}
