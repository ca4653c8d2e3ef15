# Written by `cargo run -p tools --bin generate`.
# Builds the images of all controllers with one compilation for each architecture:
#   docker buildx bake -f deploy/images/docker-bake.hcl --load --set '*.platform=linux/amd64'      # loads them into Docker on this machine
#   REGISTRY=registry.example/nonet TAG=v0.1.0 docker buildx bake -f deploy/images/docker-bake.hcl --push
# NONET_COMMIT and SOURCE_DATE_EPOCH of the environment set the commit and the dates in the images. Two builds of one commit can still
# have different digests, because clang comes from Debian's current packages, and because attestations contain the time of the build.

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
      "clusterrole-controller",
      "cronjob-controller",
      "daemonset-controller",
      "deployment-controller",
      "disruption-controller",
      "endpointslice-controller",
      "gc-controller",
      "job-controller",
      "namespace-controller",
      "node-lifecycle-controller",
      "replicaset-controller",
      "resourcequota-controller",
      "serviceaccount-controller",
      "statefulset-controller",
      "volume-controller",
    ]
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
