//! Which form and format of an answer a client accepts.

use http::HeaderMap;

use crate::{
    api::protobuf,
    store::encoding::Format,
    verbs::status::{ApiError, ApiResult},
};

/// How an object or a list is to be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Table,
    Partial,
    Discovery,
}

/// What an endpoint serves in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protobuf {
    /// Nothing: the server does not know the format.
    Unknown,
    /// Only what is the same for all kinds: metadata and refusals.
    Metadata,
    All,
}

/// What the client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) form: Form,
    pub(crate) format: Format,
}

/// A media type in an `Accept` header.
#[derive(Clone, Copy, Debug, Default)]
struct Clause<'a> {
    media: &'a str,
    /// The form that is asked for, with its group and version.
    name: &'a str,
    group: &'a str,
    version: &'a str,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Self { media: parts.next().unwrap_or_default(), ..Self::default() };
        for parameter in parts {
            match parameter.split_once('=') {
                Some(("as", value)) => clause.name = value,
                Some(("g", value)) => clause.group = value,
                Some(("v", value)) => clause.version = value,
                _ => {}
            }
        }
        clause
    }

    fn format(&self, protobuf: Protobuf) -> Option<Format> {
        Some(match self.media {
            "application/json" | "*/*" | "application/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            protobuf::MEDIA_TYPE if protobuf != Protobuf::Unknown => Format::Protobuf,
            _ => return None,
        })
    }

    /// Whether no transformation is asked for.
    fn is_plain(&self) -> bool {
        self.name.is_empty() && self.group.is_empty() && self.version.is_empty()
    }

    fn form(&self, wants: Wants) -> Option<Form> {
        let meta = self.group == "meta.k8s.io" && matches!(self.version, "v1" | "v1beta1");
        Some(match (self.name, wants) {
            ("", _) => Form::Object,
            ("Table", Wants::Object | Wants::List | Wants::Watch) if meta => Form::Table,
            ("PartialObjectMetadata", Wants::Object | Wants::Watch) | ("PartialObjectMetadataList", Wants::List)
                if meta =>
            {
                Form::Partial
            }
            ("APIGroupDiscoveryList", Wants::Discovery)
                if self.group == "apidiscovery.k8s.io" && self.version == "v2" =>
            {
                Form::Discovery
            }
            _ => return None,
        })
    }
}

/// The `Accept` headers joined into one; none if they are empty.
fn accepted(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(http::header::ACCEPT);
    let joined: Vec<&str> = values.iter().filter_map(|v| v.to_str().ok()).collect();
    Some(joined.join(",")).filter(|joined| !joined.trim().is_empty())
}

impl Accept {
    /// The first acceptable form and format that the endpoint serves; JSON if the client names none.
    pub(crate) fn negotiate(headers: &HeaderMap, wants: Wants, protobuf: Protobuf) -> ApiResult<Self> {
        let Some(joined) = accepted(headers) else { return Ok(Self { form: Form::Object, format: Format::Json }) };
        let mut known = false;
        for clause in joined.split(',').map(Clause::parse) {
            let Some(format) = clause.format(protobuf) else { continue };
            known = true;
            let Some(form) = clause.form(wants) else { continue };
            let served = format != Format::Protobuf
                || match form {
                    Form::Object => protobuf == Protobuf::All,
                    Form::Partial => true,
                    Form::Table | Form::Discovery => false,
                };
            if served {
                return Ok(Self { form, format });
            }
        }
        let formats = match protobuf {
            Protobuf::Unknown => "application/json, application/yaml",
            Protobuf::Metadata | Protobuf::All => {
                "application/json, application/yaml, application/vnd.kubernetes.protobuf"
            }
        };
        let streams = match (wants, protobuf) {
            (Wants::Object | Wants::Discovery, _) => "",
            (_, Protobuf::Unknown) => ", application/json;stream=watch",
            _ => ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
        };
        let message = if known {
            format!("only the following media types are accepted: {formats}")
        } else {
            format!("406: Not Acceptable\n\nAvailable representations: {formats}{streams}")
        };
        Err(ApiError::new(406, "NotAcceptable", message))
    }

    /// The format of a `Status` or of another object that has one form only.
    ///
    /// Media types with a transformation do not count. If none is left, it is JSON.
    /// Upstream: `responsewriters.ErrorNegotiated`.
    pub(crate) fn plain_format(headers: &HeaderMap, protobuf: Protobuf) -> Format {
        let joined = accepted(headers).unwrap_or_default();
        let mut plain = joined.split(',').map(Clause::parse).filter(Clause::is_plain);
        plain.find_map(|clause| clause.format(protobuf)).unwrap_or(Format::Json)
    }
}

/// What kind of answer is negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Object,
    List,
    Watch,
    Discovery,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(header: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, header.parse().unwrap());
        headers
    }

    fn accept(header: &str, wants: Wants, protobuf: Protobuf) -> Result<(Form, Format), u16> {
        let accepted = Accept::negotiate(&headers(header), wants, protobuf);
        accepted.map(|accept| (accept.form, accept.format)).map_err(|error| error.code)
    }

    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

    #[test]
    fn the_first_wish_that_can_be_met_counts() {
        let get = |header: &str, wants| accept(header, wants, Protobuf::All);
        assert_eq!(get(TABLE, Wants::List), Ok((Form::Table, Format::Json)));
        assert_eq!(get(TABLE, Wants::Discovery), Ok((Form::Object, Format::Json)));
        assert_eq!(get("*/*", Wants::Object), Ok((Form::Object, Format::Json)));
        assert_eq!(get("text/html", Wants::Object), Err(406));
        assert_eq!(get("application/json;as=Table;v=v1;g=foo", Wants::List), Err(406));
        let both = format!("{PROTOBUF},application/json");
        assert_eq!(get(&both, Wants::List), Ok((Form::Object, Format::Protobuf)));
        assert_eq!(get(&format!("application/json,{PROTOBUF}"), Wants::List), Ok((Form::Object, Format::Json)));
        assert_eq!(get(&format!("{PROTOBUF};stream=watch"), Wants::Watch), Ok((Form::Object, Format::Protobuf)));
        assert_eq!(get(&format!("{PROTOBUF};as=Table;v=v1;g=meta.k8s.io"), Wants::Object), Err(406));
    }

    #[test]
    fn custom_resources_are_served_in_protobuf_as_metadata_only() {
        let get = |header: &str, wants| accept(header, wants, Protobuf::Metadata);
        assert_eq!(get(&format!("{PROTOBUF},application/json"), Wants::List), Ok((Form::Object, Format::Json)));
        assert_eq!(get(PROTOBUF, Wants::Object), Err(406));
        let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        assert_eq!(get(&metadata, Wants::Watch), Ok((Form::Partial, Format::Protobuf)));
        assert_eq!(get(&metadata, Wants::List), Err(406));
    }

    #[test]
    fn a_server_without_protobuf_answers_in_the_next_format() {
        let both = format!("{PROTOBUF},application/json");
        assert_eq!(accept(&both, Wants::Watch, Protobuf::Unknown), Ok((Form::Object, Format::Json)));
        assert_eq!(accept(PROTOBUF, Wants::Watch, Protobuf::Unknown), Err(406));
    }

    #[test]
    fn refusals_come_in_the_first_format_without_a_transformation() {
        let format = |header: &str| Accept::plain_format(&headers(header), Protobuf::Metadata);
        assert_eq!(format(PROTOBUF), Format::Protobuf);
        let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
        assert_eq!(format(&metadata), Format::Json);
        assert_eq!(format(&format!("{metadata},{PROTOBUF}")), Format::Protobuf);
        assert_eq!(format("text/html"), Format::Json);
        assert_eq!(Accept::plain_format(&headers(PROTOBUF), Protobuf::Unknown), Format::Json);
    }
}
