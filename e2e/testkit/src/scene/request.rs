//! Requests of tests: JSON in, JSON out.

use bytes::Bytes;
use common::object::Resource;
use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

/// A refused or unanswered request.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{method} {path}: {code} {reason}: {message}")]
pub struct Refused {
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// HTTP status; 0 if there was no answer.
    pub code: u16,
    /// Reason of the Status.
    pub reason: String,
    /// Message of the Status.
    pub message: String,
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own.
    Strategic,
    /// RFC 6902.
    Json,
}

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }
}

/// A client for tests. Cheap to clone.
#[derive(Clone)]
pub struct Client(kube::Client);

impl Client {
    /// A client for tests over `client`.
    pub fn new(client: kube::Client) -> Self {
        Self(client)
    }

    /// Creates an object.
    pub async fn create(&self, resource: Resource, namespace: &str, object: &Value) -> Result<Value, Refused> {
        self.send("POST", &resource.path(namespace, "", ""), "application/json", Some(object)).await
    }

    /// Reads an object.
    pub async fn get(&self, resource: Resource, namespace: &str, name: &str) -> Result<Value, Refused> {
        self.send("GET", &resource.path(namespace, name, ""), "", None).await
    }

    /// Reads a collection, sorted by name; `query` is encoded already.
    pub async fn list(&self, resource: Resource, namespace: &str, query: &str) -> Result<Vec<Value>, Refused> {
        let list = self.send("GET", &format!("{}?{query}", resource.path(namespace, "", "")), "", None).await?;
        let Value::Object(mut list) = list else { return Ok(Vec::new()) };
        let Some(Value::Array(mut items)) = list.remove("items") else { return Ok(Vec::new()) };
        items.sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
        Ok(items)
    }

    /// Replaces an object.
    pub async fn replace(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, Refused> {
        self.send("PUT", &resource.path(namespace, name, ""), "application/json", Some(object)).await
    }

    /// Patches an object or a subresource of it.
    pub async fn patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        kind: PatchKind,
        patch: &Value,
    ) -> Result<Value, Refused> {
        self.send("PATCH", &resource.path(namespace, name, subresource), kind.content_type(), Some(patch)).await
    }

    /// Deletes an object, or a collection if `name` is empty.
    pub async fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        options: &Value,
    ) -> Result<Value, Refused> {
        self.send("DELETE", &resource.path(namespace, name, ""), "application/json", Some(options)).await
    }

    /// Sends one request.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let refused = |code: u16, reason: &str, message: String| Refused {
            method: method.to_owned(),
            path: path.to_owned(),
            code,
            reason: reason.to_owned(),
            message,
        };
        let bytes = body.map(|b| Bytes::from(b.to_string())).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = request.header(header::USER_AGENT, "nonet-suite").body(Body::from(bytes));
        let request = request.map_err(|e| refused(0, "", e.to_string()))?;
        let response = self.0.send(request).await.map_err(|e| refused(0, "", e.to_string()))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|e| refused(0, "", e.to_string()))?.to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        Err(refused(status.as_u16(), &text("reason"), text("message")))
    }

    /// The client itself.
    pub fn kube(&self) -> &kube::Client {
        &self.0
    }
}
