//! Safeguards of the controllers, each of which can be taken away in a simulation, to see that something notices.
//!
//! Nothing in a controller knows of this. What is taken away is taken away around it: in its settings, in its permission to
//! write, or on its way to the API server.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use parking_lot::Mutex;
use serde_json::Value;

use super::{hub::Asked, json::text};

/// A safeguard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Safeguard {
    /// A sync waits until the caches show the process's own writes.
    Consistency,
    /// A controller reads an object from the server before it adopts an object or evicts a Pod from a node.
    Recheck,
    /// A process that has lost its Lease does not write.
    Leadership,
    /// A new leader waits until its caches show the writes of its predecessor.
    Succession,
    /// Writes name the uid of their object, and deletions its version as well, which no other object has.
    Uid,
    /// Deletions, and patches of anything but a status, name the version of the object that the decision was made on.
    Version,
    /// A controller that was cut off from the server does not blame the nodes for missing heartbeats.
    Blindness,
    /// The name of a Job of a CronJob is derived from its scheduled time.
    Name,
    /// The account of a sync contains every change and every deletion before it is sent.
    Account,
    /// The account of a sync contains every object that it creates.
    Creation,
}

/// What takes a safeguard away on the way between a process and the server.
pub(super) struct Seam {
    without: Safeguard,
    /// Objects as the process' own watches have shown them last, by kind, namespace and name.
    cache: Mutex<BTreeMap<(String, String, String), Bytes>>,
}

impl Seam {
    /// The seam of a process without that safeguard, if that is where it is taken away.
    pub(super) fn of(without: Option<Safeguard>) -> Option<Self> {
        use Safeguard::{Blindness, Name, Recheck, Uid, Version};
        let without = without.filter(|s| matches!(s, Recheck | Uid | Version | Name | Blindness))?;
        Some(Self { without, cache: Mutex::default() })
    }

    /// What is sent instead of a request, or what it is answered with without being sent.
    pub(super) fn send(&self, asked: &Asked, request: Request<Bytes>) -> Result<Request<Bytes>, Bytes> {
        match self.without {
            Safeguard::Recheck => match self.cached(asked) {
                Some(object) => Err(object),
                None => Ok(request),
            },
            Safeguard::Uid => Ok(in_json(request).map(|body| {
                let body = without(&asked.method, "uid", body);
                if asked.method == Method::DELETE { without(&asked.method, "resourceVersion", body) } else { body }
            })),
            Safeguard::Version if matches!(asked.method, Method::DELETE | Method::PUT) || asked.patches_an_object() => {
                Ok(in_json(request).map(|body| without(&asked.method, "resourceVersion", body)))
            }
            Safeguard::Name if asked.method == Method::POST && asked.path.ends_with("/jobs") => {
                Ok(in_json(request).map(with_generated_name))
            }
            Safeguard::Blindness if asked.proves_sight() => Err(Bytes::from_static(SIGN_OF_SIGHT)),
            Safeguard::Blindness
            | Safeguard::Name
            | Safeguard::Version
            | Safeguard::Account
            | Safeguard::Creation
            | Safeguard::Consistency
            | Safeguard::Leadership
            | Safeguard::Succession => Ok(request),
        }
    }

    /// Whether a watch that breaks seems to go on, without any news.
    pub(super) fn hides_cuts(&self) -> bool {
        self.without == Safeguard::Blindness
    }

    fn cached(&self, asked: &Asked) -> Option<Bytes> {
        if asked.method != Method::GET {
            return None;
        }
        let segments: Vec<&str> = asked.path.split('/').filter(|s| !s.is_empty()).collect();
        let (namespace, plural, name) = match *segments.get(segments.len().checked_sub(4)?..)? {
            ["namespaces", namespace, plural, name] => (namespace, plural, name),
            ["api", "v1", "nodes", name] => ("", "nodes", name),
            _ => return None,
        };
        // A plural is the kind in small letters and an s, for all that controllers adopt for.
        let key = (plural.strip_suffix('s')?.to_owned(), namespace.to_owned(), name.to_owned());
        self.cache.lock().get(&key).cloned()
    }

    pub(super) fn watched(&self, frames: &Bytes) {
        if self.without != Safeguard::Recheck {
            return;
        }
        let mut cache = self.cache.lock();
        for event in events(frames) {
            let object = &event["object"];
            let kind = text(object, "/kind").to_lowercase();
            let key = (kind, text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned());
            match text(&event, "/type") {
                "ADDED" | "MODIFIED" => _ = cache.insert(key, Bytes::from(object.to_string())),
                "DELETED" => _ = cache.remove(&key),
                _ => {}
            }
        }
    }
}

/// The events in what a watch has brought at once: lines of JSON, or protobuf messages with their lengths.
fn events(mut frames: &[u8]) -> Vec<Value> {
    if frames.starts_with(b"{") {
        return frames.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    }
    let mut events = Vec::new();
    while let Some((length, rest)) = frames.split_first_chunk::<4>() {
        let Some((frame, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize) else { break };
        events.extend(sandbox::protobuf::parse_event(frame));
        frames = rest;
    }
    events
}

const SIGN_OF_SIGHT: &[u8] =
    br#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}"#;

/// The same request, with a body in JSON instead of protobuf.
fn in_json(mut request: Request<Bytes>) -> Request<Bytes> {
    if let Ok(object) = sandbox::protobuf::parse(request.body()) {
        *request.body_mut() = Bytes::from(object.to_string());
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    request
}

/// A write that does not say of which uid, or of which version, the object is that it is meant for.
fn without(method: &Method, field: &str, body: Bytes) -> Bytes {
    let pointer = match *method {
        Method::DELETE => "/preconditions",
        Method::PATCH | Method::PUT => "/metadata",
        _ => return body,
    };
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else { return body };
    if let Some(object) = value.pointer_mut(pointer).and_then(Value::as_object_mut) {
        object.remove(field);
    }
    Bytes::from(value.to_string())
}

fn with_generated_name(body: Bytes) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(&body) else { return body };
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(Value::String(name)) = metadata.remove("name")
    {
        metadata.insert("generateName".to_owned(), Value::String(format!("{name}-")));
    }
    Bytes::from(value.to_string())
}
