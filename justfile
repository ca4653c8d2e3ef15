# Common commands. `just` lists them.
default:
    @just --list

# Format, lints, manifests and tests, as in CI.
ci:
    .ci/run

# All tests, on the sandbox.
test *ARGS:
    cargo build --workspace --bins
    cargo test --workspace {{ARGS}}
    cargo run --quiet --package e2e --bin skipped

# Format and lints, with warnings as errors.
lint:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets -- -D warnings

# A local cluster with an example application, shown live in the terminal.
playground *ARGS:
    cargo run --profile trial --bin playground -- {{ARGS}}

# Benchmarks of throughput, CPU, memory and requests per Pod.
bench *ARGS:
    cargo build --release --workspace --bins
    cargo run --release -p tools --bin bench -- {{ARGS}}

# One suite against a real kube-apiserver: KUBEBUILDER_ASSETS names a directory with etcd and kube-apiserver.
envtest SUITE:
    NONET_CLUSTER=envtest cargo test -p e2e --test suites -- {{SUITE}}::
