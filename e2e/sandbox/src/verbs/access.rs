//! Who may do what: identities and RBAC, evaluated from the roles and bindings in the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    api::{names::quoted, resource::qualify},
    store::Store,
    value::{
        object::{at, meta, strings, text},
        selector::{LabelSelector, labels_of},
    },
    verbs::status::{ApiError, ApiResult},
};

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// The identity of requests that do not say who they are from, and of whoever may do everything.
pub const ADMIN: &str = "admin";

/// A user as authorization sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl User {
    /// The user of an identity, with the groups that follow from its name.
    pub(crate) fn of(identity: &str) -> Self {
        let mut groups: Vec<String> = Vec::new();
        if identity == ADMIN || identity == "system:apiserver" {
            groups.push("system:masters".into());
        }
        if let Some((namespace, _)) = identity.strip_prefix("system:serviceaccount:").and_then(|r| r.split_once(':')) {
            groups.push("system:serviceaccounts".into());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        groups.push("system:authenticated".into());
        Self { name: identity.into(), groups }
    }
}

/// What is to be done to what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) sub: Option<&'a str>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

/// A right that a user has asked for, as the rule of a role grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// Verb.
    pub verb: String,
    /// API group, empty for core.
    pub group: String,
    /// Plural name of the resource, and the subresource after a slash.
    pub resource: String,
    /// Namespace; `None` for all namespaces, and for objects without one.
    pub namespace: Option<String>,
    /// Name of the object; `None` if the request names none.
    pub name: Option<String>,
}

impl Right {
    fn of(wanted: &Attributes<'_>) -> Self {
        Self {
            verb: wanted.verb.to_owned(),
            group: wanted.group.to_owned(),
            resource: wanted.sub.map_or_else(|| wanted.resource.to_owned(), |sub| format!("{}/{sub}", wanted.resource)),
            namespace: wanted.namespace.map(str::to_owned),
            name: wanted.name.map(str::to_owned),
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, .. } = self;
        let (plural, sub) = resource.split_once('/').map_or((&**resource, None), |(plural, sub)| (plural, Some(sub)));
        write!(f, "{verb} {}", qualify(plural, group))?;
        sub.map_or(Ok(()), |sub| write!(f, "/{sub}"))
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct PolicyRule {
    pub(super) verbs: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) urls: Vec<String>,
}

impl PolicyRule {
    fn of(rule: &Value) -> Self {
        let list = |field: &str| strings(at(rule, &[field]));
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            urls: list("nonResourceURLs"),
        }
    }

    fn allows(&self, wanted: &Attributes<'_>) -> bool {
        let has = |list: &[String], item: &str| list.iter().any(|i| i == "*" || i == item);
        let resource = match wanted.sub {
            None => has(&self.resources, wanted.resource),
            Some(sub) => {
                let (whole, any) = (format!("{}/{sub}", wanted.resource), format!("*/{sub}"));
                has(&self.resources, &whole) || self.resources.contains(&any)
            }
        };
        resource
            && has(&self.verbs, wanted.verb)
            && has(&self.groups, wanted.group)
            && (self.names.is_empty() || wanted.name.is_some_and(|name| self.names.iter().any(|n| n == name)))
    }

    fn allows_url(&self, verb: &str, url: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => url.starts_with(prefix),
            None => pattern == url,
        };
        self.verbs.iter().any(|v| v == "*" || v == verb) && self.urls.iter().any(fits)
    }

    /// Rules with one verb and one resource, name or path each, which grant the same together.
    pub(super) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let names = self.names.iter().map(|name| vec![name.clone()]).collect::<Vec<_>>();
        let names = if names.is_empty() { vec![Vec::new()] } else { names };
        for (group, resource) in self.groups.iter().flat_map(|g| self.resources.iter().map(move |r| (g, r))) {
            for (verb, names) in self.verbs.iter().flat_map(|verb| names.iter().map(move |names| (verb, names))) {
                let [verbs, groups, resources] = [verb, group, resource].map(|text| vec![text.clone()]);
                parts.push(Self { verbs, groups, resources, names: names.clone(), urls: Vec::new() });
            }
        }
        for (url, verb) in self.urls.iter().flat_map(|url| self.verbs.iter().map(move |verb| (url, verb))) {
            parts.push(Self { verbs: vec![verb.clone()], urls: vec![url.clone()], ..Self::default() });
        }
        parts
    }

    /// Whether the rule grants what one of the [`parts`](Self::parts) of a rule grants.
    pub(super) fn covers(&self, part: &Self) -> bool {
        let verb = part.verbs.first().map_or("", |verb| verb);
        let Some((group, resource)) = part.groups.first().zip(part.resources.first()) else {
            return part.urls.iter().all(|url| self.allows_url(verb, url));
        };
        let (resource, sub) = resource.split_once('/').map_or((&**resource, None), |(of, sub)| (of, Some(sub)));
        let name = part.names.first().map(|name| &**name);
        self.allows(&Attributes { verb, group, resource, sub, namespace: None, name })
    }
}

/// The rules of a role, as they are stored.
pub(super) fn rules_of_role(role: &Value) -> Vec<PolicyRule> {
    at(role, &["rules"]).as_array().into_iter().flatten().map(PolicyRule::of).collect()
}

#[derive(Debug)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match &*self.kind {
            "User" => self.name == user.name,
            "Group" => user.groups.contains(&self.name),
            "ServiceAccount" => user.name == format!("system:serviceaccount:{}:{}", self.namespace, self.name),
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Binding {
    /// Where it holds; everywhere, if nowhere in particular.
    namespace: Option<String>,
    subjects: Vec<Subject>,
    rules: Vec<PolicyRule>,
}

impl Binding {
    /// Whether it gives a user its rules in a namespace; everywhere, if no namespace is given.
    fn binds(&self, user: &User, namespace: Option<&str>) -> bool {
        self.namespace.as_deref().is_none_or(|n| Some(n) == namespace) && self.subjects.iter().any(|s| s.is(user))
    }
}

/// RBAC, with the compiled policy, which is made anew when roles or bindings have changed.
#[derive(Debug)]
pub(crate) struct Access {
    is_enforced: bool,
    /// Whether an aggregated role grants the rules of the roles that it selects, as if a controller had written them.
    aggregates_rules: bool,
    /// The rights that each user has asked for; `None` if they are not recorded.
    asked: Option<Mutex<BTreeMap<String, BTreeSet<Right>>>>,
    compiled: Mutex<Option<(u64, Arc<Vec<Binding>>)>>,
}

fn compile(store: &Store, aggregates_rules: bool) -> Vec<Binding> {
    let all = |table: &str| -> Vec<Arc<Value>> {
        store.list(table, None, None, None).unwrap_or_default().into_iter().map(|(_, v)| v.value()).collect()
    };
    let cluster_roles = all(CLUSTER_ROLES);
    let roles = all(ROLES);
    let cluster_role = |name: &str| -> Vec<PolicyRule> {
        let Some(role) = cluster_roles.iter().find(|r| meta(r, "name") == name) else { return Vec::new() };
        let mut rules = rules_of_role(role);
        let selectors = at(role, &["aggregationRule", "clusterRoleSelectors"]).as_array().filter(|_| aggregates_rules);
        for selector in selectors.into_iter().flatten() {
            let Some(selector) = LabelSelector::from_object(selector) else { continue };
            for other in cluster_roles.iter().filter(|r| selector.matches(&labels_of(r))) {
                rules.extend(rules_of_role(other));
            }
        }
        rules
    };
    let subjects = |binding: &Value| -> Vec<Subject> {
        let list = at(binding, &["subjects"]).as_array();
        let subject = |s: &Value| Subject {
            kind: text(s, &["kind"]).into(),
            name: text(s, &["name"]).into(),
            namespace: text(s, &["namespace"]).into(),
        };
        list.into_iter().flatten().map(subject).collect()
    };
    let mut bindings = Vec::new();
    for binding in all(CLUSTER_ROLE_BINDINGS) {
        let rules = cluster_role(text(&binding, &["roleRef", "name"]));
        bindings.push(Binding { namespace: None, subjects: subjects(&binding), rules });
    }
    for binding in all(ROLE_BINDINGS) {
        let (namespace, name) = (meta(&binding, "namespace"), text(&binding, &["roleRef", "name"]));
        let rules = if text(&binding, &["roleRef", "kind"]) == "ClusterRole" {
            cluster_role(name)
        } else {
            let role = roles.iter().find(|r| meta(r, "name") == name && meta(r, "namespace") == namespace);
            role.map(|r| rules_of_role(r)).unwrap_or_default()
        };
        bindings.push(Binding { namespace: Some(namespace.into()), subjects: subjects(&binding), rules });
    }
    bindings
}

impl Access {
    pub(crate) fn new(is_enforced: bool, aggregates_rules: bool, records_rights: bool) -> Self {
        Self { is_enforced, aggregates_rules, asked: records_rights.then(Mutex::default), compiled: Mutex::default() }
    }

    /// The rights that a user has asked for, if they are recorded.
    pub(crate) fn asked_by(&self, user: &str) -> BTreeSet<Right> {
        self.asked.as_ref().and_then(|asked| asked.lock().get(user).cloned()).unwrap_or_default()
    }

    fn policy(&self, store: &Store) -> Arc<Vec<Binding>> {
        let tables = [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS];
        let changes = tables.iter().filter_map(|t| store.table(t)).map(|t| t.changes).sum();
        let mut compiled = self.compiled.lock();
        match &*compiled {
            Some((at, policy)) if *at == changes => policy.clone(),
            _ => {
                let policy = Arc::new(compile(store, self.aggregates_rules));
                *compiled = Some((changes, policy.clone()));
                policy
            }
        }
    }

    fn allows(
        &self,
        store: &Store,
        user: &User,
        namespace: Option<&str>,
        is_allowed_by: impl Fn(&PolicyRule) -> bool,
    ) -> bool {
        !self.is_enforced
            || user.groups.iter().any(|g| g == "system:masters")
            || self
                .policy(store)
                .iter()
                .filter(|b| b.binds(user, namespace))
                .any(|b| b.rules.iter().any(&is_allowed_by))
    }

    /// The rules that a user has in a namespace, or those that it has everywhere.
    pub(super) fn rules_of(&self, store: &Store, user: &User, namespace: Option<&str>) -> Vec<PolicyRule> {
        let policy = self.policy(store);
        policy.iter().filter(|b| b.binds(user, namespace)).flat_map(|b| b.rules.iter().cloned()).collect()
    }

    /// Whether a user may do what it is about to do.
    pub(crate) fn authorizes(&self, store: &Store, user: &User, wanted: &Attributes<'_>) -> bool {
        if let Some(asked) = &self.asked {
            asked.lock().entry(user.name.clone()).or_default().insert(Right::of(wanted));
        }
        self.may(store, user, wanted)
    }

    /// Whether a user might do something to a resource.
    pub(crate) fn may(&self, store: &Store, user: &User, wanted: &Attributes<'_>) -> bool {
        self.allows(store, user, wanted.namespace, |rule| rule.allows(wanted))
    }

    /// Whether a user may read a path that is no resource.
    pub(crate) fn may_read(&self, store: &Store, user: &User, verb: &str, path: &str) -> bool {
        self.allows(store, user, None, |rule| rule.allows_url(verb, path))
    }

    /// Refuses what the identity may not do.
    pub(crate) fn check(&self, store: &Store, identity: &str, wanted: &Attributes<'_>) -> ApiResult<()> {
        if self.authorizes(store, &User::of(identity), wanted) {
            return Ok(());
        }
        let whole = match wanted.sub {
            Some(sub) => format!("{}/{sub}", wanted.resource),
            None => wanted.resource.to_owned(),
        };
        let place = match wanted.namespace {
            Some(namespace) => format!("in the namespace {}", quoted(namespace)),
            None => "at the cluster scope".to_owned(),
        };
        let object = wanted.name.map(|name| format!(" {}", quoted(name))).unwrap_or_default();
        let message = format!(
            "{}{object} is forbidden: User {} cannot {} resource {} in API group {} {place}",
            qualify(wanted.resource, wanted.group),
            quoted(identity),
            wanted.verb,
            quoted(&whole),
            quoted(wanted.group)
        );
        let mut details = serde_json::json!({"kind": wanted.resource});
        if let Some(name) = wanted.name {
            details["name"] = name.into();
        }
        if !wanted.group.is_empty() {
            details["group"] = wanted.group.into();
        }
        Err(ApiError::forbidden(details, message))
    }
}
