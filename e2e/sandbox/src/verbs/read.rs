//! Getting and listing objects.

use std::{sync::Arc, time::Duration};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value, json};

use crate::{
    api::{
        fields::FieldSelector,
        names::{forbidden, quoted, unsupported},
        resource::{Key, Resource},
    },
    store::{Store, Version},
    value::{errors::FieldError, json, selector::LabelSelector},
    verbs::{
        core::Core,
        faults::Action,
        representation::served,
        request::Call,
        status::{ApiError, ApiResult},
    },
};

/// How long a read waits for a version that is still to come.
const PATIENCE: Duration = Duration::from_secs(3);

/// How tokens are encoded. As in the real decoder, bits behind the last byte are ignored.
const TOKENS: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Which objects of a collection are meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn of(call: &Call) -> ApiResult<Self> {
        let labels = LabelSelector::parse(call.query.text("labelSelector")).map_err(ApiError::bad_request)?;
        let fields =
            FieldSelector::parse(call.query.text("fieldSelector"), &call.resource).map_err(ApiError::bad_request)?;
        Ok(Self { labels, fields })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, resource: &Resource, version: &Version) -> bool {
        if !self.labels.matches(&version.labels) {
            return false;
        }
        if self.fields.is_empty() {
            true
        } else if resource.converts() {
            self.fields.matches(resource, &served(resource, version))
        } else {
            self.fields.matches(resource, &version.value())
        }
    }
}

/// Which state of the world a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// The newest, or any.
    Newest,
    AtLeast(u64),
    Exactly(u64),
    /// The next page: behind a key, as of a version (newest, if none).
    Next {
        behind: String,
        at: Option<u64>,
    },
}

pub(crate) struct Page {
    pub(crate) metadata: Map<String, Value>,
    pub(crate) items: Vec<Arc<Version>>,
}

fn parse_version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax", quoted(text))
    })
}

/// A bad option of a list or watch.
pub(crate) fn bad_option(errors: &[FieldError]) -> ApiError {
    ApiError::invalid_options("ListOptions", errors)
}

fn check_list_options(call: &Call) -> ApiResult<()> {
    let (version, matching) = (call.query.text("resourceVersion"), call.query.text("resourceVersionMatch"));
    let mut errors = Vec::new();
    if !matching.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(forbidden("resourceVersionMatch", why));
        }
        if !call.query.text("continue").is_empty() {
            errors.push(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden for continue"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            let supported = ["Exact", "NotOlderThan", ""];
            errors.push(unsupported("resourceVersionMatch", &quoted(matching), &supported));
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(forbidden("resourceVersionMatch", why));
        }
    }
    if call.query.get("sendInitialEvents").is_some() {
        errors.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if errors.is_empty() { Ok(()) } else { Err(bad_option(&errors)) }
}

fn wanted(call: &Call, limit: usize) -> ApiResult<Wanted> {
    let version = call.query.text("resourceVersion");
    let token = call.query.text("continue");
    if !token.is_empty() {
        let (behind, at) = read_token(token, call.namespace.as_deref())?;
        if !matches!(version, "" | "0") {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        return Ok(Wanted::Next { behind, at });
    }
    let bad = |why: String| ApiError::bad_request(format!("invalid resource version: {why}"));
    Ok(match (version, call.query.text("resourceVersionMatch")) {
        ("" | "0", _) => Wanted::Newest,
        (version, "Exact") => Wanted::Exactly(parse_version(version).map_err(bad)?),
        (version, "") if limit > 0 => Wanted::Exactly(parse_version(version).map_err(bad)?),
        (version, _) => Wanted::AtLeast(parse_version(version).map_err(bad)?),
    })
}

fn read_token(token: &str, namespace: Option<&str>) -> ApiResult<(String, Option<u64>)> {
    let bad = |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let text = TOKENS.decode(token).map_err(|why| bad(&why.to_string()))?;
    let parsed = json::parse(&text, &mut Vec::new()).map_err(|why| bad(&why))?;
    if parsed.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
        return Err(bad("server does not recognize this encoded version"));
    }
    let rv = parsed.get("rv").and_then(Value::as_i64).unwrap_or(0);
    if rv == 0 {
        return Err(bad("incorrect encoded start resourceVersion"));
    }
    let start = parsed.get("start").and_then(Value::as_str).unwrap_or_default();
    let start = start.trim_start_matches('/').trim_end_matches('\0');
    if start.is_empty() {
        return Err(bad("incorrect encoded start key"));
    }
    let behind = namespace.map_or_else(|| start.to_owned(), |n| format!("{n}/{start}"));
    Ok((behind, u64::try_from(rv).ok()))
}

fn write_token(rv: Option<u64>, last: &Key, namespace: Option<&str>) -> String {
    let start = match namespace {
        Some(_) => last.name(),
        None => last.as_str(),
    };
    let rv = rv.and_then(|rv| i64::try_from(rv).ok()).unwrap_or(-1);
    TOKENS.encode(json::text(&json!({"v": "meta.k8s.io/v1", "rv": rv, "start": format!("/{start}\0")})))
}

/// The stored version of the object that a request names.
pub(crate) fn find(store: &Store, call: &Call) -> ApiResult<Arc<Version>> {
    let found = store.get(&call.resource.table, &call.key());
    found.cloned().ok_or_else(|| ApiError::not_found(&call.resource, call.name()))
}

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

impl Core {
    /// Handles GET on an object.
    pub(crate) fn get(&self, call: &Call) -> ApiResult<Arc<Version>> {
        find(&self.store.lock(), call)
    }

    /// Waits until the store has reached a version that the request asks for.
    pub(crate) async fn await_version(&self, call: &Call, text: &str) -> ApiResult<()> {
        let Ok(wanted) = text.parse::<u64>() else { return Ok(()) };
        let end = self.clock.monotonic_now() + PATIENCE;
        loop {
            let (current, notify) = {
                let mut store = self.store.lock();
                (store.rv(), store.notify(&call.resource.table))
            };
            if current >= wanted {
                return Ok(());
            }
            if self.clock.monotonic_now() >= end {
                return Err(ApiError::future_version(wanted, current));
            }
            // Other tables move the version too: look again now and then.
            let pause = tokio::time::sleep(Duration::from_millis(100));
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = pause => {}
            }
        }
    }

    /// The version a list has to wait for; nothing if any will do.
    pub(crate) fn list_waits_for(call: &Call) -> ApiResult<Option<String>> {
        check_list_options(call)?;
        Ok(match wanted(call, 0)? {
            Wanted::AtLeast(rv) | Wanted::Exactly(rv) => Some(rv.to_string()),
            Wanted::Newest | Wanted::Next { .. } => None,
        })
    }

    /// Handles GET on a collection.
    pub(crate) fn list(&self, call: &Call, fault: Option<&Action>) -> ApiResult<Page> {
        let selection = Selection::of(call)?;
        let limit = usize::try_from(call.query.int("limit")?.unwrap_or(0)).unwrap_or(0);
        // A list from the cache comes in one piece.
        let cached = call.query.text("resourceVersion") == "0" && call.query.text("continue").is_empty();
        let limit = if cached { 0 } else { limit };
        let wanted = wanted(call, limit)?;
        let namespace = call.namespace.as_deref();
        let store = self.store.lock();
        let (behind, at) = match &wanted {
            Wanted::Newest | Wanted::AtLeast(_) => (None, None),
            Wanted::Exactly(rv) => (None, Some(*rv)),
            Wanted::Next { behind, at } => (Some(&**behind), *at),
        };
        let at = match fault {
            Some(Action::StaleList(ago)) => Some(at.unwrap_or(store.rv()).saturating_sub(*ago).max(1)),
            _ => at,
        };
        let current = at.unwrap_or(store.rv());
        let all = store.list(&call.resource.table, namespace, behind, at).map_err(|_| match &wanted {
            Wanted::Next { behind, .. } => {
                let mut error = ApiError::expired(CONTINUE_EXPIRED);
                error.resume = Some(write_token(None, &Key::from_path(behind), namespace));
                error
            }
            _ => ApiError::expired("The resourceVersion for the provided list is too old."),
        })?;
        drop(store);
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), current.to_string().into());
        let mut chosen = all.iter().filter(|(_, v)| selection.matches(&call.resource, v));
        let mut items: Vec<&(Key, Arc<Version>)> = Vec::new();
        if limit == 0 {
            items.extend(chosen);
        } else {
            items.extend(chosen.by_ref().take(limit));
            let more = chosen.count();
            if let (1.., Some((last, _))) = (more, items.last()) {
                let consistent = !matches!(&wanted, Wanted::Next { at: None, .. });
                metadata.insert("continue".into(), write_token(consistent.then_some(current), last, namespace).into());
                if selection.is_everything() {
                    metadata.insert("remainingItemCount".into(), more.into());
                }
            }
        }
        Ok(Page { metadata, items: items.into_iter().map(|(_, v)| v.clone()).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back() {
        let key = Key::new(Some("n"), "x");
        let (behind, at) = read_token(&write_token(Some(7), &key, Some("n")), Some("n")).unwrap();
        assert_eq!((&*behind, at), ("n/x", Some(7)));
        let (behind, at) = read_token(&write_token(None, &key, None), None).unwrap();
        assert_eq!((&*behind, at), ("n/x", None));
    }
}
