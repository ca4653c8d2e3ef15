//! Accounts and certificate authorities of namespaces: the suite, and what users do at any moment.

use common::settings::TunableValue;
use serde_json::json;

use super::{
    interferences::at_once,
    serviceaccount_invariants::{ACCOUNTS, CONFIG_MAPS, INVARIANTS, PROMISES, ROOT_CA},
};
use crate::scenario::{Interference, Suite, What};

pub(super) const SUITE: Suite = Suite {
    name: "serviceaccount",
    programs: &[&serviceaccount_controller::DEFINITION],
    tunes: &[(
        "root-ca-file",
        TunableValue::File(concat!(env!("CARGO_MANIFEST_DIR"), "/../../common/client/testdata/ca.crt")),
    )],
    gates: &[],
    text: include_str!("serviceaccount.txt"),
    invariants: &[INVARIANTS],
    promises: &[PROMISES],
    interferences: &[
        Interference { name: "delete-account", act: |_, _| at_once([What::delete(ACCOUNTS, "default")]) },
        Interference { name: "delete-bundle", act: |_, _| at_once([What::delete(CONFIG_MAPS, ROOT_CA)]) },
        Interference {
            name: "change-bundle",
            act: |_, _| at_once([What::merge(CONFIG_MAPS, ROOT_CA, json!({"data": {"ca.crt": "x", "other": "y"}}))]),
        },
        Interference {
            name: "empty-bundle",
            act: |_, _| at_once([What::merge(CONFIG_MAPS, ROOT_CA, json!({"data": null}))]),
        },
    ],
};
