//! Requests and limits of a Pod. Upstream: `component-helpers/resource/helpers.go`, `PodRequests`, `PodLimits`.

use std::collections::BTreeMap;

use common::{
    prelude::*,
    quantity::{Amount, Quantity},
};
use serde::{Deserialize, Deserializer};

use super::{Container, ContainerStatus, Pod, Requirements};
use crate::{names, usage::Amounts};

/// Amounts by the name of a resource.
#[derive(Clone, Debug, Default)]
pub(super) struct ResourceList(pub(super) Amounts);

impl<'de> Deserialize<'de> for ResourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let quantities = BTreeMap::<Text, Quantity>::deserialize(deserializer)?;
        Ok(Self(quantities.iter().map(|(name, quantity)| (name.clone(), Amount::from(quantity))).collect()))
    }
}

fn add(amounts: &mut Amounts, added_amounts: &Amounts) {
    for (name, amount) in added_amounts {
        let known = amounts.entry(name.clone()).or_insert(Amount::ZERO);
        *known = known.plus(*amount);
    }
}

fn raise(amounts: &mut Amounts, other_amounts: &Amounts) {
    for (name, amount) in other_amounts {
        let known = amounts.entry(name.clone()).or_insert(*amount);
        *known = known.max(*amount);
    }
}

impl Pod {
    pub(super) fn requests(&self, has_pod_level: bool) -> Amounts {
        let mut requests = self.sum_of_containers(|spec| &spec.requests, |status| Some(&status.allocated_resources));
        self.replace_by_pod_level(&mut requests, has_pod_level, |spec| &spec.requests);
        add(&mut requests, &self.spec.overhead.0);
        requests
    }

    pub(super) fn limits(&self, has_pod_level: bool) -> Amounts {
        let mut limits = self.sum_of_containers(|spec| &spec.limits, |_| None);
        self.replace_by_pod_level(&mut limits, has_pod_level, |spec| &spec.limits);
        for (name, overhead) in &self.spec.overhead.0 {
            if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
                *limit = limit.plus(*overhead);
            }
        }
        limits
    }

    fn replace_by_pod_level(
        &self,
        amounts: &mut Amounts,
        has_pod_level: bool,
        part: fn(&Requirements) -> &ResourceList,
    ) {
        let pod_level = self.spec.resources.iter().filter(|_| has_pod_level).flat_map(|resources| &part(resources).0);
        let supported =
            pod_level.filter(|(name, _)| *name == "cpu" || *name == "memory" || name.starts_with(names::HUGE_PAGES));
        amounts.extend(supported.map(|(name, amount)| (name.clone(), *amount)));
    }

    /// Returns the larger of the sum over containers and sidecars and the peak of the init containers.
    fn sum_of_containers(
        &self,
        part: fn(&Requirements) -> &ResourceList,
        allocated: fn(&ContainerStatus) -> Option<&ResourceList>,
    ) -> Amounts {
        let mut total = Amounts::new();
        for container in &self.spec.containers {
            add(&mut total, &self.effective(container, part, allocated));
        }
        let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
        for container in &self.spec.init_containers {
            if container.restart_policy.as_deref() == Some("Always") {
                let amounts = self.effective(container, part, allocated);
                add(&mut total, &amounts);
                add(&mut sidecars, &amounts);
            } else {
                let mut amounts = part(&container.resources).0.clone();
                add(&mut amounts, &sidecars);
                raise(&mut peak, &amounts);
            }
        }
        raise(&mut total, &peak);
        total
    }

    /// Returns the amounts of a container or sidecar, which can be resized: the largest of its spec and its status.
    fn effective(
        &self,
        container: &Container,
        part: fn(&Requirements) -> &ResourceList,
        allocated: fn(&ContainerStatus) -> Option<&ResourceList>,
    ) -> Amounts {
        let spec = &part(&container.resources).0;
        // Of statuses with the same name, the last one counts, and those of init containers after all others.
        let statuses = self.status.init_container_statuses.iter().rev();
        let mut statuses = statuses.chain(self.status.container_statuses.iter().rev());
        let status = statuses.find(|status| status.name == container.name);
        let Some((status, actual)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) else {
            return spec.clone();
        };
        let pending = self.status.conditions.iter().find(|condition| condition.kind == "PodResizePending");
        let is_infeasible = pending.is_some_and(|condition| condition.reason == "Infeasible");
        let mut amounts = if is_infeasible { Amounts::new() } else { spec.clone() };
        raise(&mut amounts, &part(actual).0);
        if let Some(allocated) = allocated(status) {
            raise(&mut amounts, &allocated.0);
        }
        amounts
    }
}
