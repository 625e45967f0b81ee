# `make` lists the targets. CONTRIBUTING.md lists what they need: Rust, Go and little else, no Docker, no cluster.

CARGO ?= cargo
# VERSION, IMAGE and REPOSITORY are those of `make manifests`.
# Variables that the programs read: KEEP, ACCEPT, CUDA_IMAGE, KUBECONFIG, BENCH_IDLE, GPU_OPERATOR_CHARTS, GPU_MANAGER_CACHE.
# Given on make's command line, they reach them by themselves.

.DEFAULT_GOAL := help
.PHONY: help demo test bench acceptance lint crds rbac images form reference diagrams generated catalogue charts manifests toolchain

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: toolchain ## Show the module's whole life on a local cluster (KEEP=1 keeps it)
	@$(CARGO) build --locked --workspace --bin gpu-manager --bin demo
	@$(CARGO) run --locked --quiet --package e2e --bin demo

test: toolchain ## Run every test, from unit to end to end
	@hack/test.sh

bench: toolchain ## Measure a release build on a local cluster (BENCH_IDLE=<seconds>, BENCH_ARGS=--check)
	@$(CARGO) build --locked --release --package gpu-manager
	@$(CARGO) run --locked --quiet --package e2e --bin bench -- $(BENCH_ARGS)

acceptance: toolchain ## Go the demo's path on a real cluster (KUBECONFIG=<file>, CUDA_IMAGE=, ACCEPT=yes)
	@$(CARGO) build --locked --package e2e --bin acceptance
	@$(CARGO) run --locked --quiet --package e2e --bin acceptance

lint: ## Check format and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings

crds: ## Generate crds/ from the types
	$(CARGO) run --locked --quiet --package gpu-manager -- crds > .crds.tmp
	mv .crds.tmp crds/operator.kyma-project.io_gpumodules.yaml

rbac: ## Generate roles, admission policy and docs/contributor/rbac.md from the charts
	$(CARGO) run --locked --quiet --package e2e --bin rbac

images: toolchain ## Generate hack/deploy/base/images.yaml from the charts that can be installed
	$(CARGO) run --locked --quiet --package e2e --bin manifests -- images

form: ## Generate the chart versions that the dashboard's form offers
	$(CARGO) run --locked --quiet --package e2e --bin manifests -- form

reference: ## Generate the tables of the GpuModule's reference from its CRD
	$(CARGO) run --locked --quiet --package e2e --bin docs -- reference

diagrams: ## Draw docs/assets/*.svg from the texts beside them
	$(CARGO) run --locked --quiet --package e2e --bin docs -- diagrams

generated: ## Check that the generated files are up to date
	$(CARGO) run --locked --quiet --package gpu-manager -- crds | diff -u crds/operator.kyma-project.io_gpumodules.yaml -
	$(CARGO) run --locked --quiet --package e2e --bin rbac -- --check
	$(CARGO) run --locked --quiet --package e2e --bin manifests -- images --check
	$(CARGO) run --locked --quiet --package e2e --bin manifests -- form --check
	$(CARGO) run --locked --quiet --package e2e --bin docs -- --check

catalogue: toolchain ## Check chart-values/ against NVIDIA's charts: digests, CRDs, images, restarts, rights, what values reach
	CI=true $(CARGO) test --locked --package gpu-manager --lib -- catalogue:: desired::
	CI=true $(CARGO) test --locked --package e2e --test charts --test fields --test restarts --test reach
	CI=true $(CARGO) run --locked --quiet --package e2e --bin rbac -- --check
	$(CARGO) run --locked --quiet --package e2e --bin manifests -- form --check

charts: toolchain ## Copy the chart archives that the image needs into charts/
	@$(CARGO) run --locked --quiet --package e2e --bin charts

manifests: toolchain ## Write the files of a release into dist/ (VERSION=x.y.z, IMAGE=<image without tag>, REPOSITORY=<url>)
	@test -n "$(VERSION)" || { echo "VERSION is missing: make manifests VERSION=x.y.z" >&2; exit 1; }
	@$(CARGO) run --locked --quiet --package e2e --bin manifests -- build \
		--version "$(VERSION)" --image "$(IMAGE)" --repository "$(REPOSITORY)"

toolchain:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: install it from https://rustup.rs and run again" >&2; exit 1; }
	@command -v go >/dev/null || { echo "Go is missing: install Go 1.26 or newer from https://go.dev/dl and run again" >&2; exit 1; }
