//! `PodDisruptionBudgets`, Leases, `PriorityClasses`.

use serde_json::Value;

use super::{
    Env,
    behaviour::Behaviour,
    conditions,
    errors::{Errors, Path},
    strategy,
    value::{child, list},
    workloads,
};

pub(super) fn budget() -> Behaviour {
    Behaviour {
        validate: Some(validate_budget),
        validate_status: Some(|errors, new, _| {
            conditions::validate(errors, list(&new["status"]["conditions"]), &Path::new("status").child("conditions"));
        }),
        ..Behaviour::default()
    }
}

pub(super) fn lease() -> Behaviour {
    Behaviour {
        prepare_create: Some(|lease, env| drop_election(lease, &Value::Null, env)),
        prepare_update: Some(drop_election),
        ..Behaviour::default()
    }
}

pub(super) fn priority_class() -> Behaviour {
    Behaviour {
        prepare_create: Some(|class, _| strategy::set_generation(class, 1)),
        prepare_update: Some(|new, old, _| strategy::bump_generation(new, old, false)),
        validate: Some(|errors, new, old| {
            if !old.is_null() && new["value"] != old["value"] {
                errors.forbidden(&"value", "may not be changed in an update.");
            }
        }),
        ..Behaviour::default()
    }
}

fn validate_budget(errors: &mut Errors, budget: &Value, _: &Value) {
    let spec = &budget["spec"];
    let at = Path::new("spec");
    let fields = ["minAvailable", "maxUnavailable"];
    if fields.iter().all(|field| !spec[*field].is_null()) {
        errors.invalid(&at, spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for field in fields.into_iter().filter(|field| !spec[*field].is_null()) {
        workloads::validate_int_or_percent(errors, &spec[field], &at.child(field));
        workloads::validate_at_most_all(errors, &spec[field], &at.child(field));
    }
}

/// The fields of coordinated leader election are not kept while it is off.
fn drop_election(new: &mut Value, old: &Value, env: &Env<'_>) {
    if (env.gate)("CoordinatedLeaderElection") {
        return;
    }
    let spec = child(new, "spec");
    for field in ["strategy", "preferredHolder"] {
        if old["spec"].get(field).is_none() {
            spec.remove(field);
        }
    }
}
