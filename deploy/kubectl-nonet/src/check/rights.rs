//! The rights of the controllers: roles, bindings, and what the API server says.

use k8s_openapi::api::rbac::v1::{RoleRef, Subject};

use super::installation::{Installation, name, namespace};
use crate::{
    facts::{Facts, Read, Unreadable},
    finding::{Finding, Findings, Status, Topic},
};

/// A binding of either kind.
struct Binding<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    role: &'a RoleRef,
    subjects: &'a [Subject],
}

/// Checks the rights of installed controllers.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>]) -> Vec<Finding> {
    let mut findings = Findings::of(Topic::Rights);
    let installed: Vec<&Installation<'_>> = installations.iter().filter(|i| i.exists()).collect();
    if installed.is_empty() {
        return Vec::new();
    }
    let roles = &facts.roles;
    let mut unread: Vec<&Unreadable> = Vec::new();
    unread.extend(roles.cluster_roles.as_ref().err());
    unread.extend(roles.cluster_bindings.as_ref().err());
    unread.extend(roles.roles.as_ref().err());
    unread.extend(roles.bindings.as_ref().err());
    for why in unread {
        findings.unreadable("whether all roles and bindings are there", why);
    }
    let mut unanswered = None;
    for installation in installed {
        let review = facts.reviews.iter().find(|review| review.controller == installation.controller.name);
        // Somebody may have given the rights in another way.
        let granted = review.is_some_and(|review| review.denied.as_ref().is_ok_and(Vec::is_empty));
        let severity = if granted { Status::Warning } else { Status::Problem };
        let bound = bindings(&mut findings, facts, installation, severity);
        let controller = installation.controller.name;
        match review.map(|review| &review.denied) {
            Some(Ok(denied)) if !denied.is_empty() => {
                let found = format!("{controller} lacks rights: {}", denied.join(", "));
                findings.add(Status::Problem, found, remedy(installation));
            }
            Some(Ok(_)) if bound => findings.ok(format!("{controller} has its roles, bindings and main rights")),
            Some(Ok(_)) | None => {}
            Some(Err(why)) => unanswered = unanswered.or(Some(why)),
        }
    }
    if let Some(why) = unanswered {
        findings.unreadable("whether the API server grants what the roles say", why);
    }
    findings.into_list()
}

fn remedy(installation: &Installation<'_>) -> String {
    let overlay = if installation.deployments.is_empty() { "static-pods" } else { "default" };
    format!("kubectl apply -k deploy/overlays/{overlay}, or your overlay")
}

/// Checks the bindings of a controller. Whether they are as they should be.
fn bindings(findings: &mut Findings, facts: &Facts, installation: &Installation<'_>, severity: Status) -> bool {
    let roles = &facts.roles;
    let cluster: Read<Vec<Binding<'_>>> = roles.cluster_bindings.as_ref().map_err(Clone::clone).map(|all| {
        all.iter()
            .map(|b| Binding {
                name: name(&b.metadata),
                namespace: None,
                role: &b.role_ref,
                subjects: b.subjects.as_deref().unwrap_or_default(),
            })
            .collect()
    });
    let local: Read<Vec<Binding<'_>>> = roles.bindings.as_ref().map_err(Clone::clone).map(|all| {
        all.iter()
            .filter(|b| namespace(&b.metadata) == installation.namespace)
            .map(|b| Binding {
                name: name(&b.metadata),
                namespace: Some(namespace(&b.metadata)),
                role: &b.role_ref,
                subjects: b.subjects.as_deref().unwrap_or_default(),
            })
            .collect()
    });
    let mut fine = true;
    if let Ok(all) = cluster {
        fine &= one(findings, facts, installation, ("ClusterRoleBinding", severity), &all);
    }
    if let Ok(all) = local {
        fine &= one(findings, facts, installation, ("RoleBinding", severity), &all);
    }
    fine
}

/// Checks one kind of binding of a controller.
fn one(
    findings: &mut Findings,
    facts: &Facts,
    installation: &Installation<'_>,
    (kind, severity): (&str, Status),
    all: &[Binding<'_>],
) -> bool {
    let controller = installation.controller.name;
    let expected = format!("nonet:{controller}");
    let (account, place) = (format!("nonet-{controller}"), installation.namespace);
    let binds = |binding: &&Binding<'_>| {
        binding.subjects.iter().any(|subject| {
            subject.kind == "ServiceAccount" && subject.name == account && subject.namespace.as_deref() == Some(place)
        })
    };
    let Some(binding) = all.iter().filter(binds).max_by_key(|binding| binding.name == expected) else {
        let found = match all.iter().find(|binding| binding.name == expected) {
            Some(_) => format!("the {kind} {expected} does not bind the ServiceAccount {place}/{account}"),
            None => format!("there is no {kind} for the ServiceAccount {place}/{account}"),
        };
        findings.add(severity, found, remedy(installation));
        return false;
    };
    let exists = match (&*binding.role.kind, binding.namespace) {
        ("Role", Some(place)) => {
            let role = (place.to_owned(), binding.role.name.clone());
            facts.roles.roles.as_ref().ok().map(|roles| roles.contains(&role))
        }
        _ => facts.roles.cluster_roles.as_ref().ok().map(|roles| roles.contains(&binding.role.name)),
    };
    if exists == Some(false) {
        let found = format!(
            "the {kind} {} refers to the {} {}, which does not exist",
            binding.name, binding.role.kind, binding.role.name
        );
        findings.add(severity, found, remedy(installation));
        return false;
    }
    exists.is_some()
}
