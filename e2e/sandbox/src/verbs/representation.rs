//! Answers in the form and the format that were asked for: objects, lists, Tables and metadata alone.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    api::resource::Resource,
    store::{
        Change, Version,
        encoding::{Content, Encoded, Format, ListHead, METADATA_LIST},
    },
    value::object::{at, partial},
    verbs::{
        accept::Form,
        request::Call,
        status::{ApiError, ApiResult},
        table::{IncludeObject, Rows, table},
    },
};

/// How objects are to be represented.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Representation {
    pub(crate) format: Format,
    form: Form,
    rows: Rows,
    /// Whether Tables have the definitions of their columns.
    head: bool,
}

fn failed(why: String) -> ApiError {
    ApiError::internal(why)
}

impl Representation {
    pub(crate) fn of(call: &Call, now: Timestamp) -> ApiResult<Self> {
        let include = match call.query.text("includeObject") {
            "" | "Metadata" => IncludeObject::Metadata,
            "Object" => IncludeObject::Object,
            "None" => IncludeObject::None,
            other if call.accept.form == Form::Table => {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                    crate::api::names::quoted(other)
                )));
            }
            _ => IncludeObject::Metadata,
        };
        Ok(Self { format: call.accept.format, form: call.accept.form, rows: Rows { include, now }, head: true })
    }

    /// The part of a stored version whose encoding all readers share; none for Tables and converted objects.
    fn shared(&self, resource: &Resource) -> Option<Content> {
        match self.form {
            _ if resource.converts() => None,
            Form::Object | Form::Discovery => Some(Content::Whole),
            Form::Partial => Some(Content::Metadata),
            Form::Table => None,
        }
    }

    /// A stored object as asked for.
    pub(crate) fn version(&self, resource: &Resource, version: &Version) -> ApiResult<Bytes> {
        match self.shared(resource) {
            Some(content) => Ok(version.encoded(self.format, content).map_err(failed)?.object()),
            None => self.object(resource, served(resource, version)),
        }
    }

    /// An object of the served form as asked for.
    pub(crate) fn object(&self, resource: &Resource, object: Value) -> ApiResult<Bytes> {
        self.format.object(&self.formed(resource, object)).map_err(failed)
    }

    fn formed(&self, resource: &Resource, object: Value) -> Value {
        match self.form {
            Form::Object | Form::Discovery => object,
            Form::Partial => partial(&object),
            Form::Table => {
                let metadata = json!({"resourceVersion": at(&object, &["metadata", "resourceVersion"])});
                table(resource, &metadata, std::iter::once(object), self.rows, self.head)
            }
        }
    }

    /// The watch event with a stored object.
    pub(crate) fn event(
        &mut self,
        resource: &Resource,
        change: Change,
        version: &Version,
        now: Timestamp,
    ) -> ApiResult<Bytes> {
        match self.shared(resource) {
            Some(content) => version.event(change, self.format, content).map_err(failed),
            None => self.event_of(resource, change.as_str(), served(resource, version), now),
        }
    }

    /// The watch event with an object of the served form.
    pub(crate) fn event_of(
        &mut self,
        resource: &Resource,
        event: &str,
        object: Value,
        now: Timestamp,
    ) -> ApiResult<Bytes> {
        self.rows.now = now;
        let object = self.formed(resource, object);
        // Only the first Table of a watch has the definitions of the columns.
        self.head = false;
        self.format.event(event, &object).map_err(failed)
    }

    /// A list as asked for.
    pub(crate) fn list(
        &self,
        resource: &Resource,
        mut metadata: Map<String, Value>,
        items: &[&Version],
    ) -> ApiResult<Bytes> {
        let api_version = resource.api_version();
        let content = match self.form {
            Form::Table => {
                let objects = items.iter().map(|version| served(resource, version));
                let table = table(resource, &Value::Object(metadata), objects, self.rows, true);
                return self.format.object(&table).map_err(failed);
            }
            Form::Partial => Content::Metadata,
            Form::Object | Form::Discovery => Content::Whole,
        };
        if content == Content::Whole && resource.is_custom() {
            metadata.entry("continue").or_insert_with(|| "".into());
        }
        let encode = |version: &&Version| match self.shared(resource) {
            Some(content) => version.encoded(self.format, content),
            None => Encoded::new(self.format, "", &self.formed(resource, served(resource, version)), None),
        };
        let items = items.iter().map(encode).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let head = match content {
            Content::Whole => ListHead { api_version: &api_version, kind: &resource.list_kind, metadata },
            Content::Metadata => ListHead { api_version: "meta.k8s.io/v1", kind: METADATA_LIST, metadata },
        };
        // Items of built-in kinds have neither `apiVersion` nor `kind`.
        let typed = content == Content::Whole && !resource.is_custom();
        match self.format {
            Format::Protobuf => head.protobuf(items.iter().map(Encoded::item)).map_err(failed),
            Format::Json | Format::Yaml if typed => Ok(head.json(items.iter().map(|item| [b"{", item.item()]))),
            Format::Json | Format::Yaml => Ok(head.json(items.iter().map(|item| [item.object_bytes(), b""]))),
        }
    }
}

/// A stored object in the form its resource serves.
pub(crate) fn served(resource: &Resource, version: &Version) -> Value {
    let mut object = Value::clone(&version.value());
    resource.to_served(&mut object);
    object
}
