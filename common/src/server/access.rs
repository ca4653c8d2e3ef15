//! Who may read what: asked of the API server.
//!
//! A bearer token is checked by a `TokenReview`, what its owner may do by a `SubjectAccessReview`; both answers are kept for ten
//! seconds. Who has a client certificate by the right authority needs no token. A request without either is
//! `system:anonymous`.
//!
//! Upstream: delegated authentication and authorization of `k8s.io/apiserver`. Request headers of a front proxy are not accepted
//! here, and the authority of client certificates is not looked up in the cluster.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::{Api, Error, Target},
    clock::Instant,
    object::Resource,
};

const TOKEN_REVIEWS: Resource = Resource {
    group: "authentication.k8s.io",
    version: "v1",
    plural: "tokenreviews",
    kind: "TokenReview",
    namespaced: false,
};
const ACCESS_REVIEWS: Resource = Resource {
    group: "authorization.k8s.io",
    version: "v1",
    plural: "subjectaccessreviews",
    kind: "SubjectAccessReview",
    namespaced: false,
};

/// How long an answer counts. Upstream: the default of `--authentication-token-webhook-cache-ttl` and its like.
const KEPT: Duration = Duration::from_secs(10);
/// How many answers are kept.
const CACHE: usize = 1024;
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest token looked at.
const TOKEN: usize = 16 << 10;

/// A user, as a `TokenReview` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct User {
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody in these groups.
    pub(super) fn named(username: String, groups: Vec<String>) -> Self {
        Self { username, groups, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn parts(self) -> (String, Vec<String>) {
        (self.username, self.groups)
    }

    fn anonymous() -> Self {
        Self::named("system:anonymous".to_owned(), vec!["system:unauthenticated".to_owned()])
    }
}

/// What a `TokenReview` says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Authentication {
    authenticated: bool,
    user: User,
}

/// What a `SubjectAccessReview` says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Authorization {
    allowed: bool,
}

/// Answers that count for a while.
#[derive(Debug)]
struct Cache<K, V>(Mutex<BTreeMap<K, (Instant, V)>>);

impl<K: Ord, V: Clone> Cache<K, V> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.lock().get(key).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, now: Instant, kept: Duration) {
        let mut entries = self.0.lock();
        if entries.len() >= CACHE {
            entries.retain(|_, (until, _)| *until > now);
        }
        if entries.len() >= CACHE {
            entries.clear();
        }
        entries.insert(key, (now + kept, value));
    }
}

/// What is asked, and how long an answer counts.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Paths that need no permission; a `*` at the end stands for anything.
    pub open: Vec<String>,
    /// How long it counts whose token that is.
    pub token: Duration,
    /// How long it counts that somebody may.
    pub allowed: Duration,
    /// How long it counts that somebody may not.
    pub denied: Duration,
}

impl Questions {
    /// Upstream's times.
    pub fn new(open: &[String]) -> Self {
        Self { open: open.to_vec(), token: KEPT, allowed: KEPT, denied: KEPT }
    }
}

/// Decides who may read what.
pub struct Access {
    /// Where is asked who somebody is.
    authentication: Api,
    /// Where is asked what somebody may.
    authorization: Api,
    questions: Questions,
    users: Cache<String, Option<User>>,
    permissions: Cache<(User, String, String), bool>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("questions", &self.questions).finish_non_exhaustive()
    }
}

/// Why somebody may not.
#[derive(Debug, PartialEq, Eq)]
enum Denied {
    Unauthorized,
    Forbidden(String),
    Unavailable,
}

impl Access {
    /// Asks through these two, which must write freely (reviews are POSTs).
    pub fn new(authentication: Api, authorization: Api, questions: Questions) -> Self {
        Self { authentication, authorization, questions, users: Cache::new(), permissions: Cache::new() }
    }

    fn is_open(&self, path: &str) -> bool {
        self.questions.open.iter().any(|open| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        })
    }

    /// Whether `peer`, whom a client certificate names, or else who has sent this `Authorization` header, may.
    async fn check(&self, verb: &str, path: &str, peer: Option<User>, header: Option<&str>) -> Result<(), Denied> {
        let user = match header.map(bearer) {
            _ if peer.is_some() => peer.unwrap_or_default(),
            None => User::anonymous(),
            Some(None) => return Err(Denied::Unauthorized),
            Some(Some(token)) => self.user(token).await?.ok_or(Denied::Unauthorized)?,
        };
        if user.groups.iter().any(|group| group == "system:masters") || self.is_open(path) {
            return Ok(());
        }
        let name = user.username.clone();
        if self.may(user, verb, path).await? {
            return Ok(());
        }
        Err(Denied::Forbidden(format!("forbidden: User {name:?} cannot {verb} path {path:?}")))
    }

    /// Whose token that is.
    async fn user(&self, token: &str) -> Result<Option<User>, Denied> {
        if token.len() > TOKEN {
            return Ok(None);
        }
        let now = self.authentication.clock().instant();
        let key = token.to_owned();
        if let Some(known) = self.users.get(&key, now) {
            return Ok(known);
        }
        let status: Authentication = ask(&self.authentication, TOKEN_REVIEWS, json!({"token": token})).await?;
        let user = status.authenticated.then_some(status.user);
        self.users.put(key, user.clone(), now, self.questions.token);
        Ok(user)
    }

    /// Whether a user may.
    async fn may(&self, user: User, verb: &str, path: &str) -> Result<bool, Denied> {
        let now = self.authorization.clock().instant();
        let key = (user, verb.to_owned(), path.to_owned());
        if let Some(known) = self.permissions.get(&key, now) {
            return Ok(known);
        }
        let user = &key.0;
        let spec = json!({
            "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        });
        let status: Authorization = ask(&self.authorization, ACCESS_REVIEWS, spec).await?;
        let kept = if status.allowed { self.questions.allowed } else { self.questions.denied };
        self.permissions.put(key, status.allowed, now, kept);
        Ok(status.allowed)
    }
}

/// Puts a question to the API server.
async fn ask<S: for<'de> Deserialize<'de>>(api: &Api, resource: Resource, spec: Value) -> Result<S, Denied> {
    #[derive(Deserialize)]
    struct Review<S> {
        status: S,
    }
    let body = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "spec": spec});
    let asked = tokio::time::timeout(PATIENCE, api.create(Target::object(resource, "", ""), &body)).await;
    let answer = match asked {
        Ok(answer) => answer.and_then(|bytes| Ok(serde_json::from_slice::<Review<S>>(&bytes)?)),
        Err(_) => Err(Error::Lost(format!("no answer within {}s", PATIENCE.as_secs()))),
    };
    answer.map(|review| review.status).map_err(|error| {
        tracing::error!(err = %error, review = resource.kind, "Cannot ask the API server who may read this");
        Denied::Unavailable
    })
}

/// The token of an `Authorization` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Lets a request through, or answers it with one line.
pub(super) async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    // The health endpoints are asked every few seconds by who has no credentials: no question needs asking.
    let authorization = match request.headers().get(header::AUTHORIZATION).map(|v| v.to_str()) {
        None if access.is_open(&path) => return next.run(request).await,
        None => None,
        Some(Ok(value)) => Some(value.to_owned()),
        Some(Err(_)) => Some(String::new()),
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    let peer = request.extensions().get::<Option<User>>().cloned().flatten();
    match access.check(&verb, &path, peer, authorization.as_deref()).await {
        Ok(()) => next.run(request).await,
        Err(Denied::Unauthorized) => (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response(),
        Err(Denied::Forbidden(why)) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
        Err(Denied::Unavailable) => {
            (StatusCode::SERVICE_UNAVAILABLE, "cannot ask the API server who may read this\n").into_response()
        }
    }
}
