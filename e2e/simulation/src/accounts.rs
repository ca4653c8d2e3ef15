//! What the controllers say of their own writes, held against what leaves them.
//!
//! Two oracles: each write that leaves a process is in the account of a sync in progress, which is what a reader of
//! `/debug/explain` is shown; and where a sync did otherwise than its forecast said, its account gives a reason.

use std::sync::Arc;

use common::sequence::{Account, AccountObserver};
use parking_lot::Mutex;

use super::hub::{Asked, Hub};

/// The accounts of one process.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    open: Mutex<Vec<Account>>,
    /// Whether accounts are shown without deletions and patches, to see that an oracle notices.
    hides: bool,
}

impl Accounts {
    /// No sync is in progress. `hides`: whether deletions and patches are kept back.
    pub(super) fn new(hides: bool) -> Self {
        Self { open: Mutex::default(), hides }
    }

    /// Whether a reader of the accounts is shown this write.
    pub(super) fn show(&self, asked: &Asked) -> bool {
        if self.hides && asked.method != http::Method::POST {
            return false;
        }
        let Some(object) = asked.object() else { return false };
        let shows = |account: &Account| {
            account.shows(asked.method.as_str(), object.plural, object.namespace, object.name, object.subresource)
        };
        self.open.lock().iter().any(shows)
    }
}

/// Tells the hub of accounts that are not kept.
pub(super) struct Observer {
    pub(super) hub: Arc<Hub>,
    pub(super) process: String,
    pub(super) accounts: Arc<Accounts>,
}

impl AccountObserver for Observer {
    fn begins(&self, account: &Account) {
        self.accounts.open.lock().push(account.clone());
    }

    fn ends(&self, account: &Account) {
        self.accounts.open.lock().retain(|open| !open.is_same(account));
        let unexplained =
            account.entries().into_iter().find(|entry| entry.sent != entry.expected && entry.deviation.is_none());
        if let Some(entry) = unexplained {
            let what = format!(
                "{}: {entry}: expected {} times, sent {} times, and nothing says why",
                self.process, entry.expected, entry.sent
            );
            self.hub.seen.lock().violations.push(("forecasts-are-kept", what));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use common::{
        object::Resource,
        sequence::{Note, Request, Step, Steps, Turn, forecast},
    };
    use http::Method;

    use super::*;
    use crate::perturbation::Perturbation;
    use sandbox::Sandbox;

    const PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod", namespaced: true };

    struct Nothing;

    impl Note for Nothing {
        type Question = ();
        type Fresh = ();
    }

    #[test]
    fn a_request_that_was_forecast_and_never_sent_is_noticed() {
        let mut sequence = Steps::new((), |(), _: &mut Turn<Nothing>| {
            Step::Send(Request::get(PODS, &"ns".into(), &"a".into()), |(), _| Step::Done)
        });
        let account = forecast(&mut sequence, jiff::Timestamp::UNIX_EPOCH).account.unwrap();
        let (hub, _news) = Hub::new(Sandbox::builder().build(), &Perturbation::default());
        let accounts = Arc::new(Accounts::default());
        let observer = Observer { hub: Arc::clone(&hub), process: "job-controller#1".to_owned(), accounts };
        observer.begins(&account);
        let asked =
            Asked { method: Method::GET, path: "/api/v1/namespaces/ns/pods/a".to_owned(), query: String::new() };
        assert!(!observer.accounts.show(&asked), "it was not sent");
        observer.ends(&account);
        let seen = hub.seen.lock();
        let oracles: Vec<&str> = seen.violations.iter().map(|(oracle, _)| *oracle).collect();
        assert_eq!(oracles, ["forecasts-are-kept"]);
    }
}
