//! The plan of a pass over nodes that changed or have reached their deadline, or over nodes that wait for a taint.

pub(crate) mod health;
pub(crate) mod tainting;

use std::time::Duration;

use common::controller::SyncPlan;

pub(crate) enum Plan {
    /// Plan for nodes that changed or have reached their deadline.
    Health(Box<health::Plan>),
    /// Plan for nodes that wait for a `NoExecute` taint.
    Tainting(tainting::Plan),
}

impl Plan {
    fn as_explain(&self) -> &dyn SyncPlan {
        match self {
            Self::Health(plan) => &**plan,
            Self::Tainting(plan) => plan,
        }
    }
}

impl SyncPlan for Plan {
    fn situation(&self) -> String {
        self.as_explain().situation()
    }

    fn wait_reasons(&self) -> Vec<String> {
        self.as_explain().wait_reasons()
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.as_explain().requeue_after()
    }

    fn is_notable(&self) -> bool {
        self.as_explain().is_notable()
    }
}
