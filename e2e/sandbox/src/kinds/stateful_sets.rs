//! `StatefulSets` and `ControllerRevisions`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Env, FieldError, NameRule,
    behaviour::{Behaviour, behaviour},
    canonical::canonicalize,
    claims, dump,
    errors::{Bad, Errors, Path},
    pod_defaults, pod_spec, selectors, strategy, syntax,
    table::{age, containers, name},
    value::{child, insert_default, int, list, object, take, text, with_object_in_field, yes},
    workloads::{self, Words},
};

/// `statefulsets`.
pub(super) const STATEFUL_SET: Behaviour = behaviour!("apps.StatefulSet", counted,
    default: default,
    prepare_create: prepare_create,
    prepare_update: prepare_update,
    validate_create: |set| validate(set, Check::Create).into_list(),
    validate_update: validate_update,
    validate_status: validate_status,
    name: NameRule::Label,
    row: row,
);

/// `controllerrevisions`.
pub(super) const REVISION: Behaviour = behaviour!("apps.ControllerRevision", plain,
    validate_create: validate_revision,
    validate_update: validate_revision_update,
    row: revision_row,
);

const WORDS: Words = Words { empty: "statefulset", deadline: "StatefulSet", unusable: "" };

fn default(set: &mut Value) {
    canonicalize("apps.StatefulSet", set);
    with_object_in_field(object(set), "spec", |spec| {
        with_object_in_field(spec, "template", pod_defaults::template);
        if let Some(Value::Array(templates)) = spec.get_mut("volumeClaimTemplates") {
            for claim in templates {
                insert_default(object(claim), "apiVersion", "v1");
                insert_default(object(claim), "kind", "PersistentVolumeClaim");
                claims::default_fields(claim);
            }
        }
        insert_default(spec, "podManagementPolicy", "OrderedReady");
        with_object_in_field(spec, "updateStrategy", |update| {
            if !update.contains_key("type") {
                insert_default(update, "type", "RollingUpdate");
                insert_default(update, "rollingUpdate", json!({}));
            }
            if update.get("type").map(text) == Some("RollingUpdate") {
                with_object_in_field(update, "rollingUpdate", |rolling| insert_default(rolling, "partition", 0));
            }
        });
        insert_default(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
        with_object_in_field(spec, "persistentVolumeClaimRetentionPolicy", |policy| {
            insert_default(policy, "whenDeleted", "Retain");
            insert_default(policy, "whenScaled", "Retain");
        });
        insert_default(spec, "replicas", 1);
        insert_default(spec, "revisionHistoryLimit", 10);
    });
}

/// A server without the feature does not keep `maxUnavailable`; one with it fills it in.
fn settle_max_unavailable(new: &mut Value, old: &Value, env: &Env<'_>) {
    let on = (env.gate)("MaxUnavailableStatefulSet");
    let in_use = old["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable").is_some();
    with_object_in_field(child(new, "spec"), "updateStrategy", |update| {
        with_object_in_field(update, "rollingUpdate", |rolling| {
            if on {
                insert_default(rolling, "maxUnavailable", 1);
            } else if !in_use {
                rolling.remove("maxUnavailable");
            }
        });
    });
}

fn prepare_create(set: &mut Value, env: &Env<'_>) {
    strategy::create("apps.StatefulSet", set, true);
    settle_max_unavailable(set, &Value::Null, env);
}

fn prepare_update(new: &mut Value, old: &Value, env: &Env<'_>) {
    settle_max_unavailable(new, old, env);
    strategy::update("apps.StatefulSet", new, old, true);
}

/// What a set is held against.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Everything.
    Create,
    /// What may not change anyway may be wrong.
    Update,
    /// So may the template.
    UpdateOfInvalid,
}

fn validate(set: &Value, check: Check) -> Errors {
    let mut errors = Errors::new();
    let spec = &set["spec"];
    let at = Path::new("spec");
    let policy = text(&spec["podManagementPolicy"]);
    let policy_at = at.child("podManagementPolicy");
    if policy.is_empty() {
        errors.required(&policy_at, "");
    } else if !["OrderedReady", "Parallel"].contains(&policy) {
        errors.invalid(&policy_at, policy, "must be 'OrderedReady' or 'Parallel'");
    }
    validate_strategy(&mut errors, &spec["updateStrategy"], &at.child("updateStrategy"));
    let retention = at.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = text(&spec["persistentVolumeClaimRetentionPolicy"][field]);
        if !["Retain", "Delete"].contains(&policy) {
            errors.not_supported(&retention.child(field), policy, &["Retain", "Delete"]);
        }
    }
    let templates = list(&spec["volumeClaimTemplates"]);
    if check == Check::Create {
        let at = at.child("volumeClaimTemplates");
        for (i, claim) in templates.iter().enumerate() {
            claims::validate_spec(&mut errors, &claim["spec"], &at.index(i).child("spec"));
        }
    }
    workloads::validate_counters(&mut errors, spec, &["replicas", "minReadySeconds"], &at);
    errors.non_negative(&at.child("ordinals.start"), spec["ordinals"]["start"].as_i64());
    let service = text(&spec["serviceName"]);
    if check == Check::Create && !service.is_empty() {
        errors.syntax(&at.child("serviceName"), service, syntax::label(service));
    }
    validate_template(&mut errors, spec, check, &at);
    errors
}

fn validate_template(errors: &mut Errors, spec: &Value, check: Check, at: &Path<'_>) {
    let (selector, template, claims) = (&spec["selector"], &spec["template"], list(&spec["volumeClaimTemplates"]));
    workloads::validate_selector(errors, selector, &WORDS, &at.child("selector"));
    let template_at = at.child("template");
    if !selector.is_object() || selectors::is_usable(selector) {
        if !selectors::is_empty(selector) || selector.is_null() {
            workloads::validate_match(errors, selector, template, &template_at);
        }
        if check != Check::UpdateOfInvalid {
            pod_spec::validate_template(errors, &as_filled_in(template, claims), &template_at);
        }
        let metadata = &template["metadata"];
        selectors::validate_labels(errors, &metadata["labels"], &template_at.child("labels"));
        let annotations = template_at.child("annotations");
        selectors::validate_annotations(errors, &metadata["annotations"], &annotations);
        pod_spec::validate_annotations(errors, &metadata["annotations"], &template["spec"], &annotations);
    }
    workloads::validate_endless(errors, template, &WORDS, &template_at);
}

/// The template with what the controller sets: the set's own names, and volumes of the claims.
fn as_filled_in(template: &Value, claims: &[Value]) -> Value {
    let mut filled = template.clone();
    let names: BTreeSet<&str> = claims.iter().map(|claim| text(&claim["metadata"]["name"])).collect();
    with_object_in_field(object(&mut filled), "spec", |spec| {
        spec.remove("subdomain");
        spec.remove("hostname");
        if !names.is_empty() {
            let claimed = names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            let others =
                list(&template["spec"]["volumes"]).iter().filter(|volume| !names.contains(text(&volume["name"])));
            spec.insert("volumes".to_owned(), claimed.chain(others.cloned()).collect());
        }
    });
    filled
}

fn validate_strategy(errors: &mut Errors, update: &Value, at: &Path<'_>) {
    let rolling = &update["rollingUpdate"];
    let rolling_at = at.child("rollingUpdate");
    match text(&update["type"]) {
        "" => errors.required(at, ""),
        "OnDelete" => {
            if rolling.is_object() {
                let shown = Bad::raw(dump::internal("RollingUpdateStatefulSetStrategy", rolling));
                errors.invalid(&rolling_at, shown, "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            errors.non_negative(&rolling_at.child("partition"), rolling["partition"].as_i64());
            let most = &rolling["maxUnavailable"];
            if !most.is_null() {
                let at = rolling_at.child("maxUnavailable");
                workloads::validate_int_or_percent(errors, most, &at);
                if workloads::int_or_percents(most) == 0 {
                    errors.invalid(&at, most, "cannot be 0");
                }
                workloads::validate_at_most_all(errors, most, &at);
            }
        }
        _ => {
            let shown = Bad::raw(dump::internal("StatefulSetUpdateStrategy", update));
            errors.invalid(at, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// What of a set's spec may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let check = if validate(old, Check::Update).is_empty() { Check::Update } else { Check::UpdateOfInvalid };
    let mut errors = validate(new, check);
    let mut allowed = new["spec"].clone();
    for field in MUTABLE {
        take(&mut allowed, &old["spec"], field);
    }
    if allowed != old["spec"] {
        errors.forbidden(&"spec", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
    }
    errors.into_list()
}

fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    let at = Path::new("status");
    let status = &new["status"];
    let counters = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    workloads::validate_counters(&mut errors, status, &counters, &at);
    workloads::validate_at_most_replicas(&mut errors, status, &counters[1..5], &at);
    workloads::validate_available(&mut errors, status, "status.readyReplicas", &at);
    workloads::validate_collisions(&mut errors, status, &old["status"], &at);
    errors.into_list()
}

fn row(set: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(&set["spec"]["template"]["spec"]["containers"]);
    let ready = format!("{}/{}", int(&set["status"]["readyReplicas"]), int(&set["spec"]["replicas"]));
    vec![name(set), ready.into(), age(set, now), names, images]
}

fn validate_revision(revision: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    errors.non_negative(&"revision", revision["revision"].as_i64());
    match &revision["data"] {
        Value::Object(_) => {}
        Value::Null => errors.required(&"data", "data is mandatory"),
        _ => errors.required(&"data", "data must be a valid JSON object"),
    }
    errors.into_list()
}

fn validate_revision_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Errors::new();
    errors.non_negative(&"revision", new["revision"].as_i64());
    if new["data"] != old["data"] {
        errors.invalid(&"data", Bad::json(&new["data"]), "field is immutable");
    }
    errors.into_list()
}

fn revision_row(revision: &Value, now: Timestamp) -> Vec<Value> {
    let owner = list(&revision["metadata"]["ownerReferences"]).iter().find(|owner| yes(&owner["controller"]));
    let controller = owner.map_or("<none>".to_owned(), |owner| {
        let kind = text(&owner["kind"]).to_lowercase();
        let group = text(&owner["apiVersion"]).rsplit_once('/').map(|(group, _)| group);
        let kind = group.map_or(kind.clone(), |group| format!("{kind}.{group}"));
        format!("{kind}/{}", text(&owner["name"]))
    });
    vec![name(revision), controller.into(), int(&revision["revision"]).into(), age(revision, now)]
}
