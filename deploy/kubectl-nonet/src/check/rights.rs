//! Checks the rights of the controllers: roles, bindings, and access reviews by the API server.

use k8s_openapi::{
    api::rbac::v1::{RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::installation::{Installation, object_name, object_namespace};
use crate::{
    facts::Facts,
    finding::{Finding, FindingStatus, Findings, Topic},
};

/// A RoleBinding, or a ClusterRoleBinding, which has no namespace.
struct Binding<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    role: &'a RoleRef,
    subjects: &'a [Subject],
}

impl<'a> Binding<'a> {
    fn new(metadata: &'a ObjectMeta, role: &'a RoleRef, subjects: Option<&'a Vec<Subject>>) -> Self {
        let subjects = subjects.map(Vec::as_slice).unwrap_or_default();
        Self { name: object_name(metadata), namespace: metadata.namespace.as_deref(), role, subjects }
    }
}

/// Returns the findings about roles, bindings and access reviews of installed controllers.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>]) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Rights);
    let installed: Vec<&Installation<'_>> = installations.iter().filter(|i| i.is_installed()).collect();
    if installed.is_empty() {
        return Vec::new();
    }
    let roles = &facts.roles_and_bindings;
    let unread = [roles.cluster_role_names.as_ref().err(), roles.cluster_role_bindings.as_ref().err()];
    let unread = unread.into_iter().chain([roles.role_names.as_ref().err(), roles.role_bindings.as_ref().err()]);
    for why in unread.flatten() {
        findings.add_unreadable_fact("whether all roles and bindings exist", why);
    }
    let mut unanswered = None;
    for installation in installed {
        let review = facts.access_reviews.iter().find(|review| review.controller_name == installation.controller.name);
        // If the reviews grant everything, a missing role is only a warning, because the rights may come from other roles.
        let granted = review.is_some_and(|review| review.denied_rights.as_ref().is_ok_and(Vec::is_empty));
        let severity = if granted { FindingStatus::Warning } else { FindingStatus::Problem };
        let bound = check_bindings(&mut findings, facts, installation, severity);
        let controller = installation.controller.name;
        match review.map(|review| &review.denied_rights) {
            Some(Ok(denied)) if !denied.is_empty() => {
                let found = format!("{controller} lacks rights: {}", denied.join(", "));
                findings.add_problem(found, installation.apply_again());
            }
            Some(Ok(_)) if bound => findings.add_ok(format!("{controller} has its roles, bindings and main rights")),
            Some(Ok(_)) | None => {}
            Some(Err(why)) => unanswered = unanswered.or(Some(why)),
        }
    }
    if let Some(why) = unanswered {
        findings.add_unreadable_fact("whether the API server grants the rights in the roles", why);
    }
    findings.into_list()
}

/// Checks all bindings of a controller, and returns whether they are complete.
fn check_bindings(
    findings: &mut Findings,
    facts: &Facts,
    installation: &Installation<'_>,
    severity: FindingStatus,
) -> bool {
    let roles = &facts.roles_and_bindings;
    let mut fine = true;
    if let Ok(all) = &roles.cluster_role_bindings {
        let all: Vec<_> = all.iter().map(|b| Binding::new(&b.metadata, &b.role_ref, b.subjects.as_ref())).collect();
        fine &= check_binding(findings, facts, installation, ("ClusterRoleBinding", severity), &all);
    }
    if let Ok(all) = &roles.role_bindings {
        let here = all.iter().filter(|b| object_namespace(&b.metadata) == installation.namespace);
        let all: Vec<_> = here.map(|b| Binding::new(&b.metadata, &b.role_ref, b.subjects.as_ref())).collect();
        fine &= check_binding(findings, facts, installation, ("RoleBinding", severity), &all);
    }
    fine
}

/// Checks one kind of binding of a controller, and returns whether the binding and its role exist.
fn check_binding(
    findings: &mut Findings,
    facts: &Facts,
    installation: &Installation<'_>,
    (kind, severity): (&str, FindingStatus),
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
        findings.add(severity, found, installation.apply_again());
        return false;
    };
    let exists = match (&*binding.role.kind, binding.namespace) {
        ("Role", Some(place)) => {
            let role = (place.to_owned(), binding.role.name.clone());
            facts.roles_and_bindings.role_names.as_ref().ok().map(|roles| roles.contains(&role))
        }
        _ => facts.roles_and_bindings.cluster_role_names.as_ref().ok().map(|roles| roles.contains(&binding.role.name)),
    };
    if exists == Some(false) {
        let found = format!(
            "the {kind} {} refers to the {} {}, which does not exist",
            binding.name, binding.role.kind, binding.role.name
        );
        findings.add(severity, found, installation.apply_again());
        return false;
    }
    exists.is_some()
}
