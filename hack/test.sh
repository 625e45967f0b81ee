#!/usr/bin/env bash
# Runs every test, tier by tier, and says how long each took. `make test` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo="${CARGO:-cargo}"
# Each end-to-end test may run a control plane of its own, which fills about one core while it starts.
threads="$(nproc 2>/dev/null || echo 2)"
threads="$((threads > 4 ? 4 : threads))"

times=()
failed=0

# tier NAME COMMAND...: runs a command; the next tier runs even if it fails.
tier() {
    local name="$1" start="$SECONDS" result=passed
    shift
    printf '\n== %s\n' "$name"
    "$@" || { result=FAILED failed=1; }
    times+=("$(printf '%5d s  %-6s  %s' "$((SECONDS - start))" "$result" "$name")")
}

# Without these the tests behind them could only fail. The tests need more features of some crates than the programs.
tier "build the operator and the programs around it" "$cargo" build --locked --workspace --bins
((failed == 0)) && tier "build the tests" "$cargo" test --locked --workspace --no-run
# What the image holds; the Pod-like run starts it.
((failed == 0)) && tier "build the release binary" "$cargo" build --locked --release --package gpu-manager
((failed == 0)) && tier "build the local cluster's programs" "$cargo" run --locked --quiet --package e2e --bin tools
if ((failed == 0)); then
    tier "unit tests" "$cargo" test --locked --workspace --no-fail-fast --lib --bins
    tier "end-to-end tests" "$cargo" test --locked --workspace --no-fail-fast --test '*' -- --test-threads="$threads"
    tier "examples in the documentation" "$cargo" test --locked --workspace --no-fail-fast --doc
fi

printf '\n== time\n'
printf '%s\n' "${times[@]}"
exit "$failed"
