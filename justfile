# The commands people use daily. `just` lists them.
default:
    @just --list

# Format, lints, manifests, tests: what CI runs.
ci:
    .ci/run

# All tests, on the sandbox.
test *ARGS:
    cargo build --workspace --bins
    cargo test --workspace {{ARGS}}
    cargo run --quiet --package e2e --bin skipped

# Lints as errors.
lint:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets -- -D warnings

# A cluster on this machine with an example application, live in the terminal.
playground *ARGS:
    cargo run --profile trial --bin playground -- {{ARGS}}

# Throughput, CPU, memory and requests per Pod.
bench *ARGS:
    cargo build --release --workspace --bins
    cargo run --release -p e2e --bin bench -- {{ARGS}}

# One suite against a real kube-apiserver: KUBEBUILDER_ASSETS names a directory with etcd and kube-apiserver.
envtest SUITE:
    NONET_CLUSTER=envtest cargo test -p e2e --test {{SUITE}}
