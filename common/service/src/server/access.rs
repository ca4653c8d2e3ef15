//! Authentication and authorization of requests by reviews of the API server.
//!
//! A `TokenReview` checks a bearer token, and a `SubjectAccessReview` checks the permission of its user. Both answers are
//! cached for ten seconds by default. A caller with a client certificate of the configured authority needs no token. A request
//! without certificate and token has the user `system:anonymous`. Reviews are limited for each peer and in total; a request
//! beyond the limit is answered with 429.
//!
//! Upstream: delegated authentication and authorization of `k8s.io/apiserver`. Differences: the headers of a front proxy are not
//! accepted, and the authority of client certificates is not read from the cluster.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use k8s_openapi::{
    ClusterResourceScope,
    api::{
        authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
        authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    },
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};

use super::{admission::Peer, health::FailureReasons};
use crate::{
    api::{Api, Error, RequestTarget, Throttle},
    clock::Instant,
    metrics::{Counters, Metrics, Stability},
    object::Resource,
    siphash::SipHash,
};

/// How long an answer to a review is cached by default. Upstream: `--authentication-token-webhook-cache-ttl` and similar flags.
const DEFAULT_CACHE_TTL: Duration = Duration::from_secs(10);
/// Maximum number of entries in each cache of answers to reviews.
const CACHE_CAPACITY: usize = 1024;
/// How long a caller with a granted request is exempt from the limits on reviews.
const EXEMPTION_TIME: Duration = Duration::from_mins(10);
/// Longest accepted path, in bytes. Longer paths are answered with 414.
const MAX_PATH_LENGTH: usize = 1024;
/// Path with the reasons of failed checks in its answer. If the path needs no permission, callers without permission
/// get an answer, but no reasons.
const READYZ_PATH: &str = "/readyz";
/// Timeout of one review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest accepted token, in bytes. Longer tokens are answered with 401.
const MAX_TOKEN_LENGTH: usize = 16 << 10;

/// A user, with the fields that `TokenReview` and `SubjectAccessReview` share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct User {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl From<UserInfo> for User {
    fn from(user: UserInfo) -> Self {
        Self {
            username: user.username.unwrap_or_default(),
            uid: user.uid.unwrap_or_default(),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        }
    }
}

impl User {
    pub(super) fn with_name_and_groups(username: String, groups: Vec<String>) -> Self {
        Self { username, groups, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn into_name_and_groups(self) -> (String, Vec<String>) {
        (self.username, self.groups)
    }

    fn anonymous() -> Self {
        Self::with_name_and_groups("system:anonymous".to_owned(), vec!["system:unauthenticated".to_owned()])
    }
}

/// Cache with an expiry time for each entry. At [`CACHE_CAPACITY`] entries, the entry that expires first is replaced.
#[derive(Default)]
struct Cache<K, V>(Mutex<BTreeMap<K, (Instant, V)>>);

impl<K: Ord + Clone, V: Clone> Cache<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.lock().get(key).filter(|(until, _)| *until > now).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, now: Instant, kept: Duration) {
        let mut entries = self.0.lock();
        if entries.len() >= CACHE_CAPACITY {
            entries.retain(|_, (until, _)| *until > now);
        }
        if entries.len() >= CACHE_CAPACITY
            && let Some(oldest) = entries.iter().min_by_key(|(_, (until, _))| *until).map(|(key, _)| key.clone())
        {
            entries.remove(&oldest);
        }
        entries.insert(key, (now + kept, value));
    }
}

/// HTTP paths that need no permission, and how long answers to `TokenReview`s and `SubjectAccessReview`s are cached.
#[derive(Clone, Debug)]
pub struct ReviewOptions {
    /// Paths that need no permission; a `*` at the end matches any suffix.
    pub always_allowed_paths: Vec<String>,
    /// How long the user of a token is cached.
    pub token_cache_ttl: Duration,
    /// How long a granted permission is cached.
    pub granted_permission_cache_ttl: Duration,
    /// How long a denied permission is cached.
    pub denied_permission_cache_ttl: Duration,
}

impl ReviewOptions {
    /// Returns options with upstream's cache times; `open` lists the paths that need no permission.
    pub fn new(open: &[String]) -> Self {
        Self {
            always_allowed_paths: open.to_vec(),
            token_cache_ttl: DEFAULT_CACHE_TTL,
            granted_permission_cache_ttl: DEFAULT_CACHE_TTL,
            denied_permission_cache_ttl: DEFAULT_CACHE_TTL,
        }
    }
}

/// Authenticates and authorizes HTTP requests by reviews of the API server.
pub struct RequestAuthorizer {
    /// Client of the cluster that answers `TokenReview`s.
    authentication: Api,
    /// Client of the cluster that answers `SubjectAccessReview`s.
    authorization: Api,
    options: ReviewOptions,
    budget: ReviewBudget,
    /// Key of the hash function. The caches contain hashes instead of tokens.
    secret: [u64; 2],
    /// Users of accepted tokens. Rejected tokens have a separate cache, so that a flood of rejected tokens evicts no user.
    users: Cache<Digest, User>,
    rejected_tokens: Cache<Digest, ()>,
    allowed: Cache<PermissionKey, ()>,
    denied: Cache<PermissionKey, ()>,
    trusted: Cache<Digest, ()>,
    rejections: Counters,
}

/// Keyed hash of a token, or of the user name of a certificate.
type Digest = u128;
/// User, verb and path of a `SubjectAccessReview`.
type PermissionKey = (User, String, String);

#[derive(Debug, PartialEq, Eq)]
enum Rejection {
    Unauthorized,
    Forbidden(String),
    Unavailable,
    TooManyReviews,
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response(),
            Self::Forbidden(why) => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "cannot review the request with the API server\n").into_response()
            }
            Self::TooManyReviews => {
                let retry = [(header::RETRY_AFTER, "1")];
                let text = "too many requests need a review, try again later\n";
                (StatusCode::TOO_MANY_REQUESTS, retry, text).into_response()
            }
        }
    }
}

/// Returns the counters of rejected requests.
pub(super) fn rejection_counters(metrics: &Metrics) -> Counters {
    let help = "Requests to this process that its authentication or authorization rejected, by status code";
    metrics.counter("nonet_rejected_requests_total", Stability::Alpha, help, &["code"])
}

impl RequestAuthorizer {
    /// Creates the checks, with one client for each kind of review. The write gates of both clients must be open. `metrics` counts
    /// the rejected requests.
    pub fn new(authentication: Api, authorization: Api, options: ReviewOptions, metrics: &Metrics) -> Self {
        let clock = authentication.clock();
        let secret = [clock.random_u64(), clock.random_u64()];
        Self {
            authentication,
            authorization,
            options,
            budget: ReviewBudget::default(),
            secret,
            users: Cache::default(),
            rejected_tokens: Cache::default(),
            allowed: Cache::default(),
            denied: Cache::default(),
            trusted: Cache::default(),
            rejections: rejection_counters(metrics),
        }
    }

    fn is_open(&self, path: &str) -> bool {
        self.options.always_allowed_paths.iter().any(|open| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        })
    }

    /// Authenticates and authorizes a request, and returns whether the answer may contain the reasons of failed checks.
    ///
    /// The client certificate identifies the user; without a certificate, the token in the `Authorization` header does.
    async fn check(&self, request: &ReviewedRequest) -> Result<FailureReasons, Rejection> {
        let digest = match (&request.certified, request.token()) {
            (Some(user), _) => Some(self.digest("certificate", &user.username)),
            (None, Some(token)) => Some(self.digest("token", token)),
            (None, None) => None,
        };
        let user = match (&request.certified, &request.authorization, digest) {
            (Some(user), _, _) => user.clone(),
            (None, None, _) => User::anonymous(),
            (None, Some(_), Some(digest)) => self.user(request, digest).await?.ok_or(Rejection::Unauthorized)?,
            (None, Some(_), None) => return Err(Rejection::Unauthorized),
        };
        if user.groups.iter().any(|group| group == "system:masters") {
            return Ok(FailureReasons::Included);
        }
        let (name, is_open) = (user.username.clone(), self.is_open(&request.path));
        if is_open && request.path != READYZ_PATH {
            return Ok(FailureReasons::Withheld);
        }
        match self.is_authorized(user, request, digest).await {
            Ok(true) => {
                if let Some(digest) = digest {
                    self.trusted.put(digest, (), self.authentication.clock().monotonic_now(), EXEMPTION_TIME);
                }
                Ok(FailureReasons::Included)
            }
            _ if is_open => Ok(FailureReasons::Withheld),
            Ok(false) => Err(Rejection::Forbidden(format!(
                "forbidden: User {name:?} cannot {} path {:?}",
                request.verb, request.path
            ))),
            Err(denied) => Err(denied),
        }
    }

    fn digest(&self, kind: &str, credential: &str) -> Digest {
        let mut hash = SipHash::new(self.secret);
        hash.update(kind.as_bytes());
        hash.update(b"\0");
        hash.update(credential.as_bytes());
        hash.finish()
    }

    /// Fails if a limit on reviews is reached. Callers with a recently granted request are exempt, so that a flood of guessed
    /// tokens does not lock them out.
    fn check_review_limits(
        &self,
        request: &ReviewedRequest,
        digest: Option<Digest>,
        now: Instant,
    ) -> Result<(), Rejection> {
        let is_trusted = digest.is_some_and(|digest| self.trusted.get(&digest, now).is_some());
        if is_trusted || self.budget.allows(request.peer, now) { Ok(()) } else { Err(Rejection::TooManyReviews) }
    }

    /// Returns the user of the token; `None` if the `TokenReview` rejects the token.
    async fn user(&self, request: &ReviewedRequest, digest: Digest) -> Result<Option<User>, Rejection> {
        let Some(token) = request.token().filter(|token| token.len() <= MAX_TOKEN_LENGTH) else { return Ok(None) };
        let now = self.authentication.clock().monotonic_now();
        if let Some(known) = self.users.get(&digest, now) {
            return Ok(Some(known));
        }
        if self.rejected_tokens.get(&digest, now).is_some() {
            return Ok(None);
        }
        self.check_review_limits(request, Some(digest), now)?;
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = send_review(&self.authentication, &review).await?.status.unwrap_or_default();
        if status.authenticated == Some(true) {
            let user = User::from(status.user.unwrap_or_default());
            self.users.put(digest, user.clone(), now, self.options.token_cache_ttl);
            Ok(Some(user))
        } else {
            self.rejected_tokens.put(digest, (), now, self.options.token_cache_ttl);
            Ok(None)
        }
    }

    async fn is_authorized(
        &self,
        user: User,
        request: &ReviewedRequest,
        digest: Option<Digest>,
    ) -> Result<bool, Rejection> {
        let now = self.authorization.clock().monotonic_now();
        let key = (user, request.verb.clone(), request.path.clone());
        if self.allowed.get(&key, now).is_some() {
            return Ok(true);
        }
        if self.denied.get(&key, now).is_some() {
            return Ok(false);
        }
        self.check_review_limits(request, digest, now)?;
        let user = key.0.clone();
        let spec = SubjectAccessReviewSpec {
            user: Some(user.username),
            uid: Some(user.uid).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups),
            extra: Some(user.extra).filter(|extra| !extra.is_empty()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(request.path.clone()),
                verb: Some(request.verb.clone()),
            }),
            resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let is_allowed = send_review(&self.authorization, &review).await?.status.is_some_and(|status| status.allowed);
        if is_allowed {
            self.allowed.put(key, (), now, self.options.granted_permission_cache_ttl);
        } else {
            self.denied.put(key, (), now, self.options.denied_permission_cache_ttl);
        }
        Ok(is_allowed)
    }
}

/// The parts of an HTTP request that a review needs.
struct ReviewedRequest {
    verb: String,
    path: String,
    peer: Peer,
    /// User named by the client certificate; `None` without a certificate.
    certified: Option<User>,
    /// `Authorization` header; `None` if it is missing, empty if it is no text.
    authorization: Option<String>,
}

impl ReviewedRequest {
    fn of(request: &Request) -> Self {
        let header = request.headers().get(header::AUTHORIZATION);
        let peer = request.extensions().get::<Peer>().copied();
        Self {
            verb: request.method().as_str().to_ascii_lowercase(),
            path: request.uri().path().to_owned(),
            peer: peer.unwrap_or_else(|| Peer::from_address(Ipv4Addr::LOCALHOST.into())),
            certified: request.extensions().get::<Option<User>>().cloned().flatten(),
            authorization: header.map(|value| value.to_str().unwrap_or_default().to_owned()),
        }
    }

    fn token(&self) -> Option<&str> {
        bearer(self.authorization.as_deref()?)
    }
}

/// Limits on the rate of reviews, in total and for each peer.
///
/// Each invalid token, and each path that an anonymous caller makes up, costs the API server a review.
struct ReviewBudget {
    all: Option<Throttle>,
    peers: Mutex<BTreeMap<Peer, Throttle>>,
}

impl Default for ReviewBudget {
    fn default() -> Self {
        Self { all: Throttle::new(20.0, 50), peers: Mutex::default() }
    }
}

impl ReviewBudget {
    /// Maximum number of peers with a separate limit on reviews. All further peers are limited only in total.
    const PEERS: usize = 1024;
    /// Reviews per second for one peer, and burst.
    const PEER: (f64, u32) = (4.0, 10);

    fn allows(&self, peer: Peer, now: Instant) -> bool {
        let mut peers = self.peers.lock();
        if peers.len() >= Self::PEERS {
            peers.retain(|_, throttle| !throttle.is_full(now));
        }
        let known = peers.get(&peer).cloned();
        let own = known.or_else(|| Throttle::new(Self::PEER.0, Self::PEER.1));
        if let Some(own) = &own
            && peers.len() < Self::PEERS
        {
            peers.insert(peer, own.clone());
        }
        drop(peers);
        [own.as_ref(), self.all.as_ref()].into_iter().flatten().all(|throttle| throttle.try_take_token(now))
    }
}

/// Sends a review to the API server. The answer is the same object with its status.
async fn send_review<R>(api: &Api, review: &R) -> Result<R, Rejection>
where
    R: k8s_openapi::Resource<Scope = ClusterResourceScope> + Serialize + DeserializeOwned,
{
    let resource = Resource::cluster_scoped(R::GROUP, R::VERSION, R::URL_PATH_SEGMENT, R::KIND);
    let reviewed =
        tokio::time::timeout(REVIEW_TIMEOUT, api.create(RequestTarget::object(resource, "", ""), review)).await;
    let answer = match reviewed {
        Ok(answer) => answer.and_then(|bytes| Ok(serde_json::from_slice::<R>(&bytes)?)),
        Err(_) => Err(Error::OutcomeUnknown(format!("no answer within {}s", REVIEW_TIMEOUT.as_secs()))),
    };
    answer.map_err(|error| {
        tracing::error!(err = %error, review = R::KIND, "Cannot review a request with the API server");
        Rejection::Unavailable
    })
}

/// Returns the bearer token of an `Authorization` header.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Middleware that passes a request to the next handler, or rejects the request with one line of text.
pub(super) async fn guard_request(
    State(access): State<Arc<RequestAuthorizer>>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.uri().path().len() > MAX_PATH_LENGTH {
        return (StatusCode::URI_TOO_LONG, "the path is too long\n").into_response();
    }
    let call = ReviewedRequest::of(&request);
    // Probes of the kubelet come every few seconds without credentials, and need no review.
    let is_probe = call.authorization.is_none() && call.certified.is_none() && access.is_open(&call.path);
    let checked = if is_probe { Ok(FailureReasons::Withheld) } else { access.check(&call).await };
    match checked {
        Ok(reasons) => {
            request.extensions_mut().insert(reasons);
            next.run(request).await
        }
        Err(rejection) => {
            let response = rejection.into_response();
            access.rejections.with_label_values(&[response.status().as_str()]).inc();
            response
        }
    }
}
