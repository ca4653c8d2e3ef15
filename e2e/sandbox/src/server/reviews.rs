//! Reviews: questions about tokens and rights, answered and not stored.

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    value::object::{as_map, at, strings, text},
    verbs::{
        access::{Attributes, User},
        core::Core,
        decode::parse_media,
        reply::Reply,
        status::{ApiError, ApiResult},
    },
};

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const REVIEWS: [(&str, &str, &str); 6] = [
    (AUTHENTICATION, "tokenreviews", "TokenReview"),
    (AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    (AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    (AUTHORIZATION, "localsubjectaccessreviews", "LocalSubjectAccessReview"),
    (AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    (AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
];

pub(crate) fn is_review(group: &str, plural: &str) -> bool {
    REVIEWS.iter().any(|(g, p, _)| (*g, *p) == (group, plural))
}

pub(crate) fn has_version(group: &str, version: &str) -> bool {
    version == "v1" && matches!(group, AUTHENTICATION | AUTHORIZATION)
}

fn user_of(user: &User) -> Value {
    json!({"username": user.name, "groups": user.groups})
}

pub(crate) fn reply(
    core: &Core,
    identity: &str,
    method: &Method,
    (group, plural): (&str, &str),
    namespace: Option<&str>,
    (media, body): (&str, &Bytes),
) -> ApiResult<Reply> {
    let Some((_, _, kind)) = REVIEWS.iter().find(|(g, p, _)| (*g, *p) == (group, plural)) else {
        return Err(ApiError::no_resource());
    };
    if method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    if !plural.starts_with("selfsubject") {
        let wanted = Attributes { verb: "create", group, resource: plural, namespace, ..Attributes::default() };
        core.access.check(&core.store.lock(), identity, &wanted)?;
    }
    let mut review = if body.is_empty() {
        json!({})
    } else {
        let media = if media.is_empty() { "application/json" } else { media };
        parse_media(media, body, &mut Vec::new())?
            .map_err(|why| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?
    };
    let fields = as_map(&mut review);
    fields.insert("kind".into(), (*kind).into());
    fields.insert("apiVersion".into(), format!("{group}/v1").into());
    fields.entry("metadata").or_insert_with(|| json!({}));
    let spec = fields.get("spec").cloned().unwrap_or_default();
    let me = User::of(identity);
    let status = match plural {
        "tokenreviews" => match core.users.lock().get(text(&spec, &["token"])) {
            Some(user) => json!({"authenticated": true, "user": user_of(user)}),
            None => json!({"user": {}, "error": "[invalid bearer token, token lookup failed]"}),
        },
        "selfsubjectreviews" => json!({"userInfo": user_of(&me)}),
        "selfsubjectaccessreviews" => verdict(core, &me, &spec),
        "selfsubjectrulesreviews" => {
            return Err(ApiError::new(501, "NotImplemented", "the sandbox does not list the rules of users"));
        }
        _ => {
            let user = User { name: text(&spec, &["user"]).into(), groups: strings(at(&spec, &["groups"])) };
            verdict(core, &user, &spec)
        }
    };
    fields.insert("status".into(), status);
    Ok(Reply::Object(StatusCode::CREATED, review))
}

fn verdict(core: &Core, user: &User, spec: &Value) -> Value {
    let allowed = if let Some(wanted) = spec.get("resourceAttributes") {
        let given = |field: &str| Some(text(wanted, &[field])).filter(|t| !t.is_empty());
        let wanted = Attributes {
            verb: text(wanted, &["verb"]),
            group: text(wanted, &["group"]),
            resource: text(wanted, &["resource"]),
            sub: given("subresource"),
            namespace: given("namespace"),
            name: given("name"),
        };
        core.access.may(&core.store.lock(), user, &wanted)
    } else {
        let wanted = at(spec, &["nonResourceAttributes"]);
        core.access.may_read(&core.store.lock(), user, text(wanted, &["verb"]), text(wanted, &["path"]))
    };
    json!({"allowed": allowed})
}
