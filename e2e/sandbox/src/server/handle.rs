//! From an HTTP request to an HTTP response: routing, rights, faults, and the answer's form.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    api::{names::quoted, protobuf, resource::Resource},
    server::{
        discovery, reviews,
        transport::{ResponseBody, full, stream},
    },
    store::encoding::Format,
    value::{json, object::meta},
    verbs::{
        accept::{Accept, Protobuf, Wants},
        access::Attributes,
        core::Core,
        decode::parse_body,
        delete::Deleted,
        faults::{Action, Subject},
        reply::Reply,
        representation::Representation,
        request::{Call, Query, segments, verb},
        status::{ApiError, ApiResult, ConnectionCut},
        write::{Part, Written, author, subject},
    },
};

/// Bytes of a body that the server takes at most.
const LARGEST_BODY: usize = 3 << 20;
const TEXT: &str = "text/plain; charset=utf-8";

enum Route {
    /// A resource, an object, or a subresource.
    Resource {
        resource: Arc<Resource>,
        namespace: Option<String>,
        name: Option<String>,
        sub: Option<String>,
    },
    /// A review that is answered and not stored.
    Review {
        group: String,
        plural: String,
        namespace: Option<String>,
    },
    Other(Vec<String>),
}

impl Core {
    pub(crate) async fn handle(
        self: &Arc<Self>,
        identity: &str,
        request: Request<Bytes>,
    ) -> Result<Response<ResponseBody>, ConnectionCut> {
        if self.faults.is_down() {
            return Err(ConnectionCut);
        }
        let (parts, body) = request.into_parts();
        let protobuf = if self.setup.protobuf { Protobuf::All } else { Protobuf::Unknown };
        let plain = Accept::plain_format(&parts.headers, protobuf);
        let refuse = |error: &ApiError| Ok(refusal(error, plain, &[]));
        let identity = match self.impersonated(identity, &parts.headers) {
            Ok(identity) => identity,
            Err(error) => return refuse(&error),
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let header = |name: header::HeaderName| {
            parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
        };
        let route = match self.route(parts.uri.path()) {
            Ok(route) => route,
            Err(error) => return refuse(&error),
        };
        let (resource, namespace, name, sub) = match route {
            Route::Other(segments) => {
                let reply = discovery::reply(self, &parts, &segments);
                return Ok(respond(reply, plain, plain, &[]));
            }
            Route::Review { group, plural, namespace } => {
                self.requests.add(identity, "create", crate::api::resource::qualify(&plural, &group));
                let content = header(header::CONTENT_TYPE);
                let media = content.split(';').next().unwrap_or_default().trim();
                if let Some(error) = self.unknown_format(media) {
                    return refuse(&error);
                }
                let (what, body) = ((&*group, &*plural), (media, &body));
                let reply = reviews::reply(self, identity, &parts.method, what, namespace.as_deref(), body);
                return Ok(respond(reply, plain, plain, &[]));
            }
            Route::Resource { resource, namespace, name, sub } => (resource, namespace, name, sub),
        };
        let watch = name.is_none() && query.flag("watch") == Some(true);
        let Some(verb) = verb(&parts.method, name.is_some(), watch) else {
            return refuse(&ApiError::method_not_allowed());
        };
        let wants = match verb {
            "watch" => Wants::Watch,
            "list" | "deletecollection" => Wants::List,
            _ => Wants::Object,
        };
        // Custom resources exist as JSON only; the scale of one is an object of a built-in kind.
        let protobuf = match protobuf {
            Protobuf::All if resource.is_custom() && sub.as_deref() != Some("scale") => Protobuf::Metadata,
            protobuf => protobuf,
        };
        let accept = match Accept::negotiate(&parts.headers, wants, protobuf) {
            Ok(accept) => accept,
            Err(error) => return refuse(&error),
        };
        let mut call = Call {
            resource,
            namespace,
            name,
            sub,
            verb,
            identity: identity.to_owned(),
            agent: header(header::USER_AGENT),
            query,
            accept,
            content_type: header(header::CONTENT_TYPE),
            body,
            warnings: Vec::new(),
        };
        self.count(&call);
        if call.body.len() > LARGEST_BODY {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            return refuse(&ApiError::new(413, "RequestEntityTooLarge", message));
        }
        if let Some(error) = self.unknown_format(call.media()) {
            return refuse(&error);
        }
        let fault = self.fault(&call);
        match &fault {
            Some(Action::CutBefore) => return Err(ConnectionCut),
            Some(Action::Latency(time)) => tokio::time::sleep(*time).await,
            Some(action) => {
                if let Some(error) = fault_error(action, &call) {
                    return refuse(&error);
                }
            }
            None => {}
        }
        let result = match self.authorize(&call) {
            Err(error) => Err(error),
            Ok(()) => {
                let delay = self.webhooks.delay(&subject(
                    &author(&call),
                    &call.resource,
                    call.namespace.as_deref(),
                    call.name.as_deref(),
                ));
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                self.dispatch(&mut call, fault.as_ref()).await
            }
        };
        if self.faults.is_down() || fault == Some(Action::CutAfter) {
            return Err(ConnectionCut);
        }
        if let Some(Action::LateAnswer(by)) = fault {
            tokio::time::sleep(by).await;
        }
        Ok(respond(result, call.accept.format, plain, &call.warnings))
    }

    /// The refusal of a body in protobuf by a server that does not know the format.
    fn unknown_format(&self, media: &str) -> Option<ApiError> {
        let unknown = !self.setup.protobuf && media == protobuf::MEDIA_TYPE;
        unknown.then(|| ApiError::unknown_format("application/json, application/yaml"))
    }

    /// Whom the caller acts for: itself, unless it asks to be someone else and may.
    fn impersonated<'a>(&self, identity: &'a str, headers: &'a HeaderMap) -> ApiResult<&'a str> {
        let Some(wanted) = headers.get("Impersonate-User").and_then(|v| v.to_str().ok()) else { return Ok(identity) };
        let attributes =
            Attributes { verb: "impersonate", resource: "users", name: Some(wanted), ..Attributes::default() };
        self.access.check(&self.store.lock(), identity, &attributes).map(|()| wanted)
    }

    fn count(&self, call: &Call) {
        let mut resource = call.resource.qualified();
        if let Some(sub) = &call.sub {
            resource.push('/');
            resource.push_str(sub);
        }
        if matches!(call.verb, "list" | "watch") {
            let selector = call.query.text("fieldSelector");
            self.requests.add_selector(&call.identity, call.verb, resource.clone(), selector);
        }
        self.requests.add(&call.identity, call.verb, resource);
    }

    fn fault(&self, call: &Call) -> Option<Action> {
        let in_body = || -> Option<String> {
            if call.verb != "create" || call.sub.is_some() {
                return None;
            }
            let body = parse_body(call, &mut Vec::new()).ok()?.ok()?;
            Some(meta(&body, "name").to_owned()).filter(|n| !n.is_empty())
        };
        if self.faults.is_quiet() {
            return None;
        }
        let name = call.name.clone().or_else(in_body);
        self.faults.on_request(&Subject {
            identity: &call.identity,
            verb: call.verb,
            plural: &call.resource.plural,
            sub: call.sub.as_deref(),
            namespace: call.namespace.as_deref(),
            name: name.as_deref(),
        })
    }

    fn authorize(&self, call: &Call) -> ApiResult<()> {
        // A selector for one name asks for that object.
        let selected = call.query.text("fieldSelector").split(',').find_map(|t| t.strip_prefix("metadata.name="));
        let attributes = Attributes {
            verb: call.verb,
            group: &call.resource.group,
            resource: &call.resource.plural,
            sub: call.sub.as_deref(),
            namespace: call.namespace.as_deref(),
            name: call.name.as_deref().or(selected),
        };
        self.access.check(&self.store.lock(), &call.identity, &attributes)
    }

    fn route(&self, path: &str) -> ApiResult<Route> {
        let segments = segments(path);
        let texts: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match texts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return Ok(Route::Other(segments)),
        };
        let registry = self.registry();
        if !registry.has_version(group, version) && !reviews::has_version(group, version) {
            return Err(ApiError::no_path());
        }
        let (namespace, rest) = match rest {
            // What is below a namespace, unless it is the namespace's own subresource.
            ["namespaces", namespace, plural, rest @ ..]
                if !(matches!(*plural, "status" | "finalize") && rest.is_empty() && group.is_empty()) =>
            {
                (Some(*namespace), [&[*plural], rest].concat())
            }
            rest => (None, rest.to_vec()),
        };
        let (plural, name, sub, deeper) = match rest.as_slice() {
            [plural] => (*plural, None, None, false),
            [plural, name] => (*plural, Some(*name), None, false),
            [plural, name, sub] => (*plural, Some(*name), Some(*sub), false),
            [plural, name, sub, ..] => (*plural, Some(*name), Some(*sub), true),
            [] => return Err(ApiError::no_resource()),
        };
        if reviews::is_review(group, plural) && name.is_none() {
            return Ok(Route::Review {
                group: group.into(),
                plural: plural.into(),
                namespace: namespace.map(str::to_owned),
            });
        }
        let resource = registry.get(group, version, plural).cloned().ok_or_else(ApiError::no_resource)?;
        let misplaced = if resource.namespaced { namespace.is_none() && name.is_some() } else { namespace.is_some() };
        if misplaced || deeper || sub.is_some_and(|sub| resource.sub(sub).is_none()) {
            return Err(ApiError::no_resource());
        }
        Ok(Route::Resource {
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            sub: sub.map(str::to_owned),
            resource,
        })
    }

    async fn dispatch(self: &Arc<Self>, call: &mut Call, fault: Option<&Action>) -> ApiResult<Reply> {
        let collection = call.name.is_none();
        let allowed = match &call.sub {
            None => call.resource.allows(call.verb) && (collection || call.verb != "create"),
            Some(sub) => call.resource.sub(sub).is_some_and(|s| s.verbs.iter().any(|v| v == call.verb)),
        };
        let everywhere = call.resource.namespaced && call.namespace.is_none();
        if !allowed || (collection && matches!(call.verb, "update" | "patch")) {
            return Err(ApiError::method_not_allowed());
        }
        if everywhere && !matches!(call.verb, "list" | "watch") {
            return Err(ApiError::method_not_allowed());
        }
        let wait = match call.verb {
            "list" => Self::list_waits_for(call)?,
            "watch" => Self::watch_waits_for(call)?,
            "get" if !matches!(call.query.text("resourceVersion"), "" | "0") => {
                Some(call.query.text("resourceVersion").to_owned())
            }
            _ => None,
        };
        if let Some(version) = wait {
            self.await_version(call, &version).await?;
        }
        if let Some(sub) = call.sub.clone()
            && !matches!(&*sub, "status" | "finalize")
        {
            return self.subresource(call, &sub);
        }
        let part = match call.sub.as_deref() {
            None => Part::Main,
            Some("finalize") => Part::Finalize,
            Some(_) => Part::Status,
        };
        let representation = Representation::of(call, self.now())?;
        let written = |written: Written, status: StatusCode, call: &Call| {
            let body = match written {
                Written::Stored(version) => representation.version(&call.resource, &version),
                Written::Loose(object) => representation.object(&call.resource, object),
            };
            Ok(Reply::Encoded(status, body?))
        };
        match call.verb {
            "get" => {
                let found = self.get(call)?;
                Ok(Reply::Encoded(StatusCode::OK, representation.version(&call.resource, &found)?))
            }
            "list" => {
                let page = self.list(call, fault)?;
                let items: Vec<_> = page.items.iter().map(|v| &**v).collect();
                let body = representation.list(&call.resource, page.metadata, &items)?;
                Ok(Reply::Encoded(StatusCode::OK, body))
            }
            "watch" => Ok(Reply::Watch(Box::new(self.watch(call)?))),
            "create" => {
                let new = self.create(call)?;
                written(new, StatusCode::CREATED, call)
            }
            "update" => {
                let (new, created) = self.replace(call, part)?;
                written(new, if created { StatusCode::CREATED } else { StatusCode::OK }, call)
            }
            "patch" => {
                let (new, created) = self.patch(call, part)?;
                written(new, if created { StatusCode::CREATED } else { StatusCode::OK }, call)
            }
            "delete" => {
                let (deleted, whole) = self.delete(call)?;
                deleted_reply(&deleted, whole, call, &representation)
            }
            "deletecollection" => {
                let page = self.delete_collection(call)?;
                let items: Vec<_> = page.items.iter().map(|v| &**v).collect();
                Ok(Reply::Encoded(StatusCode::OK, representation.list(&call.resource, page.metadata, &items)?))
            }
            _ => Err(ApiError::method_not_allowed()),
        }
    }
}

fn deleted_reply(deleted: &Deleted, whole: bool, call: &Call, representation: &Representation) -> ApiResult<Reply> {
    let resource = &call.resource;
    let body = match deleted {
        Deleted::Gone(version) | Deleted::Marked(version) if whole => representation.version(resource, version)?,
        Deleted::Would(object) if whole => {
            let mut object = object.clone();
            resource.to_served(&mut object);
            representation.object(resource, object)?
        }
        Deleted::Gone(version) | Deleted::Marked(version) => {
            return Ok(Reply::Object(StatusCode::OK, success(call, &version.value())));
        }
        Deleted::Would(object) => return Ok(Reply::Object(StatusCode::OK, success(call, object))),
    };
    Ok(Reply::Encoded(StatusCode::OK, body))
}

fn success(call: &Call, object: &Value) -> Value {
    let mut details = call.resource.details(call.name());
    details["uid"] = meta(object, "uid").into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// The refusal a fault makes of a request.
fn fault_error(action: &Action, call: &Call) -> Option<ApiError> {
    Some(match action {
        Action::Conflict => ApiError::stale(&call.resource, call.name()),
        Action::TooManyRequests(seconds) => ApiError::retry_later(
            429,
            "TooManyRequests",
            "The server has received too many requests and has asked us to try again later",
            *seconds,
        ),
        Action::Forbidden => {
            let message = format!("{} \"{}\" is forbidden: injected fault", call.resource.plural, call.name());
            ApiError::forbidden(call.resource.details(call.name()), message)
        }
        Action::Invalid => ApiError::invalid(&call.resource, call.name(), &[]),
        Action::InternalError => ApiError::internal("injected fault"),
        Action::Unavailable => {
            ApiError::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        }
        Action::Timeout => ApiError::new(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
        ),
        _ => return None,
    })
}

/// Puts an answer into HTTP. `format` is the format of the answer, `plain` that of a refusal.
fn respond(reply: ApiResult<Reply>, format: Format, plain: Format, warnings: &[String]) -> Response<ResponseBody> {
    let (status, media, body) = match reply {
        Err(error) => return refusal(&error, plain, warnings),
        Ok(Reply::Object(status, object)) => match format.object(&object) {
            Ok(body) => (status, format.media_type(), full(body)),
            Err(why) => return refusal(&ApiError::internal(why), plain, warnings),
        },
        Ok(Reply::Encoded(status, body)) => (status, format.media_type(), full(body)),
        Ok(Reply::Json(status, body)) => (status, Format::Json.media_type(), full(body)),
        Ok(Reply::Typed(media, body)) => (StatusCode::OK, media, full(body)),
        Ok(Reply::Text(status, text)) => (status, TEXT, full(text.into())),
        Ok(Reply::Watch(watch)) => (StatusCode::OK, format.stream_media_type(), stream(*watch)),
    };
    finish(status, media, body, warnings, None)
}

fn refusal(error: &ApiError, format: Format, warnings: &[String]) -> Response<ResponseBody> {
    let status = error.body();
    // The real server has refusals in YAML, too.
    let protobuf = if format == Format::Protobuf { format.object(&status).ok() } else { None };
    let (media, body) = match protobuf {
        _ if error.plain => (TEXT, error.message.clone().into()),
        Some(body) => (format.media_type(), body),
        None => (Format::Json.media_type(), json::body(&status)),
    };
    finish(error.status(), media, full(body), warnings, error.retry_after)
}

fn finish(
    status: StatusCode,
    media: &'static str,
    body: ResponseBody,
    warnings: &[String],
    retry_after: Option<u64>,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(warning))) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

/// The answer to a token that nobody was given.
pub(crate) fn unauthorized(core: &Core, headers: &HeaderMap) -> Response<ResponseBody> {
    let protobuf = if core.setup.protobuf { Protobuf::All } else { Protobuf::Unknown };
    refusal(&ApiError::new(401, "Unauthorized", "Unauthorized"), Accept::plain_format(headers, protobuf), &[])
}
