#!/usr/bin/env bash
# Proposes what NVIDIA and the Garden Linux NVIDIA installer have published since: a file for a newer chart, drafted from
# the newest one that is known, and a newer installer release as the default. Prints a line for each, nothing if there
# is nothing new. A person decides about stage, driverLayout and what else the draft copies.
#
#   hack/update.sh <index.yaml of NVIDIA's chart repository> <newest installer release>
set -euo pipefail
index="$(realpath "$1")" installer="${2#v}"
cd "$(dirname "$0")/.."

# Versions and digests of gpu-operator, released ones alone, one pair a line.
published() {
    awk '
        /^  [a-z]/ { chart = ($1 == "gpu-operator:") }
        !chart { next }
        /^  - / { version = digest = "" }
        $1 == "digest:" || ($1 == "-" && $2 == "digest:") { digest = $NF }
        $1 == "version:" || ($1 == "-" && $2 == "version:") { version = $NF }
        version && digest { gsub(/^"?v|"$/, "", version); print version, digest; version = digest = "" }
    ' "$index" | grep -E '^[0-9]+\.[0-9]+\.[0-9]+ [0-9a-f]{64}$' | sort --version-sort
}

known="$(basename --suffix .yaml chart-values/charts/*.yaml | sort --version-sort | tail -n 1)"
read -r version digest <<< "$(published | tail -n 1)"
[ -n "${version:-}" ] || { echo "the index has no gpu-operator" >&2; exit 1; }
newest="$(printf '%s\n%s\n' "$known" "$version" | sort --version-sort | tail -n 1)"
if [ "$newest" != "$known" ]; then
    line="${known%.*}"
    # A patch release comes from where its line came from, a new line from the one before.
    [ "${version%.*}" = "$line" ] && line="$(sed -n 's/^upgradesFrom: "\(.*\)"$/\1/p' "chart-values/charts/$known.yaml")"
    sed -e "1s/.*/# gpu-operator v$version, drafted from $known: look at each line./" \
        -e "s/^version: .*/version: $version/" -e "s/^sha256: .*/sha256: $digest/" \
        -e "s/^upgradesFrom: .*/upgradesFrom: \"$line\"/" \
        "chart-values/charts/$known.yaml" > "chart-values/charts/$version.yaml"
    echo "- NVIDIA's chart $version (the newest known was $known)"
fi

current="$(sed -n 's/^  installerRelease: //p' chart-values/defaults.yaml)"
newest="$(printf '%s\n%s\n' "$current" "$installer" | sort --version-sort | tail -n 1)"
if [ "$newest" != "$current" ]; then
    sed -i "s/^  installerRelease: .*/  installerRelease: $installer/" chart-values/defaults.yaml
    echo "- installer release $installer (was $current); chart-values/drivers.yaml still says what $current has"
fi
