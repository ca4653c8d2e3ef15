//! Requests that read, with what is to be said about those that fail.

use http::{Request, Response, StatusCode, header};
use k8s_openapi::{List, ListableResource, Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Error, client::Body};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    connection::{Connection, described},
    facts::{Read, Unreadable},
};

/// How many objects one page of a list has.
const PAGE: usize = 500;

/// A kind that can be read.
pub(crate) trait Readable:
    k8s_openapi::Resource + ListableResource + Metadata<Ty = ObjectMeta> + DeserializeOwned + Send + 'static
{
}

impl<K> Readable for K where
    K: k8s_openapi::Resource + ListableResource + Metadata<Ty = ObjectMeta> + DeserializeOwned + Send + 'static
{
}

/// Where objects are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// In one namespace.
    In(&'a str),
    /// In all namespaces.
    Everywhere,
    /// In none: the kind has no namespaces.
    Cluster,
}

impl Place<'_> {
    fn namespace(self) -> Option<String> {
        if let Self::In(namespace) = self { Some(namespace.to_owned()) } else { None }
    }
}

/// Sends requests.
pub(crate) struct Reader<'a> {
    connection: &'a Connection,
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    git: String,
}

impl<'a> Reader<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection }
    }

    /// The version of the API server, and the header `Date` of its answer.
    ///
    /// # Errors
    /// If the server does not answer, or does not know the caller.
    pub(super) async fn version(&self) -> Result<(Read<String>, Option<String>), Unreadable> {
        let request = "GET /version".to_owned();
        let failed = |why: String| Unreadable::Failed { request: request.clone(), why };
        let query = Request::get("/version").body(Body::empty()).map_err(|why| failed(why.to_string()))?;
        let answer =
            self.in_time(self.connection.client.send(query), &request).await?.map_err(|why| failed(described(&why)))?;
        let date = answer.headers().get(header::DATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => {
                return Err(failed("the server does not accept the credentials (401 Unauthorized)".to_owned()));
            }
            status => return Ok((Err(failed(format!("the server answers {status}"))), date)),
        }
        let text = body(answer).await.map_err(|why| failed(described(&why)))?;
        let version = serde_json::from_slice::<Version>(&text).map(|version| version.git);
        Ok((version.map_err(|why| failed(why.to_string())), date))
    }

    /// Reads one object; none if it does not exist.
    pub(super) async fn get<K: Readable>(&self, place: Place<'_>, name: &str) -> Read<Option<K>> {
        let path = format!("{}/{name}", path::<K>(place));
        let answer = self.send::<K>("get", &path, place).await;
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(Refusal::NotFound) => Ok(None),
            Err(Refusal::Unreadable(why)) => Err(why),
        }
    }

    /// Reads the objects with these labels and fields, page by page.
    pub(super) async fn list<K: Readable>(&self, place: Place<'_>, labels: &str, fields: &str) -> Read<Vec<K>> {
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let query = format!(
                "{}?limit={PAGE}&labelSelector={}&fieldSelector={}&continue={}",
                path::<K>(place),
                escaped(labels),
                escaped(fields),
                escaped(&after)
            );
            let page = match self.send_as::<List<K>, K>("list", &query, place).await {
                Ok(page) => page,
                Err(Refusal::Unreadable(why)) => return Err(why),
                Err(Refusal::NotFound) => {
                    let (request, why) =
                        (format!("GET {}", path::<K>(place)), "the server does not serve it".to_owned());
                    return Err(Unreadable::Failed { request, why });
                }
            };
            items.extend(page.items);
            after = page.metadata.continue_.unwrap_or_default();
            if after.is_empty() {
                return Ok(items);
            }
        }
    }

    /// Sends a review, the only kind of request with a body.
    pub(super) async fn review(&self, review: &serde_json::Value) -> Read<serde_json::Value> {
        const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let request = format!("POST {PATH}");
        let failed = |why: String| Unreadable::Failed { request: request.clone(), why };
        let query = Request::post(PATH).header(header::CONTENT_TYPE, "application/json");
        let query = query.body(review.to_string().into_bytes()).map_err(|why| failed(why.to_string()))?;
        let answer = self.in_time(self.connection.client.request(query), &request).await?;
        answer.map_err(|why| match why {
            Error::Api(status) if status.code == 403 => Unreadable::Forbidden {
                verb: "create",
                resource: "subjectaccessreviews.authorization.k8s.io",
                namespace: None,
            },
            why => failed(described(&why)),
        })
    }

    async fn send<K: Readable>(&self, verb: &'static str, path: &str, place: Place<'_>) -> Result<K, Refusal> {
        self.send_as::<K, K>(verb, path, place).await
    }

    async fn send_as<T: DeserializeOwned, K: Readable>(
        &self,
        verb: &'static str,
        path: &str,
        place: Place<'_>,
    ) -> Result<T, Refusal> {
        let request = format!("GET {}", path.split('?').next().unwrap_or(path));
        let failed = |why: String| Refusal::Unreadable(Unreadable::Failed { request: request.clone(), why });
        let query = Request::get(path).body(Vec::new()).map_err(|why| failed(why.to_string()))?;
        let answer =
            self.in_time(self.connection.client.request(query), &request).await.map_err(Refusal::Unreadable)?;
        answer.map_err(|why| match why {
            Error::Api(status) if status.code == 404 => Refusal::NotFound,
            Error::Api(status) if status.code == 403 => Refusal::Unreadable(Unreadable::Forbidden {
                verb,
                resource: resource::<K>(),
                namespace: place.namespace(),
            }),
            why => failed(described(&why)),
        })
    }

    async fn in_time<T>(&self, answer: impl Future<Output = T>, request: &str) -> Read<T> {
        let timeout = self.connection.timeout;
        tokio::time::timeout(timeout, answer).await.map_err(|_| Unreadable::Failed {
            request: request.to_owned(),
            why: format!("no answer within {}", common::duration::format(timeout)),
        })
    }
}

enum Refusal {
    NotFound,
    Unreadable(Unreadable),
}

/// The name of a resource as `kubectl auth can-i` takes it.
fn resource<K: Readable>() -> &'static str {
    match (K::GROUP, K::URL_PATH_SEGMENT) {
        ("apps", "deployments") => "deployments.apps",
        ("coordination.k8s.io", "leases") => "leases.coordination.k8s.io",
        ("policy", "poddisruptionbudgets") => "poddisruptionbudgets.policy",
        (_, plural) => plural,
    }
}

fn path<K: Readable>(place: Place<'_>) -> String {
    let root =
        if K::GROUP.is_empty() { format!("/api/{}", K::VERSION) } else { format!("/apis/{}/{}", K::GROUP, K::VERSION) };
    match place {
        Place::In(namespace) => format!("{root}/namespaces/{namespace}/{}", K::URL_PATH_SEGMENT),
        Place::Everywhere | Place::Cluster => format!("{root}/{}", K::URL_PATH_SEGMENT),
    }
}

/// Text as a value of a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

async fn body(answer: Response<Body>) -> Result<Vec<u8>, Error> {
    answer.into_body().collect_bytes().await.map(|bytes| bytes.to_vec())
}
