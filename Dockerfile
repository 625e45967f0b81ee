# The image holds three things: the operator, helm, and NVIDIA's chart archives. It
# has no shell and needs no network but the API server's.
#
# Build each platform on a machine (or emulation) of its own kind and join the two
# in one manifest list; nothing is cross-compiled. `make charts` fills charts/ first.
#
# Base images are pinned by the digest of their index, so that a build can be repeated; the tag tells people what it is.
# A new version of Rust, Go or Debian changes both.
ARG RUST_IMAGE=docker.io/library/rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1
ARG GO_IMAGE=docker.io/library/golang:1.26.4-bookworm@sha256:b305420a68d0f229d91eb3b3ed9e519fcf2cf5461da4bef997bf927e8c0bfd2b
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian12:nonroot@sha256:b0ae8e989418b458e0f25489bc3be523718938a2b70864cc0f6a00af1ddbd985

# The operator, against the glibc of the runtime image (both are Debian 12).
FROM ${RUST_IMAGE} AS operator
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY chart-values chart-values
COPY crds crds
# A member of the workspace; cargo wants to see it, nothing of it is built.
COPY e2e e2e
COPY src src
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package gpu-manager \
    && cp target/release/gpu-manager /gpu-manager

# helm, from the module that the tests run: go.mod pins its version and go.sum the
# checksum of each source archive.
FROM ${GO_IMAGE} AS helm
WORKDIR /src
COPY hack/tools/helm4/go.mod hack/tools/helm4/go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    version="$(go list -m -f '{{.Version}}' helm.sh/helm/v4)" \
    && CGO_ENABLED=0 go build -trimpath -buildvcs=false \
        -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=${version}" \
        -o /helm helm.sh/helm/v4/cmd/helm

FROM ${RUNTIME_IMAGE}
COPY --from=helm --chmod=0555 /helm /usr/local/bin/helm
COPY --from=operator --chmod=0555 /gpu-manager /usr/local/bin/gpu-manager
# The operator checks each archive's digest before it uses it.
COPY charts/*.tgz /charts/
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/usr/local/bin/gpu-manager"]
CMD ["run"]
