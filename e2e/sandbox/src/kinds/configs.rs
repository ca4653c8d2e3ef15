//! `ConfigMaps`, Secrets, `ServiceAccounts`, `LimitRanges` and `ResourceQuotas`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    FieldError,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    errors::{Errors, Path},
    resources, syntax,
    table::{age, name, name_and_created},
    value::{entries, for_each_object_in_list, insert_default, object, size, text, with_object_in_field, yes},
};

/// `configmaps`.
pub(super) const CONFIG_MAP: Behaviour = behaviour!("core.ConfigMap", plain,
    validate_create: |map| validate_config_map(map).into_list(),
    validate_update: |new, old| {
        let mut errors = Errors::new();
        validate_immutable(&mut errors, new, old, &["data", "binaryData"]);
        let mut all = errors.into_list();
        all.extend(validate_config_map(new).into_list());
        all
    },
    row: |map, now| vec![name(map), (size(&map["data"]) + size(&map["binaryData"])).into(), age(map, now)],
);

/// `secrets`.
pub(super) const SECRET: Behaviour = behaviour!("core.Secret", plain,
    default: default_secret,
    validate_create: |secret| validate_secret(secret).into_list(),
    validate_update: |new, old| {
        let mut errors = Errors::new();
        errors.immutable(&"type", &new["type"], &old["type"]);
        validate_immutable(&mut errors, new, old, &["data"]);
        let mut all = errors.into_list();
        all.extend(validate_secret(new).into_list());
        all
    },
    field: |secret, field| (field == "type").then(|| text(&secret["type"]).to_owned()),
    field_labels: true,
    row: |secret, now| vec![name(secret), text(&secret["type"]).into(), size(&secret["data"]).into(), age(secret, now)],
);

/// `serviceaccounts`.
pub(super) const SERVICE_ACCOUNT: Behaviour = behaviour!("core.ServiceAccount", plain,
    prepare_create: |account, _| keep_names(account),
    prepare_update: |account, _, _| keep_names(account),
);

/// `limitranges`.
pub(super) const LIMIT_RANGE: Behaviour = behaviour!("core.LimitRange", plain,
    default: default_limit_range,
    create_on_update: true,
    row: name_and_created,
);

/// `resourcequotas`.
pub(super) const RESOURCE_QUOTA: Behaviour = behaviour!("core.ResourceQuota", plain,
    validate_create: validate_quota,
    validate_update: |new, _| validate_quota(new),
    row: quota_row,
);

fn validate_quota(quota: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let spec = Path::new("spec");
    let at = spec.child("hard");
    for (name, amount) in entries(&quota["spec"]["hard"]) {
        resources::validate_quota(&mut errors, name, amount, &at.key(name));
    }
    errors.into_list()
}

/// Bytes a `ConfigMap` or Secret may hold.
const MOST: usize = 1024 * 1024;

/// An immutable object keeps its content, and stays immutable.
fn validate_immutable(errors: &mut Errors, new: &Value, old: &Value, content: &[&str]) {
    let message = "field is immutable when `immutable` is set";
    if !yes(&old["immutable"]) {
        return;
    }
    if !yes(&new["immutable"]) {
        errors.forbidden(&"immutable", message);
    }
    for field in content {
        if new[*field] != old[*field] {
            errors.forbidden(field, message);
        }
    }
}

fn validate_config_map(map: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut total = 0;
    for field in ["data", "binaryData"] {
        let at = Path::new(field);
        for (key, value) in entries(&map[field]) {
            let at = at.key(key);
            errors.syntax(&at, key, syntax::config_key(key));
            if field == "data" && map["binaryData"].get(key).is_some() {
                errors.invalid(&at, key, "duplicate of key present in binaryData");
            }
            total += if field == "data" { text(value).len() } else { text(value).len() / 4 * 3 };
        }
    }
    if total > MOST {
        errors.too_long(&"", MOST);
    }
    errors
}

/// What was given as plain text is stored like everything else.
fn default_secret(secret: &mut Value) {
    canonicalize("core.Secret", secret);
    let map = object(secret);
    if let Some(Value::Object(plain)) = map.remove("stringData")
        && let Value::Object(data) = map.entry("data").or_insert_with(|| json!({}))
    {
        for (key, value) in plain {
            data.insert(key, STANDARD.encode(text(&value)).into());
        }
    }
    insert_default(map, "type", "Opaque");
}

fn validate_secret(secret: &Value) -> Errors {
    let mut errors = Errors::new();
    let data = &secret["data"];
    let at = Path::new("data");
    let mut total = 0;
    for (key, value) in entries(data) {
        errors.syntax(&at.key(key), key, syntax::config_key(key));
        total += text(value).len() / 4 * 3;
    }
    if total > MOST {
        errors.too_long(&at, MOST);
    }
    let require = |errors: &mut Errors, keys: &[&str]| {
        for key in keys.iter().filter(|key| data.get(**key).is_none()) {
            errors.required(&at.key(key), "");
        }
    };
    let json = |errors: &mut Errors, key: &str| match data.get(key) {
        None => errors.required(&at.key(key), ""),
        Some(value) => {
            let decoded = STANDARD.decode(text(value)).unwrap_or_default();
            if serde_json::from_slice::<serde_json::Map<String, Value>>(&decoded).is_err() {
                let wrong = crate::json::syntax_error(&decoded).unwrap_or_else(|| {
                    "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned()
                });
                errors.invalid(&at.key(key), "<secret contents redacted>", &wrong);
            }
        }
    };
    match text(&secret["type"]) {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"][ACCOUNT]).is_empty() {
                let metadata = Path::new("metadata");
                errors.required(&metadata.child("annotations").key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => json(&mut errors, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json(&mut errors, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if data.get("username").is_none() && data.get("password").is_none() => {
            require(&mut errors, &["username", "password"]);
        }
        "kubernetes.io/ssh-auth" => require(&mut errors, &["ssh-privatekey"]),
        "kubernetes.io/tls" => require(&mut errors, &["tls.crt", "tls.key"]),
        _ => {}
    }
    errors
}

/// Of the Secrets of an account only the names are kept.
fn keep_names(account: &mut Value) {
    for_each_object_in_list(object(account), "secrets", |secret| secret.retain(|field, _| field == "name"));
}

fn default_limit_range(range: &mut Value) {
    canonicalize("core.LimitRange", range);
    with_object_in_field(object(range), "spec", |spec| {
        for_each_object_in_list(spec, "limits", |item| {
            if item.get("type").map(text) != Some("Container") {
                return;
            }
            for (target, source) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
                let Some(Value::Object(amounts)) = item.get(source).cloned() else { continue };
                if let Value::Object(target) = item.entry(target).or_insert_with(|| json!({})) {
                    for (resource, amount) in amounts {
                        target.entry(resource).or_insert(amount);
                    }
                }
            }
        });
    });
}

fn quota_row(quota: &Value, now: Timestamp) -> Vec<Value> {
    let status = &quota["status"];
    let (mut requests, mut limits) = (vec![], vec![]);
    for (resource, hard) in entries(&status["hard"]) {
        let used = status["used"][resource].as_str().unwrap_or("0");
        let shown = format!("{resource}: {used}/{}", text(hard));
        if resource.starts_with("limits.") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![name(quota), requests.join(", ").into(), limits.join(", ").into(), age(quota, now)]
}
