//! Requests of the check, with errors for [`Facts`](crate::facts::Facts).

use http::{Request, StatusCode, header};
use k8s_openapi::{
    ListableResource, Metadata,
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta},
};
use kube::{
    Error, Resource as _,
    api::{GetParams, ListParams, Patch, PatchParams},
    client::Body,
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{
    connection::{Connection, format_error_with_causes},
    facts::{FactError, FactResult},
    remaining_loops::ServedKind,
};

/// Maximum number of objects in one page of a list.
const PAGE_SIZE: u32 = 500;
/// Why a list fails with the answer 404.
const NOT_SERVED: &str = "the server does not serve this resource";

/// A kind of objects that [`Connection`] can get and list.
pub(crate) trait ListableKind:
    ListableResource + Metadata<Ty = ObjectMeta> + DeserializeOwned + Clone + Send + Sync + 'static
{
}

impl<K: ListableResource + Metadata<Ty = ObjectMeta> + DeserializeOwned + Clone + Send + Sync + 'static> ListableKind
    for K
{
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "gitVersion")]
    git: String,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<T>>,
}

/// Requests to the API server. Without a namespace, they cover the whole cluster.
impl Connection {
    /// Reads the version of the API server, and the header `Date` of the answer.
    ///
    /// # Errors
    /// If the server does not answer, or does not accept the credentials.
    pub(super) async fn server_version_and_date(&self) -> Result<(FactResult<String>, Option<String>), FactError> {
        let request = "GET /version".to_owned();
        let failed = |why: String| FactError::RequestFailed { request: request.clone(), why };
        let query = Request::get("/version").body(Body::empty()).map_err(|why| failed(why.to_string()))?;
        let answer = self
            .with_timeout(self.client.send(query), &request)
            .await?
            .map_err(|why| failed(format_error_with_causes(&why)))?;
        let date = answer.headers().get(header::DATE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => {
                return Err(failed("the server does not accept the credentials (401 Unauthorized)".to_owned()));
            }
            status => return Ok((Err(failed(format!("the server answers {status}"))), date)),
        }
        let text = answer.into_body().collect_bytes().await.map_err(|why| failed(format_error_with_causes(&why)))?;
        let version = serde_json::from_slice::<Version>(&text).map(|version| version.git);
        Ok((version.map_err(|why| failed(why.to_string())), date))
    }

    /// Reads one object; `None` if it does not exist.
    pub(crate) async fn get_object<K: ListableKind>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> FactResult<Option<K>> {
        let path = K::url_path(&(), namespace);
        let query = kube::core::Request::new(&path).get(name, &GetParams::default());
        self.read(("get", resource::<K>()), namespace, format!("GET {path}/{name}"), query).await
    }

    /// Lists the objects that match the selectors, page by page.
    pub(super) async fn list_objects<K: ListableKind>(
        &self,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> FactResult<Vec<K>> {
        let params = ListParams::default().labels(labels).fields(fields);
        // The futures of all lists are part of one future, which would be large.
        Box::pin(self.list_all(&K::url_path(&(), namespace), resource::<K>(), namespace, params)).await
    }

    /// Lists the objects at a path, page by page. `resource` has the form that `kubectl auth can-i` takes.
    pub(crate) async fn list_all<T: DeserializeOwned>(
        &self,
        path: &str,
        resource: &'static str,
        namespace: Option<&str>,
        params: ListParams,
    ) -> FactResult<Vec<T>> {
        let mut params = params.limit(PAGE_SIZE);
        let mut items = Vec::new();
        loop {
            let (request, query) = (format!("GET {path}"), kube::core::Request::new(path).list(&params));
            let page = self.read::<Page<T>>(("list", resource), namespace, request.clone(), query).await?;
            let Some(page) = page else {
                return Err(FactError::RequestFailed { request, why: NOT_SERVED.to_owned() });
            };
            items.extend(page.items.into_iter().flatten());
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(items);
            }
        }
    }

    /// Whether the cluster has an object of a kind; `false` if the server does not serve the kind. Reads at most one object.
    pub(super) async fn has_objects(&self, kind: &ServedKind) -> FactResult<bool> {
        let params = ListParams::default().limit(1).fields(kind.fields);
        let (request, query) = (format!("GET {}", kind.path), kube::core::Request::new(kind.path).list(&params));
        let page = self.read::<Page<IgnoredAny>>(("list", kind.resource), None, request, query).await?;
        Ok(page.is_some_and(|page| !page.items.unwrap_or_default().is_empty()))
    }

    /// Merges `patch` into a Lease, and returns the result; `None` if the Lease has changed since the version in the patch, or does
    /// not exist.
    pub(crate) async fn patch_lease(
        &self,
        namespace: &str,
        name: &str,
        patch: &serde_json::Value,
    ) -> FactResult<Option<Lease>> {
        let path = Lease::url_path(&(), Some(namespace));
        let params = PatchParams { field_manager: Some("kubectl-nonet".to_owned()), ..PatchParams::default() };
        let query = kube::core::Request::new(&path).patch(name, &params, &Patch::Merge(patch));
        self.read(("patch", resource::<Lease>()), Some(namespace), format!("PATCH {path}/{name}"), query).await
    }

    /// Sends a `SubjectAccessReview`, the only request that is a POST.
    pub(super) async fn review_access(&self, review: &serde_json::Value) -> FactResult<serde_json::Value> {
        const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let request = format!("POST {PATH}");
        let failed = |why: String| FactError::RequestFailed { request: request.clone(), why };
        let query = Request::post(PATH).header(header::CONTENT_TYPE, "application/json");
        let query = query.body(review.to_string().into_bytes()).map_err(|why| failed(why.to_string()))?;
        let answer = self.with_timeout(self.client.request(query), &request).await?;
        answer.map_err(|why| match why {
            Error::Api(status) if status.code == 403 => FactError::Forbidden {
                verb: "create",
                resource: "subjectaccessreviews.authorization.k8s.io",
                namespace: None,
            },
            why => failed(format_error_with_causes(&why)),
        })
    }

    /// Sends a request, and decodes the answer; `None` for the answers 404 and 409.
    async fn read<T: DeserializeOwned>(
        &self,
        (verb, resource): (&'static str, &'static str),
        namespace: Option<&str>,
        request: String,
        query: Result<Request<Vec<u8>>, kube::core::request::Error>,
    ) -> FactResult<Option<T>> {
        let failed = |why: String| FactError::RequestFailed { request: request.clone(), why };
        let query = query.map_err(|why| failed(why.to_string()))?;
        match self.with_timeout(self.client.request(query), &request).await? {
            Ok(answer) => Ok(Some(answer)),
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            Err(Error::Api(status)) if status.code == 403 => {
                Err(FactError::Forbidden { verb, resource, namespace: namespace.map(str::to_owned) })
            }
            Err(why) => Err(failed(format_error_with_causes(&why))),
        }
    }

    async fn with_timeout<T>(&self, answer: impl Future<Output = T>, request: &str) -> FactResult<T> {
        tokio::time::timeout(self.timeout, answer).await.map_err(|_| FactError::RequestFailed {
            request: request.to_owned(),
            why: format!("no answer within {}", common::duration::format(self.timeout)),
        })
    }
}

/// Returns the name of the resource of `K` in the form that `kubectl auth can-i` takes.
fn resource<K: ListableKind>() -> &'static str {
    match (K::GROUP, K::URL_PATH_SEGMENT) {
        ("apps", "deployments") => "deployments.apps",
        ("coordination.k8s.io", "leases") => "leases.coordination.k8s.io",
        ("policy", "poddisruptionbudgets") => "poddisruptionbudgets.policy",
        (_, plural) => plural,
    }
}
