//! `deploy/images`: one compilation, and an image of each controller.

use super::{File, MARK, by_name, fill, fill_each, join};

/// The files, of which Docker reads the first line of the Dockerfile as a directive.
pub(super) fn files() -> [File; 2] {
    let packages: Vec<String> = by_name().into_iter().map(|controller| fill("-p NAME", controller)).collect();
    let lines = join(packages.chunks(5).map(|chunk| format!("      {} \\\n", chunk.join(" "))));
    let stages = fill_each(STAGE, by_name());
    let dockerfile = format!("{SYNTAX}\n# {MARK}.\n{COMPILATION}{lines}{AFTER_COMPILATION}{stages}{BINARIES}");
    let bake = format!("{BAKE}{}{AFTER_CONTROLLERS}", fill_each("      \"NAME\",\n", by_name()));
    [
        File { path: "deploy/images/Dockerfile".to_owned(), text: dockerfile },
        File::of_deploy("images/docker-bake.hcl", &bake),
    ]
}

const SYNTAX: &str = "# syntax=docker/dockerfile:1";

const COMPILATION: &str = r#"# Compiles all controllers at once, and makes one image for each. Used by deploy/images/docker-bake.hcl. deploy/images/pack makes
# images with the same contents from existing binaries.
ARG RUST=1.95.0
ARG DEBIAN=bookworm

# This stage runs on the platform of the builder and cross-compiles for the platform of the image, without emulation.
FROM --platform=$BUILDPLATFORM rust:${RUST}-slim-${DEBIAN} AS build
# ring contains C and assembler. For arm64, clang needs no headers. For amd64, the GNU compiler brings its headers.
RUN apt-get update && apt-get install --yes --no-install-recommends clang \
    $(test "$(dpkg --print-architecture)" = amd64 || echo gcc-x86-64-linux-gnu libc6-dev-amd64-cross) \
    && rm -rf /var/lib/apt/lists/*
# Selects the toolchain of the base image. With rust-toolchain.toml, rustup would download rustfmt and clippy.
ARG RUST
ENV RUSTUP_TOOLCHAIN=${RUST}
ARG TARGETARCH
RUN case "$TARGETARCH" in \
      amd64) echo x86_64-unknown-linux-musl ;; \
      arm64) echo aarch64-unknown-linux-musl ;; \
      *) echo "no target for $TARGETARCH" >&2; exit 1 ;; \
    esac >/target && rustup target add "$(cat /target)"
ENV CC_x86_64_unknown_linux_musl=x86_64-linux-gnu-gcc \
    CC_aarch64_unknown_linux_musl=clang \
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
WORKDIR /src
COPY . .
# The commit in --version, in logs and in nonet_build_info.
ARG NONET_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,id=target-$TARGETARCH \
    NONET_COMMIT="$NONET_COMMIT" cargo build --release --locked --target "$(cat /target)" \
"#;

const AFTER_COMPILATION: &str = r#"    && mkdir /out && for each in *-controller; do install -m 0555 "target/$(cat /target)/release/$each" "/out/$each"; done

"#;

const STAGE: &str = r#"FROM scratch AS NAME
COPY --from=build /out/NAME /
USER 65532:65532
ENTRYPOINT ["/NAME"]

"#;

const BINARIES: &str = r#"# Only the binaries: docker buildx bake binaries
FROM scratch AS binaries
COPY --from=build /out/ /

# The plug-in for kubectl: docker buildx bake plugin
FROM build AS build-plugin
ARG TARGETARCH
ARG NONET_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,id=target-$TARGETARCH \
    NONET_COMMIT="$NONET_COMMIT" cargo build --release --locked --target "$(cat /target)" -p kubectl-nonet \
    && mkdir /plugin && install -m 0755 "target/$(cat /target)/release/kubectl-nonet" /plugin/

FROM scratch AS plugin
COPY --from=build-plugin /plugin/ /
"#;

const BAKE: &str = r#"# Builds the images of all controllers with one compilation for each architecture:
#   docker buildx bake -f deploy/images/docker-bake.hcl --load --set '*.platform=linux/amd64'      # loads them into Docker on this machine
#   REGISTRY=registry.example/nonet TAG=v0.1.0 docker buildx bake -f deploy/images/docker-bake.hcl --push
# With NONET_COMMIT and SOURCE_DATE_EPOCH from the environment, the same commit results in the same digests.

variable "REGISTRY" { default = "registry.invalid/nonet" }
variable "TAG" { default = "dev" }
variable "NONET_COMMIT" { default = "unknown" }
# Output of `git log -1 --format=%ct`.
variable "SOURCE_DATE_EPOCH" { default = "0" }
variable "SOURCE_URL" { default = "" }

group "default" {
  targets = ["image"]
}

target "image" {
  name = controller
  matrix = {
    controller = [
"#;

const AFTER_CONTROLLERS: &str = r#"    ]
  }
  context    = "."
  dockerfile = "deploy/images/Dockerfile"
  target     = controller
  platforms  = ["linux/amd64", "linux/arm64"]
  tags       = ["${REGISTRY}/${controller}:${TAG}"]
  args = {
    NONET_COMMIT      = NONET_COMMIT
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  labels = {
    "org.opencontainers.image.title"       = controller
    "org.opencontainers.image.description" = "${controller} of Nonet"
    "org.opencontainers.image.version"     = trimprefix(TAG, "v")
    "org.opencontainers.image.revision"    = NONET_COMMIT
    "org.opencontainers.image.source"      = SOURCE_URL
    "org.opencontainers.image.licenses"    = "Apache-2.0"
  }
}

# Only the binaries: docker buildx bake -f deploy/images/docker-bake.hcl binaries --set binaries.output=out
target "binaries" {
  context    = "."
  dockerfile = "deploy/images/Dockerfile"
  target     = "binaries"
  platforms  = ["linux/amd64", "linux/arm64"]
  args       = { NONET_COMMIT = NONET_COMMIT }
}

# The plug-in for kubectl: docker buildx bake -f deploy/images/docker-bake.hcl plugin --set plugin.output=out
target "plugin" {
  context    = "."
  dockerfile = "deploy/images/Dockerfile"
  target     = "plugin"
  platforms  = ["linux/amd64", "linux/arm64"]
  args       = { NONET_COMMIT = NONET_COMMIT }
}
"#;
