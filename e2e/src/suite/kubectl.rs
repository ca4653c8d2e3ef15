//! Runs of the real kubectl against the cluster of a suite.

use std::{process::Stdio, time::Duration};

use serde_json::Value;
use tokio::process::Command;

use super::{Context, Failure};
use crate::tools;

const KUBECTL_PATIENCE: Duration = Duration::from_secs(120);

/// The first minor version of kubectl that encodes a Pod template as the API server of 1.36 does. Earlier ones write a creation
/// time that is null.
const ENCODES_AS_SERVER: u32 = 34;

/// What a run of kubectl printed, and whether it succeeded.
#[derive(Clone, Debug)]
pub struct Printed {
    /// Whether it ended with code 0.
    pub success: bool,
    /// The standard output.
    pub output: String,
    /// The standard error.
    pub errors: String,
}

impl Printed {
    /// The lines of the output, with single spaces between words and without empty lines.
    pub fn lines(&self) -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        self.output.lines().map(words).filter(|line| !line.is_empty()).collect()
    }
}

impl Context {
    /// Runs kubectl in the test's namespace, and waits until it has ended.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Printed, Failure> {
        let shown = format!("kubectl {}", arguments.join(" "));
        let program = tools::kubectl().ok_or_else(|| Failure::new("kubectl is not installed"))?;
        let mut command = Command::new(program);
        // Its caches are the cluster's: another cluster may have the same address later.
        command.env("HOME", self.cluster().directory()).env_remove("KUBECONFIG").stdin(Stdio::null());
        command.arg("--kubeconfig").arg(self.cluster().kubeconfig()).arg("--namespace").arg(self.namespace());
        let run = command.args(arguments).kill_on_drop(true).output();
        let output = tokio::select! {
            output = run => output.map_err(|error| Failure::new(format!("{shown}: {error}")))?,
            () = self.sleep(KUBECTL_PATIENCE) => return self.fail(&format!("{shown} did not end in time")).await,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Printed { success: output.status.success(), output: text(&output.stdout), errors: text(&output.stderr) })
    }

    /// Runs kubectl, and fails if it does.
    pub async fn kubectl_succeeds(&self, arguments: &[&str]) -> Result<Printed, Failure> {
        let printed = self.kubectl(arguments).await?;
        if printed.success {
            return Ok(printed);
        }
        self.fail(&format!("kubectl {}: {}{}", arguments.join(" "), printed.output, printed.errors)).await
    }

    /// Checks the history, the rollback and the state of a rollout as kubectl shows them, of an object that has rolled out a
    /// first template with the change cause `first` and then a second one with `second`.
    ///
    /// `object` names it as `statefulset/web`, `done` is what kubectl prints of a rollout that is complete, and `image` is the
    /// image of the first template.
    pub async fn check_rollback(&self, object: &str, done: &str, image: &str) -> Result<(), Failure> {
        let history = async || -> Result<Vec<String>, Failure> {
            let printed = self.kubectl_succeeds(&["rollout", "history", object]).await?;
            Ok(printed.lines().split_off(1))
        };
        let status = async || -> Result<String, Failure> {
            let printed = self.kubectl_succeeds(&["rollout", "status", object, "--timeout=60s"]).await?;
            Ok(printed.lines().pop().unwrap_or_default())
        };
        let head = "REVISION CHANGE-CAUSE";
        let last = status().await?;
        assert!(last.contains(done), "{last}");
        assert_eq!(history().await?, [head, "1 first", "2 second"]);
        let first = self.kubectl_succeeds(&["rollout", "history", object, "--revision=1"]).await?;
        assert!(first.lines().contains(&format!("Image: {image}")), "{}", first.output);
        let undone = self.kubectl_succeeds(&["rollout", "undo", object]).await?;
        assert!(undone.output.contains("rolled back"), "{}", undone.output);
        let last = status().await?;
        assert!(last.contains(done), "{last}");
        self.until("the first template to be numbered anew", async || {
            (history().await.ok()? == [head, "2 second", "3 first"]).then_some(())
        })
        .await?;
        // kubectl compares the template of a Deployment, and otherwise the bytes of its own encoding with those of the revision.
        let compares = object.starts_with("deployment/") || self.kubectl_minor_version().await? >= ENCODES_AS_SERVER;
        let again = self.kubectl_succeeds(&["rollout", "undo", object, "--to-revision=3"]).await?;
        assert_eq!(again.output.contains("skipped rollback"), compares, "{}", again.output);
        assert_eq!(history().await?, [head, "2 second", "3 first"]);
        self.kubectl_succeeds(&["rollout", "undo", object, "--to-revision=2"]).await?;
        let last = status().await?;
        assert!(last.contains(done), "{last}");
        self.until("the second template to be numbered anew", async || {
            (history().await.ok()? == [head, "3 first", "4 second"]).then_some(())
        })
        .await
    }

    /// The 36 of v1.36.2.
    async fn kubectl_minor_version(&self) -> Result<u32, Failure> {
        let printed = self.kubectl_succeeds(&["version", "--client", "--output=json"]).await?;
        let version: Value = serde_json::from_str(&printed.output)?;
        let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
        let digits: String = minor.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().map_err(|_| Failure(format!("the minor version of kubectl cannot be read: {minor:?}")))
    }

    /// Checks that kubectl waits for a rollout that does not end, says for what, and gives up in time.
    pub async fn check_stuck_rollout(&self, object: &str, waits: &str) -> Result<(), Failure> {
        let printed = self.kubectl(&["rollout", "status", object, "--timeout=3s"]).await?;
        assert!(!printed.success, "{}", printed.output);
        assert!(printed.output.contains(waits), "{}", printed.output);
        assert!(printed.errors.contains("timed out"), "{}", printed.errors);
        Ok(())
    }
}
