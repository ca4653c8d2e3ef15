//! The usage of one object, and sums of usages by what scopes judge.

use std::collections::BTreeMap;

use common::{
    prelude::*,
    quantity::{Amount, AmountSum},
};
use jiff::Timestamp;

/// Amounts by name.
pub type Amounts = BTreeMap<Text, Amount>;

/// What one object uses, as far as it follows from the object alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// The facts that decide which sums contain the object.
    pub class: UsageClass,
    /// The usage under each name besides the count of objects.
    pub amounts: Amounts,
}

/// The facts that decide whether a quota counts an object. A sum is kept for each class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UsageClass {
    /// What scopes judge.
    pub facts: ScopeFacts,
    /// Until when the amounts of a terminating Pod count; `None` if they always count. The object itself counts until it is gone.
    pub amounts_end: Option<Timestamp>,
}

/// What the scopes of a quota judge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScopeFacts {
    /// An object of a kind that satisfies no scope.
    #[default]
    NoScopes,
    /// The facts of a Pod.
    Pod {
        /// Whether the Pod has a deadline.
        is_terminating: bool,
        /// Whether the Pod sets no request and no limit.
        is_best_effort: bool,
        /// `priorityClassName`; empty for none.
        priority_class: Text,
        /// Whether a term of affinity or anti-affinity selects other namespaces.
        has_cross_namespace_affinity: bool,
    },
    /// A PersistentVolumeClaim.
    VolumeClaim {
        /// The VolumeAttributesClasses that the claim has, had, or is about to have; sorted, without duplicates.
        attributes_classes: Box<[Text]>,
    },
}

impl Usage {
    /// Whether a change from `self` to `new` may lower the usage of a quota.
    pub fn is_lowered_by(&self, new: &Self) -> bool {
        let amount_in = |name: &Text| new.amounts.get(name).copied().unwrap_or(Amount::ZERO);
        self.class.facts != new.class.facts
            || self.amounts.iter().any(|(name, amount)| amount_in(name).compare(*amount).is_lt())
    }
}

/// The sums of a class of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSums {
    /// Number of objects.
    pub objects: u64,
    /// The sum under each name that an object of the class uses.
    pub amounts: BTreeMap<Text, NamedSum>,
}

/// The sum of the usages under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedSum {
    sum: AmountSum,
    /// Number of objects with an amount under the name. The sum is dropped with the last one.
    users: u64,
}

impl ClassSums {
    /// Adds an object.
    pub fn add(&mut self, usage: &Usage) {
        self.objects += 1;
        for (name, amount) in &usage.amounts {
            let named_sum = self.amounts.entry(name.clone()).or_default();
            named_sum.sum.add(*amount);
            named_sum.users += 1;
        }
    }

    /// Removes an object that was added before with the same usage.
    pub fn remove(&mut self, usage: &Usage) {
        self.objects = self.objects.saturating_sub(1);
        for (name, amount) in &usage.amounts {
            let Some(named_sum) = self.amounts.get_mut(name) else { continue };
            named_sum.sum.subtract(*amount);
            named_sum.users = named_sum.users.saturating_sub(1);
            if named_sum.users == 0 {
                self.amounts.remove(name);
            }
        }
    }
}

/// The sums of the objects of one kind in one namespace, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSums(pub HashMap<UsageClass, ClassSums>);

impl UsageSums {
    /// Adds an object.
    pub fn add(&mut self, usage: &Usage) {
        self.0.entry(usage.class.clone()).or_default().add(usage);
    }

    /// Removes an object that was added before with the same usage.
    pub fn remove(&mut self, usage: &Usage) {
        let Some(sums) = self.0.get_mut(&usage.class) else { return };
        sums.remove(usage);
        if sums.objects == 0 {
            self.0.remove(&usage.class);
        }
    }

    /// Returns the number of objects of the classes that `is_counted` accepts.
    pub fn objects(&self, is_counted: impl Fn(&ScopeFacts) -> bool) -> u64 {
        self.0.iter().filter(|(class, _)| is_counted(&class.facts)).map(|(_, sums)| sums.objects).sum()
    }

    /// Adds the usage under a name, in the classes that `is_counted` accepts, to `sum`.
    pub fn add_usage_to(
        &self,
        sum: &mut AmountSum,
        name: &str,
        now: Timestamp,
        is_counted: impl Fn(&ScopeFacts) -> bool,
    ) {
        let counts = |class: &UsageClass| is_counted(&class.facts) && class.amounts_end.is_none_or(|end| now <= end);
        for (_, sums) in self.0.iter().filter(|(class, _)| counts(class)) {
            if let Some(named_sum) = sums.amounts.get(name) {
                sum.add_sum(&named_sum.sum);
            }
        }
    }
}
