//! Reads a cluster with the rights of the caller. Every list is requested at most once.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    convert::Infallible,
    future::pending,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use common::{
    api::percent_encode,
    informer::{ACCEPT_JSON, ACCEPT_METADATA_LIST},
    partial_object::{ObjectPage, PartialObject},
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use k8s_openapi::{List, apimachinery::pkg::apis::meta::v1::APIGroup};
use kube::{
    Client,
    client::Body,
    core::response::{Status, StatusSummary},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tower::Service;

use crate::{
    connection::{Connection, format_error_with_causes},
    gather::read::ListableKind,
};

/// Resources without a namespace that control loops list.
const CLUSTER_RESOURCES: [&str; 4] = ["nodes", "namespaces", "persistentvolumes", "customresourcedefinitions"];
/// A list without objects. Loops receive it for a list that the caller may not read, and for a resource that is not served.
const EMPTY_LIST: &[u8] = br#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;

/// An answer of the API server: a body, or the reason for its absence.
#[derive(Clone, Debug)]
enum Answer {
    Body(bytes::Bytes),
    Refused { code: u16, why: String },
}

impl Answer {
    fn decode<T: DeserializeOwned>(self) -> Result<T, String> {
        match self {
            Self::Body(body) => serde_json::from_slice(&body).map_err(|why| why.to_string()),
            Self::Refused { why, .. } => Err(why),
        }
    }
}

type PendingAnswer = Shared<BoxFuture<'static, Answer>>;
/// Kind, namespace and field selector of a decoded list.
type ListKey = (TypeId, Option<String>, String);

/// The requests of one invocation, with their answers.
pub struct Reader {
    client: Client,
    timeout: Duration,
    namespace: Option<String>,
    answers: Mutex<BTreeMap<String, PendingAnswer>>,
    lists: Mutex<BTreeMap<ListKey, Arc<dyn Any + Send + Sync>>>,
    unread: Mutex<BTreeMap<String, String>>,
}

impl Reader {
    /// Creates a reader for one namespace, or for all namespaces.
    pub fn new(connection: &Connection, namespace: Option<&str>) -> Arc<Self> {
        Self::with_client(connection.client.clone(), connection.timeout, namespace)
    }

    /// Creates a reader that sends its requests with `client`.
    pub fn with_client(client: Client, timeout: Duration, namespace: Option<&str>) -> Arc<Self> {
        let namespace = namespace.map(str::to_owned);
        Arc::new(Self {
            client,
            timeout,
            namespace,
            answers: Mutex::default(),
            lists: Mutex::default(),
            unread: Mutex::default(),
        })
    }

    /// Returns what could not be read, with the reason, by resource.
    pub fn unread(&self) -> BTreeMap<String, String> {
        self.unread.lock().clone()
    }

    /// Whether `resource` could not be read, as plural name with the group: `replicasets.apps`.
    pub fn is_unread(&self, resource: &str) -> bool {
        self.unread.lock().contains_key(resource)
    }

    /// Returns how long all requests together may take.
    pub(super) fn limit(&self) -> Duration {
        self.timeout * 2
    }

    /// Returns how many requests have been sent.
    pub fn request_count(&self) -> usize {
        self.answers.lock().len()
    }

    /// Lists objects in a namespace with a field selector; without a namespace in the whole cluster.
    ///
    /// The list is empty if it cannot be read; see [`Self::unread`]. A reader for all namespaces reads a kind only once.
    pub(crate) async fn list<K: ListableKind>(self: &Arc<Self>, namespace: Option<&str>, fields: &str) -> Arc<Vec<K>> {
        let namespace = namespace.filter(|_| is_namespaced(K::URL_PATH_SEGMENT));
        let key = (TypeId::of::<K>(), namespace.map(str::to_owned), fields.to_owned());
        if let Some(known) = self.lists.lock().get(&key).cloned()
            && let Ok(known) = known.downcast()
        {
            return known;
        }
        let objects = match namespace.filter(|_| self.namespace.is_none() && fields.is_empty()) {
            Some(namespace) => {
                let all = Box::pin(self.list::<K>(None, "")).await;
                let is_inside = |object: &&K| object.metadata().namespace.as_deref() == Some(namespace);
                all.iter().filter(is_inside).cloned().collect()
            }
            None => {
                let query = if fields.is_empty() {
                    String::new()
                } else {
                    format!("?fieldSelector={}", percent_encode(fields))
                };
                let answer = self.answer(&format!("{}{query}", path::<K>(namespace))).await;
                self.decode_list::<K>(answer)
            }
        };
        let objects = Arc::new(objects);
        let erased: Arc<dyn Any + Send + Sync> = Arc::<Vec<K>>::clone(&objects);
        self.lists.lock().insert(key, erased);
        objects
    }

    /// Lists the metadata of the first objects of any kind in a namespace, in the version that the server prefers. `resource` has the
    /// form `widgets.example.com`.
    ///
    /// The list is empty if it cannot be read; see [`Self::unread`].
    pub(super) async fn list_metadata(self: &Arc<Self>, namespace: &str, resource: &str) -> Vec<PartialObject> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let root = if group.is_empty() {
            Ok("/api/v1".to_owned())
        } else {
            let group = self.answer(&format!("/apis/{group}")).await;
            group.decode::<APIGroup>().and_then(|group| {
                let preferred = group.preferred_version.ok_or("the API group has no version")?;
                Ok(format!("/apis/{}", preferred.group_version))
            })
        };
        let page = match root {
            Ok(root) => {
                let target = format!("{root}/namespaces/{}/{plural}?limit=100", percent_encode(namespace));
                self.answer_as(&target, ACCEPT_METADATA_LIST).await.decode::<ObjectPage<PartialObject>>()
            }
            Err(why) => Err(why),
        };
        match page {
            Ok(page) => page.items,
            Err(why) => {
                self.note_unread(resource.to_owned(), why);
                Vec::new()
            }
        }
    }

    /// Whether the namespace of the reader is known not to exist.
    pub(super) async fn lacks_namespace(self: &Arc<Self>) -> bool {
        let Some(namespace) = &self.namespace else { return false };
        let target = format!("/api/v1/namespaces/{}", percent_encode(namespace));
        matches!(self.answer(&target).await, Answer::Refused { code: 404, .. })
    }

    fn decode_list<K: ListableKind>(&self, answer: Answer) -> Vec<K> {
        match answer {
            Answer::Body(body) => match serde_json::from_slice::<List<K>>(&body) {
                Ok(list) => list.items,
                Err(why) => {
                    self.note_unread(resource_name::<K>(), why.to_string());
                    Vec::new()
                }
            },
            Answer::Refused { why, .. } => {
                self.note_unread(resource_name::<K>(), why);
                Vec::new()
            }
        }
    }

    fn note_unread(&self, resource: String, why: String) {
        self.unread.lock().entry(resource).or_insert(why);
    }

    /// Returns the answer to a GET of `target`, which is sent only once.
    async fn answer(self: &Arc<Self>, target: &str) -> Answer {
        self.answer_as(target, ACCEPT_JSON).await
    }

    /// Returns the answer to a GET of `target` with this `Accept` header.
    async fn answer_as(self: &Arc<Self>, target: &str, accept: &'static str) -> Answer {
        let answer = {
            let mut answers = self.answers.lock();
            let ask = || {
                let (client, target, timeout) = (self.client.clone(), target.to_owned(), self.timeout);
                async move { get(&client, &target, accept, timeout).await }.boxed().shared()
            };
            answers.entry(target.to_owned()).or_insert_with(ask).clone()
        };
        answer.await
    }

    /// Returns a client for control loops. It answers lists from the namespace of the reader, and it refuses to write. Its
    /// watches deliver nothing.
    pub fn loop_client(self: &Arc<Self>) -> Client {
        Client::new(LoopTransport(Arc::clone(self)), self.namespace.clone().unwrap_or_else(|| "default".to_owned()))
    }

    async fn answer_to_loop(self: Arc<Self>, request: Request<Body>) -> Response<Full<bytes::Bytes>> {
        if request.method() != Method::GET {
            return respond(StatusCode::FORBIDDEN, status_of(403, "this client only reads"));
        }
        let query = request.uri().query().unwrap_or_default();
        if query.split('&').any(|part| part.starts_with("watch=") && part != "watch=false" && part != "watch=0") {
            return pending().await;
        }
        let Some(list) = ListPath::parse(request.uri().path()) else {
            return match self.answer(request.uri().path()).await {
                Answer::Body(body) => respond(StatusCode::OK, body),
                Answer::Refused { code, why } => {
                    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    respond(status, status_of(code, &why))
                }
            };
        };
        let selectors: Vec<&str> = query.split('&').filter(|part| part.contains("Selector=")).collect();
        let path = list.in_namespace(self.namespace.as_deref());
        let target = if selectors.is_empty() { path } else { format!("{path}?{}", selectors.join("&")) };
        match self.answer(&target).await {
            Answer::Body(body) => respond(StatusCode::OK, body),
            Answer::Refused { code, why } => {
                // A server without the resource has no objects of it.
                if code != 404 {
                    self.note_unread(list.resource(), why);
                }
                respond(StatusCode::OK, bytes::Bytes::from_static(EMPTY_LIST))
            }
        }
    }
}

async fn get(client: &Client, target: &str, accept: &str, timeout: Duration) -> Answer {
    let failed = |why: String| Answer::Refused { code: 500, why };
    let request = Request::get(target).header(header::ACCEPT, accept).body(Body::empty());
    let request = match request {
        Ok(request) => request,
        Err(why) => return failed(why.to_string()),
    };
    let exchange = async {
        let answer = client.send(request).await.map_err(|why| failed(format_error_with_causes(&why)))?;
        let status = answer.status();
        let body = answer.into_body().collect_bytes().await.map_err(|why| failed(format_error_with_causes(&why)))?;
        if status.is_success() {
            return Ok(body);
        }
        let said = serde_json::from_slice::<Status>(&body).map(|status| status.message).unwrap_or_default();
        let why = if said.is_empty() { format!("the server answers {status}") } else { said };
        Err(Answer::Refused { code: status.as_u16(), why: crate::facts::to_one_line(&why) })
    };
    match tokio::time::timeout(timeout, exchange).await {
        Ok(Ok(body)) => Answer::Body(body),
        Ok(Err(refused)) => refused,
        Err(_) => failed(format!("no answer within {}", common::duration::format(timeout))),
    }
}

fn respond(code: StatusCode, body: bytes::Bytes) -> Response<Full<bytes::Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn status_of(code: u16, message: &str) -> bytes::Bytes {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        _ => "InternalError",
    };
    let mut status = Status::failure(message, reason).with_code(code);
    status.status = Some(StatusSummary::Failure);
    serde_json::to_vec(&status).unwrap_or_default().into()
}

fn is_namespaced(plural: &str) -> bool {
    !CLUSTER_RESOURCES.contains(&plural)
}

/// Returns the path of the list of `K`.
fn path<K: ListableKind>(namespace: Option<&str>) -> String {
    let (group, version, plural) = (K::GROUP, K::VERSION, K::URL_PATH_SEGMENT);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{}/{plural}", percent_encode(namespace)),
        None => format!("{root}/{plural}"),
    }
}

/// Returns the plural name of `K` with its group, in the form that `kubectl auth can-i` takes.
pub(super) fn resource_name<K: ListableKind>() -> String {
    with_group(K::URL_PATH_SEGMENT, K::GROUP)
}

fn with_group(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// The parts of the path of a list in all namespaces.
struct ListPath<'a> {
    root: &'a str,
    group: &'a str,
    plural: &'a str,
}

impl<'a> ListPath<'a> {
    /// Parses the path of a list in all namespaces; `None` for every other path.
    fn parse(path: &'a str) -> Option<Self> {
        let (root, plural) = path.rsplit_once('/')?;
        let mut segments = root.trim_start_matches('/').split('/');
        let group = match (segments.next()?, segments.next()?, segments.next()) {
            ("api", _, None) => "",
            ("apis", group, Some(_)) if segments.next().is_none() => group,
            _ => return None,
        };
        Some(Self { root, group, plural })
    }

    fn in_namespace(&self, namespace: Option<&str>) -> String {
        match namespace.filter(|_| is_namespaced(self.plural)) {
            Some(namespace) => format!("{}/namespaces/{}/{}", self.root, percent_encode(namespace), self.plural),
            None => format!("{}/{}", self.root, self.plural),
        }
    }

    fn resource(&self) -> String {
        with_group(self.plural, self.group)
    }
}

/// The transport of [`Reader::loop_client`].
#[derive(Clone)]
struct LoopTransport(Arc<Reader>);

impl Service<Request<Body>> for LoopTransport {
    type Response = Response<Full<bytes::Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(Arc::clone(&self.0).answer_to_loop(request).map(Ok))
    }
}
