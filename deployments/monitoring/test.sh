#!/usr/bin/env bash
# Checks alerts and dashboard.
#
#   deployments/monitoring/test.sh
#
# Every metric, label and value in their expressions is in a program's table of metrics (which its own tests hold
# against what it serves); every alert has its row in README.md, a reason to be there, and a runbook that exists;
# the dashboard shows every program, and the update of IMEX daemons.
# Prometheus' promtool reads the rules, runs alerts.test.yaml and reads the dashboard's expressions. Where there is
# no promtool, that of Debian's package prometheus is taken, unpacked in $IMEX_CACHE: installed, it would start a server.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../hack/lib.sh"
cd "$root/deployments/monitoring"

alerts=$root/deployments/helm/imex-dra/monitoring/alerts.yaml
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() {
    say "FAILED: $*"
    failed=1
}

# Sets promtool.
find_promtool() {
    promtool=$(command -v promtool || true)
    [ -z "$promtool" ] || return 0
    local cached=$IMEX_CACHE/tools/promtool
    if [ ! -x "$cached/promtool" ]; then
        command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
            die "promtool is missing: it comes with Prometheus; put it on PATH"
        say "downloading Debian's prometheus for its promtool, into $cached: once, 20 MB"
        (
            cd "$scratch"
            download() { apt-get -qq -o APT::Sandbox::User=root download prometheus; }
            download 2>/dev/null || { apt-get -qq update && download; } || die "apt-get download prometheus failed; put a promtool on PATH"
            dpkg-deb -x prometheus_*.deb unpacked
            mkdir -p "$cached"
            # Whoever sees it sees the whole of it.
            cp unpacked/usr/bin/promtool "$cached/promtool.$$"
            mv "$cached/promtool.$$" "$cached/promtool"
        )
    fi
    promtool=$cached/promtool
}

# One expression on each line, after where it is from.
expressions() {
    grep -o '"expr": "\([^"\\]\|\\.\)*"' dashboard.json | sed 's/^"expr": "//; s/"$//; s/\\"/"/g; s/^/dashboard.json\t/'
    awk '
        /^ *- alert: / { alert = $3 }
        inside && !/^          / { print alert "\t" expression; inside = 0 }
        inside { sub(/^ +/, ""); expression = expression " " $0 }
        /^ *expr: \|-$/ { inside = 1; expression = ""; next }
        sub(/^ *expr: /, "") { print alert "\t" $0 }
    ' "$alerts"
}

expressions >"$scratch/expressions"
[ "$(grep -c '^ *- alert: ' "$alerts")" = "$(grep -vc '^dashboard.json' "$scratch/expressions")" ] || fail "not every alert's expression was found"
[ "$(grep -c '"refId"' dashboard.json)" = "$(grep -c '^dashboard.json' "$scratch/expressions")" ] || fail "not every expression of the dashboard was found"
tables=("$root/docs/reference/controller-metrics.md" "$root/docs/reference/plugin-metrics.md" "$root/docs/reference/gpu-plugin-metrics.md" "$root/docs/reference/daemon-metrics.md")
awk -F '\t' -f metrics.awk "${tables[@]}" "$scratch/expressions" || failed=1

# metrics_of PAGE: the names in its table, one on each line.
metrics_of() { sed -n 's/^| `\(\(imex\|nvidia\)_dra_[a-z_]*\).*/\1/p' "$1"; }
grep '^dashboard.json' "$scratch/expressions" | grep -oE '(imex|nvidia)_dra_[a-z_]+' | sort -u >"$scratch/shown"
# Some metrics are of several programs, and say nothing of one.
for table in "${tables[@]}"; do metrics_of "$table"; done | sort | uniq -u >"$scratch/of-one"
for table in "${tables[@]}"; do
    metrics_of "$table" | sort | comm -12 - "$scratch/of-one" | comm -12 - "$scratch/shown" | grep -q . ||
        fail "the dashboard shows no metric of its own of ${table#"$root"/}"
done
grep -qx imex_dra_imex_updates_stopped "$scratch/shown" || fail "the dashboard does not show whether the update of IMEX daemons has stopped"

# Not ready is status 503, of which kubectl get --raw prints no body: the reason would be missing.
if grep -rnE 'get --raw[^`]*/readyz' README.md "$root/docs" >&2; then fail "kubectl get --raw hides what /readyz says when it is not ready"; fi

# Every alert is documented, with the runbook that it names.
while read -r alert runbook; do
    row=$(grep -F "| \`$alert\` |" README.md) || fail "README.md has no row of $alert"
    [[ $row == *"](../../$runbook)"* || $row == *"](#${runbook#deployments/monitoring/README.md#})"* ]] || fail "README.md: $alert has another runbook than in alerts.yaml: $runbook"
    file=${runbook%%#*}
    sed -n 's/^##* //p' "$root/$file" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g' >"$scratch/anchors"
    grep -qxF "${runbook#*#}" "$scratch/anchors" || fail "$alert: the runbook $runbook does not exist"
done < <(awk '/^ *- alert: / { alert = $3 } /^ *runbook: / { print alert, $2 }' "$alerts")
[ "$(grep -c '^ *- alert: ' "$alerts")" = "$(grep -c '^ *runbook: ' "$alerts")" ] || fail "an alert has no runbook"
for alert in $(sed -n 's/^| `\(ImexDra[A-Za-z]*\)` |.*/\1/p' README.md); do
    grep -q "alert: $alert\$" "$alerts" || fail "README.md has a row of $alert, which is no alert"
    grep -q "alertname: $alert\$" alerts.test.yaml || fail "alerts.test.yaml does not let $alert fire"
done

find_promtool
"$promtool" check rules "$alerts" >"$scratch/promtool" 2>&1 || fail "promtool check rules: $(cat "$scratch/promtool")"
"$promtool" test rules alerts.test.yaml >"$scratch/promtool" 2>&1 || fail "promtool test rules: $(cat "$scratch/promtool")"
{
    printf 'groups:\n  - name: dashboard\n    rules:\n'
    number=0
    while IFS=$'\t' read -r from expression; do
        [ "$from" = dashboard.json ] || continue
        number=$((number + 1))
        printf "      - {record: 'dashboard:%d', expr: '%s'}\n" $number "${expression//\$__rate_interval/5m}"
    done <"$scratch/expressions"
} >"$scratch/dashboard.yaml"
"$promtool" check rules "$scratch/dashboard.yaml" >"$scratch/promtool" 2>&1 || fail "promtool about the dashboard's expressions: $(cat "$scratch/promtool")"

[ $failed = 0 ] || exit 1
say "monitoring: $(grep -c '^ *- alert: ' "$alerts") alerts and $(grep -c '^dashboard.json' "$scratch/expressions") expressions of the dashboard are as they should be"
