//! The source of the certificate authorities that a controller publishes: the file of `--root-ca-file`, or the certificate authority
//! of the kubeconfig.
//!
//! The source is read at the start and every 30 seconds. Upstream reads it once, and ends if it is unusable. Here the last good
//! bundle stays in use, because a file that is being replaced is unusable for a moment.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nonet_client::{
    ca_bundle::{Bundle, BundleReads, MAX_BUNDLE_BYTES},
    client::read_authority,
};
use parking_lot::Mutex;

use crate::{
    metrics::Stability,
    runtime::LoopContext,
    settings::{KUBECONFIG, OperatorSettings, Tunable},
};

/// `--root-ca-file`: the file of the bundle; by default, the certificate authority of the kubeconfig.
pub const ROOT_CA_FILE: Tunable = Tunable::of_file(
    "root-ca-file",
    "File with the certificate authorities of the API server, which every namespace gets in the ConfigMap kube-root-ca.crt; \
     read again when it changes. By default, the certificate authority of the kubeconfig",
);

/// The pause between two reads of the source.
const READ_PERIOD: Duration = Duration::from_secs(30);

/// The bundle of the process, which follows its source.
#[derive(Default)]
pub struct BundleFile {
    settings: Arc<OperatorSettings>,
    reads: Mutex<BundleReads>,
    started: OnceLock<()>,
    /// Functions that are called after each change of the bundle.
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl BundleFile {
    /// Returns the bundle that all loops of the process share. The first call reads the source, and starts a task that reads it again.
    pub fn shared(context: &LoopContext) -> Arc<Self> {
        let settings = Arc::clone(&context.settings);
        let file = context.shared_values.get_or_insert_with(|| Self { settings, ..Self::default() });
        file.started.get_or_init(|| {
            let help = "1 if the last read of the certificate authorities of the API server found nothing to publish.";
            let unusable = context.metrics.gauge("nonet_root_ca_unusable", Stability::Alpha, help, &[]);
            let refresh = move |file: &Self| unusable.with_label_values(&[]).set(f64::from(file.read().is_err()));
            refresh(&file);
            let (clock, follower) = (context.clock.clone(), Arc::downgrade(&file));
            tokio::spawn(async move {
                loop {
                    clock.sleep(READ_PERIOD).await;
                    let Some(file) = follower.upgrade() else { break };
                    refresh(&file);
                }
            });
        });
        file
    }

    /// Returns the last good bundle; `None` before the first one.
    pub fn bundle(&self) -> Option<Arc<Bundle>> {
        self.reads.lock().bundle.clone()
    }

    /// Calls a function after each change of the bundle.
    pub fn on_change(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.listeners.lock().push(Box::new(listener));
    }

    /// Fails without a bundle, with the reason.
    pub fn check_usable(&self) -> Result<(), String> {
        let reads = self.reads.lock();
        if reads.bundle.is_some() { Ok(()) } else { Err(reads.problem.clone().unwrap_or_default()) }
    }

    /// Reads the source, logs each change of the result, and calls the listeners after a change of the bundle. Fails if the source is
    /// unusable.
    fn read(&self) -> Result<(), ()> {
        let read = read_source(&self.settings);
        let mut reads = self.reads.lock();
        let old_problem = reads.problem.clone();
        let is_new_bundle = reads.add_read(read);
        match &reads.problem {
            Some(problem) if reads.problem != old_problem => {
                let effect =
                    if reads.bundle.is_some() { "the last good one stays in use" } else { "nothing is published" };
                tracing::error!("{problem}; {effect}");
            }
            None if is_new_bundle => tracing::info!("Publishing new certificate authorities of the API server"),
            None if old_problem.is_some() => tracing::info!("The certificate authorities can be used again"),
            Some(_) | None => {}
        }
        let result = reads.problem.as_ref().map_or(Ok(()), |_| Err(()));
        drop(reads);
        if is_new_bundle {
            self.listeners.lock().iter().for_each(|listener| listener());
        }
        result
    }
}

/// Reads the bundle from the file that a flag names. In a Pod without flags there is no source: the authority that the Pod knows is a
/// copy of what the loop publishes.
fn read_source(settings: &OperatorSettings) -> Result<Bundle, String> {
    let (source, read) = match (settings.tuned_file(&ROOT_CA_FILE), settings.tuned_file(&KUBECONFIG)) {
        (Some(path), _) => (format!("--root-ca-file {}", path.display()), read_file(path).map_err(|e| e.to_string())),
        (None, Some(path)) => ("the bundle".to_owned(), read_authority(path).map_err(|error| error.to_string())),
        (None, None) => ("the bundle".to_owned(), Err("it has no source".to_owned())),
    };
    let advice = if source == "the bundle" { "; name a file with --root-ca-file" } else { "" };
    read.and_then(Bundle::parse).map_err(|why| format!("{source} cannot be used: {why}{advice}"))
}

/// Reads a file up to one byte more than a bundle may have.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BUNDLE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
