#!/usr/bin/env bash
# Renders the chart, and compares two whole renderings with the golden files
# beside this script, and the error line of every value that the chart rejects.
#
#   deployments/helm/test.sh [--update]
#
# --update rewrites the golden files, values.schema.json and the reference's
# page of values. HELM is the helm to use; without it, the
# one of the test cluster is built (once) and used. With a Helm 3, which has no
# notes without a cluster, all but those is tested.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
chart=$here/imex-dra
HELM=${HELM:-$("$here/../../hack/cluster/build.sh")/bin/helm}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
gate=(--set featureGates.HostManagedIMEX=true)

# render ARGUMENT...: as for a release `test` in the namespace imex-dra.
render() { "$HELM" template test "$chart" --namespace imex-dra --kube-version 1.34.0 "$@"; }

fail() {
    printf 'FAILED: %s\n' "$1" >&2
    failed=1
}

# golden NAME ARGUMENT...: the rendering is golden/NAME.yaml.
golden() {
    local name=$1
    shift
    render "$@" >"$scratch/$name.yaml"
    if [ "${update:-}" ]; then cp "$scratch/$name.yaml" "$here/golden/$name.yaml"; fi
    # -B: Helm 3 leaves other empty lines than Helm 4.
    diff -uB "$here/golden/$name.yaml" "$scratch/$name.yaml" >&2 || fail "$name does not render as golden/$name.yaml (if it should differ: $0 --update)"
}

# refuses LINE ARGUMENT...: rendering fails with that one line.
refuses() {
    local line=$1 said
    shift
    if said=$(render "$@" 2>&1 >/dev/null); then
        fail "rendered in spite of: $*"
        return
    fi
    # Before the line, helm prints where in the template it failed, and after it a hint.
    said=${said#level=INFO msg=*$'\n'}
    said=${said#coalesce.go:*$'\n'}
    said=${said#Error: }
    said=${said#execution error at (imex-*/templates/*): }
    said=${said%$'\n\nUse --debug flag to render out invalid YAML'}
    [ "$said" = "$line" ] || fail "$(printf '%s\n  said:   %s\n  wanted: %s' "$*" "$said" "$line")"
}

# contains TEXT NAME, lacks TEXT NAME: about the rendering NAME.
contains() { grep -qF -- "$1" "$scratch/$2.yaml" || fail "$2 lacks: $1"; }
lacks() { if grep -nE -- "$1" "$scratch/$2.yaml" >&2; then fail "$2 should not contain: $1"; fi; }

case ${1:-} in
    "") ;;
    --update) update=1 ;;
    *) echo "usage: $0 [--update]" >&2 && exit 2 ;;
esac

# tool TEMPLATE: what a template beside this script makes of keys.yaml and values.yaml.
tool() {
    local tool=$scratch/tool-$1
    mkdir -p "$tool/templates"
    printf 'apiVersion: v2\nname: tool\nversion: 0.0.0\n' >"$tool/Chart.yaml"
    cp "$chart/keys.yaml" "$tool/"
    cp "$chart/values.yaml" "$tool/default-values.yaml"
    cp "$here/$1.tpl" "$tool/templates/$1.txt.yaml"
    "$HELM" template tool "$tool" | sed '/^---$/d;/^# Source: /d;/^$/d'
}
# Before the first rendering, which is held against it.
tool schema >"$scratch/schema.json"
if [ "${update:-}" ]; then cp "$scratch/schema.json" "$chart/values.schema.json"; fi
diff -u "$chart/values.schema.json" "$scratch/schema.json" >&2 || fail "values.schema.json is not what keys.yaml says ($0 --update)"
page=$here/../../docs/reference/chart-values.md
awk -f "$here/values.awk" "$chart/keys.yaml" "$chart/values.yaml" >"$scratch/chart-values.md"
if [ "${update:-}" ]; then cp "$scratch/chart-values.md" "$page"; fi
diff -u "$page" "$scratch/chart-values.md" >&2 || fail "docs/reference/chart-values.md is not what values.yaml says ($0 --update)"
undocumented=$(tool documented | cut -d: -f1)
[ -z "$undocumented" ] || fail "not both in keys.yaml and in values.yaml: $undocumented"

# req: CHART-1
golden default "${gate[@]}"
golden everything -f "$here/golden/everything.values.yaml"
# Without the gate: the driver-managed mode.
golden driver

# What host-managed mode needs, whatever the golden files contain.
# req: CHART-2
for rendering in default driver; do
    contains "name: compute-domain-default-channel.nvidia.com" $rendering
    # One device of each node: with more, a claim could be given one that no node prepares.
    contains "expression: \"device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel' && device.attributes['compute-domain.nvidia.com'].id == 0\"" $rendering
done
contains 'value: "HostManagedIMEX=true"' default
# req: CHART-3
[ "$(grep -c 'name: FEATURE_GATES' "$scratch/everything.yaml")" = "$(grep -cE 'command: \[(compute-domain|gpu)-' "$scratch/everything.yaml")" ] || fail "FEATURE_GATES is not in every program's environment"
for rendering in default everything; do
    # req: CHART-2
    # (An alert names the daemons' job in any mode.)
    lacks 'name: compute-domain-daemon|resources: .computedomaincliques|(: |=)(imex-dra-)?imex-daemon|imexd' $rendering
done
contains "system:serviceaccount:imex-dra:$(sed -n 's/^ *serviceAccountName: \(.*kubeletplugin\)$/\1/p' "$scratch/default.yaml")\"" default

# Renders as it does with the value unset.
renders_as_default() {
    render "$@" >"$scratch/same.yaml" || fail "does not render: $*"
    diff -q "$scratch/default.yaml" "$scratch/same.yaml" >/dev/null || fail "differs from the default: $*"
}
renders_as_default --set-string featureGates.HostManagedIMEX=true
renders_as_default --set-string featureGates.HostManagedIMEX=1
# GPUs are off. What is set for them, as in NVIDIA's values, then has no effect.
# req: CHART-23
renders_as_default "${gate[@]}" --set-string resources.gpus.enabled=false --set gpuResourcesEnabledOverride=true,consumableShares=memory,nvidiaCDIHookPath=/hook \
    --set gpus.extendedResourceName=a/b,gpus.devicePlugin=withdraw,kubeletPlugin.metrics.gpuHttpEndpoint=:1,kubeletPlugin.containers.gpus.healthcheckPort=51515

# The driver-managed mode: one IMEX daemon on each node, which the plugin reads and the controller replaces.
# req: CHART-21
for text in 'command: [compute-domain-daemon]' 'type: OnDelete' 'path: /run/imex-dra/imexd' 'name: IMEXD_DIR' 'name: IMEX_DAEMONSET' \
    'resources: [computedomaincliques]' '# To count the nodes without a clique' 'name: resourceclaims-policy-imex-dra'; do contains "$text" driver; done
[ "$(grep -c 'port: 50000' "$scratch/driver.yaml")" = 1 ] || fail "not one rule lets IMEX daemons reach each other"
lacks 'compute-domain-daemon.nvidia.com|MAX_NODES_PER_IMEX_DOMAIN' driver
# By it the controller finds the DaemonSet and knows that an installation is driver-managed.
[ "$(awk '/^kind: / {kind = $2} kind == "DaemonSet" && /^    imex-dra\/resident: "true"$/' "$scratch/driver.yaml" | wc -l)" = 1 ] || fail "the DaemonSet of IMEX daemons lacks its label"
# The pods that a quota for critical pods has to have room for: docs/installation.md counts them.
critical=$(awk '/^kind: / {kind = $2} /priorityClassName: system-node-critical/ {print kind}' "$scratch/driver.yaml" | sort | uniq -c | xargs)
[ "$critical" = "2 DaemonSet 1 Deployment 4 Job" ] || fail "docs/installation.md counts the critical pods of 2 DaemonSets, a Deployment and one Job at a time; there are $critical"
# template_of NAME ARGUMENT...: what a pod is compared with: one value, in the DaemonSet and in its pods.
template_of() {
    local name=$1 hash
    shift
    render "$@" >"$scratch/$name.yaml"
    hash=$(sed -n 's|^ *imex-dra/template: ||p' "$scratch/$name.yaml" | sort | uniq -c | sed -n 's/^ *2 //p')
    [ ${#hash} = 64 ] || fail "$name has no one template of IMEX daemons"
    echo "$hash"
}
before=$(template_of before)
[ "$before" = "$(template_of sharing --set resources.computeDomains.imex.sharing=one --set controller.replicas=1)" ] || fail "daemons are replaced for what does not concern them"
for value in image.tag=v9 imexDaemon.podAnnotations.image=b imexDaemon.podLabels.team=e imexDaemon.resources.requests.cpu=1 nvidiaDriverRoot=/run/nvidia/driver; do
    [ "$before" != "$(template_of after --set "$value")" ] || fail "daemons are not replaced for another $value"
done
render --set resources.computeDomains.imex.maxNodesPerIMEXDomain=36 --set 'imexDaemon.networkPolicy.egressPorts={443}' >"$scratch/rack.yaml"
contains 'value: "36"' rack
[ "$(grep -c 'port: 50000' "$scratch/rack.yaml")" = 2 ] || fail "IMEX daemons may not connect to each other"
render --set resources.computeDomains.imex.forceAfter=12h >"$scratch/rack.yaml"
contains 'value: "12h"' rack
# req: MODE-40
render --set resources.computeDomains.imex.tlsSecret=imex-tls --set resources.computeDomains.imex.tlsName=imex >"$scratch/tls.yaml"
for text in 'value: /etc/imex-dra/tls' 'value: /run/imex-dra/tls' 'value: "imex"' 'secretName: "imex-tls"' 'defaultMode: 0400' 'medium: Memory'; do contains "$text" tls; done
lacks IMEX_TLS driver
refuses 'resources.computeDomains.imex.tlsSecret is "no/name", which is not a valid name of a Secret: set the name of an existing one' --set resources.computeDomains.imex.tlsSecret=no/name
refuses 'resources.computeDomains.imex.tlsSecret and tlsName need driver-managed IMEX: where hosts run nvidia-imex, its configuration file has the certificates; leave them empty' "${gate[@]}" --set resources.computeDomains.imex.tlsSecret=a
refuses 'resources.computeDomains.imex.tlsName needs tlsSecret, the Secret whose certificate has that name: set both' --set resources.computeDomains.imex.tlsName=a
refuses 'resources.computeDomains.imex.forceAfter is "never": leave it empty to let updates wait for jobs, or set a duration such as 12h' --set resources.computeDomains.imex.forceAfter=never
refuses 'resources.computeDomains.imex.forceAfter needs driver-managed IMEX: where hosts run nvidia-imex, their administrator updates it; leave it empty' "${gate[@]}" --set resources.computeDomains.imex.forceAfter=12h
render --set openshift.scc=true >"$scratch/rack.yaml"
contains 'name: imex-dra-role-binding-scc-imexdaemon' rack
render --set kubeletPlugin.hostService.enabled=true >"$scratch/rack.yaml"
contains 'name: imex-dra-imex-daemon' rack
refuses 'imexDaemon.metrics.httpEndpoint has no port: set an endpoint such as :8082, because the readiness probe uses it' --set imexDaemon.metrics.httpEndpoint=
refuses 'resources.computeDomains.imex.maxNodesPerIMEXDomain is "0": leave it empty or set a number from 1 to 2048' --set resources.computeDomains.imex.maxNodesPerIMEXDomain=0
refuses 'resources.computeDomains.imex.hostSocketPath is not supported with driver-managed IMEX, because its daemons have their own socket: leave it empty, or add --set featureGates.HostManagedIMEX=true if the hosts run nvidia-imex' --set resources.computeDomains.imex.hostSocketPath=/run/imex.sock

# A channel of its own for each ComputeDomain: rights for Leases, and nodes without a clique are tainted.
render "${gate[@]}" --set resources.computeDomains.imex.isolation=channel >"$scratch/isolation.yaml"
# req: CHART-11
for text in 'verbs: [get, list, watch, patch, delete]' '# To count the nodes without a clique'; do
    contains "$text" isolation
    if grep -qF -- "$text" "$scratch/default.yaml"; then fail "default should not contain: $text"; fi
done

# No program may make or change DaemonSets. patch: the finalizers of those that NVIDIA's driver has left.
# rights_on RESOURCE NAME: the verbs, a line for each rule.
rights_on() { grep -A1 -- "resources: \[$1\]" "$scratch/$2.yaml" | sed -n 's/^ *verbs: //p' | sort -u | paste -sd' '; }
[ "$(rights_on daemonsets default)" = '[list]' ] || fail "default has other rights on DaemonSets: $(rights_on daemonsets default)"
[ "$(rights_on daemonsets driver)" = '[get, list, watch] [list, watch, patch, delete] [list]' ] || fail "driver has other rights on DaemonSets: $(rights_on daemonsets driver)"

# Rights on nodes and slices only for who wants the label, and to create slices only for claims of groups.
label=(--set kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled=true)
render "${gate[@]}" "${label[@]}" >"$scratch/label.yaml"
render "${gate[@]}" "${label[@]}" --set resources.computeDomains.imex.groupClaims=true >"$scratch/groups.yaml"
for text in '# patch: the label nvidia.com/gpu.clique' 'verbs: [list, watch, delete]' GPU_CLIQUE_LABEL_ENABLED; do
    contains "$text" label
    contains "$text" groups
done
for text in 'verbs: [create, update]' IMEX_GROUP_CLAIMS compute-domain-clique-channel.nvidia.com; do
    contains "$text" groups
    if grep -qF -- "$text" "$scratch/default.yaml" "$scratch/label.yaml"; then fail "default or label should not contain: $text"; fi
done
# The guard's socket and rights only for who wants it; unquoted, off is false in a values file.
printf 'nriGuard: {mode: off}\n' >"$scratch/off.yaml"
renders_as_default "${gate[@]}" -f "$scratch/off.yaml"
renders_as_default "${gate[@]}" --set nriGuard.mode=
for text in 'path: /var/run/nri' 'value: enforce' 'value: "gpu-operator,monitoring"' 'verbs: [get]'; do contains "$text" everything; done
# req: NRI-11
for text in /var/run/nri NRI_GUARD; do lacks "$text" default; done

# Claims are protected where they keep a channel of a ComputeDomain or of a clique.
for rendering in isolation groups; do contains 'name: resourceclaims-policy-imex-dra' $rendering; done
for rendering in default label; do lacks 'name: resourceclaims-policy-imex-dra' $rendering; done
if grep -qF -- GPU_CLIQUE "$scratch/default.yaml"; then fail "default should not contain: GPU_CLIQUE"; fi

# Without pods: nothing that only they need, and with kubelet's identity its rights and their bounds.
host=(--set kubeletPlugin.hostService.enabled=true)
golden hostservice "${gate[@]}" "${host[@]}" -s templates/rbac-kubeletplugin.yaml -s templates/validatingadmissionpolicy-nodes.yaml
render "${gate[@]}" "${host[@]}" --set openshift.scc=true --set monitoring.podMonitor.enabled=true >"$scratch/host.yaml"
lacks 'kind: DaemonSet|name: imex-dra-kubelet-plugin|name: .*-service-account-kubeletplugin|scc-kubeletplugin' host
contains 'name: compute-domain-default-channel.nvidia.com' host
contains 'name: test-imex-dra-service-account-controller' host
render "${gate[@]}" "${host[@]}" --set kubeletPlugin.hostService.identity=serviceAccount >"$scratch/host.yaml"
lacks 'kind: DaemonSet|name: imex-dra-kubelet-plugin|system:nodes|arbitrary-node' host
contains 'name: test-imex-dra-service-account-kubeletplugin' host
contains 'associated-node:patch' host
renders_as_default "${gate[@]}" --set kubeletPlugin.hostService.identity=serviceAccount
lacks 'system:nodes|arbitrary-node' default

# Claims are checked when they are created only where that is asked for.
# req: CHART-5
render "${gate[@]}" --set-string webhook.enabled=true >"$scratch/webhook.yaml"
for kind in resourceclaims resourceclaimtemplates; do contains "name: $kind-configs-policy-imex-dra" webhook; done
# What no node prepares: several channels in one claim.
for refused in 'it.?allocationMode.orValue("") in ["", "Single"]' 'it.exactly.?count.orValue(1) <= 1 && it.exactly.?allocationMode.orValue("ExactCount") != "All"'; do
    [ "$(grep -cF -- "$refused" "$scratch/webhook.yaml")" = 2 ] || fail "claims and templates are not both held against: $refused"
done
lacks 'configs-policy' default

# Beside NVIDIA's chart, with all that this one can render: no object has the name of one of the other's, and
# every selector names this chart.
names() { awk '/^kind: / {kind = $2} /^metadata:/ {top = 1} top && /^  name: / {print kind, $2; top = 0}' "$1"; }
all=("${gate[@]}" "${label[@]}" --set resources.computeDomains.imex.groupClaims=true --set resources.computeDomains.imex.isolation=channel --set nriGuard.mode=enforce --set openshift.scc=true
    --set monitoring.podMonitor.enabled=true --set monitoring.prometheusRule.enabled=true)
render "${all[@]}" >"$scratch/all.yaml"
names "$scratch/all.yaml" >"$scratch/ours.txt"
names "$scratch/driver.yaml" | grep "imex-\\?daemon" >>"$scratch/ours.txt"
if [ "${NVIDIA_CHART:-}" ]; then
    "$HELM" template gpu "$NVIDIA_CHART" --namespace imex-dra --kube-version 1.34.0 --set resources.computeDomains.enabled=false \
        --set gpuResourcesEnabledOverride=true >"$scratch/theirs.yaml"
    names "$scratch/theirs.yaml" >"$scratch/theirs.txt"
else
    grep -v '^#' "$here/golden/nvidia-objects.txt" >"$scratch/theirs.txt"
fi
[ "$(wc -l <"$scratch/ours.txt")" -ge 30 ] || fail "found too few objects in the rendering"
# req: CHART-8
both=$(sort "$scratch/ours.txt" | comm -12 - <(sort "$scratch/theirs.txt"))
[ -z "$both" ] || fail "NVIDIA's chart has objects of these names: $both"
twice=$(sort "$scratch/ours.txt" | uniq -d | grep -v ' imex-dra-role-controller-leftovers' || true)
[ -z "$twice" ] || fail "rendered twice: $twice"

# GPUs beside ComputeDomains: a second container, and two DeviceClasses with NVIDIA's names, which claims contain.
# req: CHART-8, CHART-23
gpus=(--set resources.gpus.enabled=true)
render "${gpus[@]}" --set webhook.enabled=true --set monitoring.podMonitor.enabled=true >"$scratch/beside.yaml"
render --set webhook.enabled=true --set monitoring.podMonitor.enabled=true >"$scratch/without.yaml"
more=$(comm -13 <(names "$scratch/without.yaml" | sort) <(names "$scratch/beside.yaml" | sort) | paste -sd,)
[ "$more" = "DeviceClass gpu.nvidia.com,DeviceClass mig.nvidia.com" ] || fail "with GPUs, there are other objects besides: $more"
[ "$(sed -n '/^kind: DaemonSet/,/^      volumes:/s/^        - name: //p' "$scratch/beside.yaml" | paste -sd,)" = compute-domain-daemon,compute-domains,gpus ] || fail "the plugins are not side by side"
# req: CHART-10
for text in 'resourceNames: [compute-domain.nvidia.com, gpu.nvidia.com]' 'object.spec.driver in ["compute-domain.nvidia.com", "gpu.nvidia.com"]' \
    "variables.slice.spec.driver in ['compute-domain.nvidia.com', 'gpu.nvidia.com']" 'name: gpu-metrics' 'port: gpu-metrics' 'replacement: imex-dra-gpu-plugin'; do
    contains "$text" beside
done
# req: CHART-5, CHART-27
[ "$(grep -c 'variables.gpuUnknownFields.all' "$scratch/beside.yaml")" = 2 ] || fail "configs of GPUs are not checked in claims and templates"
lacks 'gpu.nvidia.com|mig.nvidia.com|gpuConfigs' without
# GPUs alone: no object of ComputeDomains, and their settings have no effect. The only Job runs a program of the image.
golden gpus "${gpus[@]}" --set resources.computeDomains.enabled=false
sed 's/ \[compute-domain-controller\]$//' "$scratch/gpus.yaml" >"$scratch/only-gpus.yaml"
lacks 'compute-?domain|imexd|IMEX|kind: (Deployment|PodDisruptionBudget)' only-gpus
# req: CHART-25
[ "$(sed -n 's/^          args: //p' "$scratch/gpus.yaml")" = '["preflight","uninstall","--check=gpus"]' ] || fail "with GPUs alone, not only an uninstallation is checked"
contains 'no pod has GPUs (kubectl get resourceclaims -A ' gpus
render "${gpus[@]}" --set resources.computeDomains.enabled=false,guard.enabled=false >"$scratch/unguarded.yaml"
lacks 'kind: Job|guard' unguarded
render "${gpus[@]}" --set resources.computeDomains.enabled=false,guard.override=true >"$scratch/overridden.yaml"
contains 'args: ["preflight","uninstall","--override","--check=gpus"]' overridden
# By its label, the Jobs of later revisions find the GPU plugin.
for rendering in gpus beside; do
    [ "$(awk '/^kind: / {kind = $2} kind == "DaemonSet" && /^    imex-dra\/gpus: "true"$/' "$scratch/$rendering.yaml" | wc -l)" = 1 ] || fail "$rendering: the DaemonSet of the plugins lacks its label"
done
lacks 'imex-dra/gpus' without
[ "$(grep -cE '"preflight","(install|rollback)"\]$' "$scratch/beside.yaml")" = 2 ] || fail "with GPUs, the Jobs check whether pods have GPUs"
[ "$(grep -cE '"preflight","(install|rollback)","--check=compute-domains,gpus"\]$' "$scratch/without.yaml")" = 2 ] || fail "the Jobs do not check whether GPUs are switched off"
[ "$(grep -c 'computedomains --all-namespaces) and that no pod has GPUs (kubectl get' "$scratch/beside.yaml")" = 4 ] || fail "the Jobs do not name all that must be checked without them"
contains 'extendedResourceName: "nvidia.com/gpu"' gpus
render "${gpus[@]}" "${gate[@]}" "${label[@]}" --set resources.computeDomains.enabled=false,gpus.extendedResourceName= --set altProcDevices=/a/b,featureGates.ComputeDomainCliques=false \
    --set resources.computeDomains.imex.groupClaims=true,resources.computeDomains.imex.isolation=channel,resources.computeDomains.imex.hostSocketPath=/a >"$scratch/alone.yaml"
more=$(diff "$scratch/gpus.yaml" "$scratch/alone.yaml" | sed -n 's/^[<>] *//p' | grep -v '^value: "' | paste -sd, || true)
[ "$more" = '# Pods that request this resource get a GPU of this class.,extendedResourceName: "nvidia.com/gpu"' ] || fail "settings of ComputeDomains change GPUs: $more"
# req: CHART-7
for shares in 0 -1 1.5 Memory 1000001; do
    refuses "consumableShares is \"$shares\": leave it empty or set disabled, memory, unlimited or a number from 1 to 1000000" "${gpus[@]}" --set consumableShares=$shares
done
# req: CHART-26
for shares in memory unlimited 10; do
    refuses "consumableShares=$shares requires the ConsumableShares feature gate: add --set featureGates.ConsumableShares=true, or leave consumableShares empty" "${gpus[@]}" --set consumableShares=$shares
    for how in --set --set-string; do
        render "${gpus[@]}" $how consumableShares=$shares --set featureGates.ConsumableShares=true >"$scratch/shares.yaml"
        grep -A1 'name: CONSUMABLE_SHARES' "$scratch/shares.yaml" | grep -q "value: \"$shares\"" || fail "the plugin does not get consumableShares=$shares"
    done
done
render "${gpus[@]}" --set consumableShares=disabled >/dev/null || fail "consumableShares=disabled is refused"
render "${gpus[@]}" --set resources.computeDomains.enabled=false,monitoring.prometheusRule.enabled=true >"$scratch/alerts.yaml"
contains 'alert: ImexDraGpuTainted' alerts
lacks 'ImexDraNoLeader' alerts
# req: GPU-66
render "${gpus[@]}" --set gpus.devicePlugin=withdraw >"$scratch/withdraw.yaml"
grep -A1 'name: BESIDE_DEVICE_PLUGIN' "$scratch/withdraw.yaml" | grep -q 'value: "withdraw"' || fail "the plugin does not get gpus.devicePlugin"
refuses 'unknown gpus.devicePlugin "off": set report or withdraw' "${gpus[@]}" --set gpus.devicePlugin=off
render "${gpus[@]}" --set-string 'gpus.health.additionalXidsToIgnore=94\, 95' --set gpus.health.clearAfter=12h >"$scratch/health.yaml"
for text in 'value: "94, 95"' 'value: "12h"'; do contains "$text" health; done
refuses 'gpus.health.additionalXidsToIgnore is "94 95": set numbers of XIDs, separated by commas' "${gpus[@]}" --set 'gpus.health.additionalXidsToIgnore=94 95'
refuses 'gpus.health.clearAfter is "never": leave it empty, or set a duration such as 12h' "${gpus[@]}" --set gpus.health.clearAfter=never
refuses "resources.gpus.enabled=true is not supported with kubeletPlugin.hostService.enabled=true, because only the plugin of ComputeDomains can be a host service: set one of the two to false" "${gpus[@]}" --set kubeletPlugin.hostService.enabled=true
refuses "nriGuard.mode needs resources.computeDomains.enabled=true, because the plugin of ComputeDomains contains the guard: set it to off" "${gpus[@]}" --set resources.computeDomains.enabled=false,nriGuard.mode=warn
refuses "the plugins of ComputeDomains and GPUs use a port twice in one pod (51515, 8081, 8081): change kubeletPlugin.metrics or a healthcheckPort of kubeletPlugin.containers" "${gpus[@]}" \
    --set kubeletPlugin.metrics.gpuHttpEndpoint=:8081,kubeletPlugin.containers.gpus.healthcheckPort=0

[ "$(grep -c 'matchLabels:' "$scratch/all.yaml")" = "$(grep -A3 'matchLabels:' "$scratch/all.yaml" | grep -cE " '?imex-dra-component'?: (controller|kubelet-plugin)\$")" ] ||
    fail "a selector does not name this chart's component"

# The Jobs around an installation, and what they can be told.
hooks() { render "${gate[@]}" "$@" -s templates/hooks.yaml >"$scratch/hooks.yaml"; }
hooks
contains 'args: ["preflight","install","--check=compute-domains,gpus"]' hooks
# When each runs, and that what it runs with is there by then.
# req: CHART-13
ran=$(awk '/^kind: / {kind = $2} /^  name: / {name = $2} /^    helm.sh\/hook: / && kind ~ /^(Job|ServiceAccount)$/ {print name, $2}' "$scratch/hooks.yaml" | sort)
[ "$ran" = "imex-dra-crds pre-install,pre-upgrade
imex-dra-guard pre-install,pre-upgrade
imex-dra-guard-rollback pre-rollback
imex-dra-guard-uninstall pre-delete
test-imex-dra-service-account-crds pre-install,pre-upgrade
test-imex-dra-service-account-guard pre-install,pre-upgrade,pre-rollback,pre-delete" ] || fail "the Jobs run at other moments: $ran"
# req: CHART-12
contains 'args: ["apply-crds"]' hooks
hooks --is-upgrade --set guard.override=true --set crds.allowOlder=true
contains 'args: ["preflight","upgrade","--override","--check=compute-domains,gpus"]' hooks
contains 'args: ["preflight","rollback","--override","--check=compute-domains,gpus"]' hooks
contains 'args: ["preflight","uninstall","--override"]' hooks
contains 'args: ["apply-crds","--allow-older"]' hooks
[ "$(grep -c 'kind: Job' "$scratch/hooks.yaml")" = "$(grep -c 'hook-output-log-policy: hook-succeeded,hook-failed' "$scratch/hooks.yaml")" ] || fail "the log of a Job, or a warning of it, is not printed"
[ "$(grep -c '^kind: ' "$scratch/hooks.yaml")" = "$(grep -c 'hook-delete-policy: before-hook-creation,hook-succeeded$' "$scratch/hooks.yaml")" ] || fail "a hook's object stays, or a refused Job goes before its log is read"
# An image that no node can pull: each Job fails within a minute, names the way to leave, and goes.
# req: CHART-22
for line in 'activeDeadlineSeconds: 45$' 'ttlSecondsAfterFinished: 600$' \
    'imex-dra/if-it-cannot-start: "If no node can pull localhost/imex-dra:v.*: .*kubectl get computedomains --all-namespaces.*: helm uninstall test --namespace imex-dra --no-hooks"$'; do
    [ "$(grep -cE "^ *$line" "$scratch/hooks.yaml")" = 4 ] || fail "not all four Jobs have: $line"
done
hooks --set guard.enabled=false
lacks 'preflight|guard' hooks
hooks --set crds.apply=false
lacks 'apply-crds|customresourcedefinitions' hooks

# OpenShift's API, or who asks for it.
lacks scc: default
for asked in "--api-versions security.openshift.io/v1" "--set openshift.scc=true"; do
    # shellcheck disable=SC2086 # two words on purpose
    render "${gate[@]}" $asked >"$scratch/openshift.yaml"
    contains "name: system:openshift:scc:privileged" openshift
    [ "$(grep -c 'name: system:openshift:scc:nonroot-v2' "$scratch/openshift.yaml")" = 3 ] || fail "not the controller and both Jobs' accounts have nonroot-v2: $asked"
done
render "${gate[@]}" --set openshift.scc=imex-plugin >"$scratch/openshift.yaml"
contains "name: system:openshift:scc:imex-plugin" openshift

# Updates: with surge, unless the operator says how.
# req: CHART-16
contains 'maxSurge: 10%' default
render "${gate[@]}" --set kubeletPlugin.updateStrategy.rollingUpdate.maxUnavailable=1 >"$scratch/unavailable.yaml"
lacks maxSurge unavailable

# Without privileges: the GPUs' device nodes come from NVIDIA's runtime, or from a CDI spec and from nowhere else.
# req: CHART-17
render "${gate[@]}" -f "$chart/unprivileged.values.yaml" >"$scratch/unprivileged.yaml"
render "${gate[@]}" -f "$chart/unprivileged.values.yaml" -f "$chart/unprivileged-cdi.values.yaml" >"$scratch/cdi.yaml"
for rendering in unprivileged cdi; do lacks 'privileged: true' $rendering; done
contains 'value: all' unprivileged
lacks 'value: all$' cdi
contains 'cdi-devices.noderesource.dev/container.compute-domains: ' cdi

# Ingress: nobody, or who asks for metrics.
# req: CHART-15
[ "$(grep -c 'policyTypes: \[Ingress\]' "$scratch/default.yaml")" = 2 ] || fail "ingress is not limited for both components"
lacks '^  (in|e)gress:' default
contains 'port: 9999' everything
renders_without_policies() { render "${gate[@]}" --set controller.networkPolicy.enabled=false --set-string kubeletPlugin.networkPolicy.enabled=false; }
renders_without_policies >"$scratch/open.yaml"
lacks NetworkPolicy open

# For the Prometheus operator: nothing unless asked for, one PodMonitor for each program that has metrics, by the name of their port.
lacks 'monitoring.coreos.com' default
contains 'runbook_url: https://git.example/imex-dra/blob/v9/docs/reference/controller-behaviour.md#' everything
[ "$(grep -c 'kind: PodMonitor' "$scratch/everything.yaml")" = 1 ] || fail "not one PodMonitor, for the plugin, where the controller has no metrics"
monitored=(--set monitoring.podMonitor.enabled=true --set-string monitoring.prometheusRule.enabled=true)
render "${gate[@]}" "${monitored[@]}" --set controller.metrics.metricsPath=numbers >"$scratch/monitored.yaml"
[ "$(grep -c 'kind: PodMonitor' "$scratch/monitored.yaml")" = 2 ] || fail "not a PodMonitor for each program"
[ "$(grep -c -- '- port: metrics' "$scratch/monitored.yaml")" = "$(grep -c -- '- name: metrics' "$scratch/monitored.yaml")" ] || fail "a PodMonitor's port is no container's"
contains 'path: "/numbers"' monitored
lacks 'interval:|runbook_url' monitored
[ "$(grep -c 'alert: ' "$scratch/monitored.yaml")" = "$(grep -c -- '- alert: ' "$chart/monitoring/alerts.yaml")" ] || fail "not every alert is in the PrometheusRule"
refuses "monitoring.podMonitor.enabled=true has no metrics to scrape: set controller.metrics.enabled or kubeletPlugin.metrics.enabled to true, with an endpoint" \
    "${gate[@]}" "${monitored[@]}" --set controller.metrics.enabled=false --set kubeletPlugin.metrics.computeDomainHttpEndpoint=

# What an operator reads after the installation.
notes() { "$HELM" install test "$chart" --namespace imex-dra --dry-run=client "$@" | sed '1,/^NOTES:$/d'; }
notes_are_right() {
    # Claims of groups only where there are any.
    notes "${gate[@]}" "${label[@]}" >"$scratch/label-notes.yaml"
    notes "${gate[@]}" "${label[@]}" --set resources.computeDomains.imex.groupClaims=true >"$scratch/groups-notes.yaml"
    contains 'A claim of the DeviceClass compute-domain-clique-channel.nvidia.com' groups-notes
    contains 'Each node runs one pod with a channel at a time' label-notes
    # req: CHART-22
    contains '     helm uninstall test --namespace imex-dra --no-hooks' label-notes
    lacks 'clique-channel' label-notes
    lacks 'metricsFrom' label-notes
    notes "${gate[@]}" "${monitored[@]}" --set 'controller.networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus' >"$scratch/monitored-notes.yaml"
    contains '* kubeletPlugin.networkPolicy.metricsFrom is empty' monitored-notes
    lacks 'controller.networkPolicy.metricsFrom' monitored-notes

    notes -f "$here/golden/nvidia.values.yaml" >"$scratch/nvidia-notes.yaml"
    contains "* This value has no effect: webhook.tls (there is no webhook, but policies (webhook.enabled))." nvidia-notes
    contains "* This value has no effect: gpuResourcesEnabledOverride (resources.gpus.enabled is sufficient)." nvidia-notes
    [ "$(grep -c 'This value has no effect' "$scratch/nvidia-notes.yaml")" = 7 ] || fail "the notes do not name every key of NVIDIA's that has no effect"
    lacks 'This value has no effect' label-notes

    # req: CHART-23
    lacks 'GPUs' label-notes
    notes "${gpus[@]}" >"$scratch/beside-notes.yaml"
    contains 'through the resource nvidia.com/gpu.' beside-notes
    notes "${gpus[@]}" --set resources.computeDomains.enabled=false >"$scratch/gpus-notes.yaml"
    contains 'imex-dra 0.1.0: pods get GPUs.' gpus-notes
    gates=(--set featureGates.DeviceMetadata=true --set-string featureGates.PassthroughSupport=true --set featureGates.DynamicMIG=false --set featureGates.TimeSlicingSettings=true)
    notes "${gpus[@]}" "${gates[@]}" >"$scratch/gates-notes.yaml"
    for key in DeviceMetadata PassthroughSupport; do
        contains "* This value has no effect: featureGates.$key (this version does not support what it enables)." gates-notes
    done
    [ "$(grep -c 'This value has no effect' "$scratch/gates-notes.yaml")" = 2 ] || fail "the notes name gates that are off, or that have an effect"
    notes "${gate[@]}" "${gates[@]}" >"$scratch/no-gpus-notes.yaml"
    lacks 'This value has no effect' no-gpus-notes
    lacks 'ComputeDomain|IMEX' gpus-notes
    # req: CHART-25
    for rendering in beside-notes gpus-notes; do contains '     kubectl get resourceclaims -A ' $rendering; done
    lacks 'resourceclaims' label-notes
}
# NVIDIA's values files need no editing; what they say that has no effect is told.
# req: CHART-6
render -f "$here/golden/nvidia.values.yaml" >"$scratch/nvidia.yaml" || fail "NVIDIA's keys are refused"
lacks maxSurge nvidia
case $("$HELM" version --template '{{.Version}}') in
    v3.*) printf 'not tested: the notes, for which Helm 3 needs a cluster\n' >&2 ;;
    *) notes_are_right ;;
esac

# Keys that are none. Those of a chart that contains this one are its business.
# req: CHART-7
refuses "unknown value controller.replicaz: did you mean controller.replicas?" "${gate[@]}" --set controller.replicaz=1
refuses "unknown value mode: did you mean resources.computeDomains.imex.mode?" "${gate[@]}" --set mode=hostManaged
refuses "unknown value controller.metrics.port: controller.metrics has enabled, httpEndpoint, metricsPath" "${gate[@]}" --set controller.metrics.port=1
refuses "unknown value imagePullSecret: did you mean imagePullSecrets?; unknown value nriGard: did you mean nriGuard?" "${gate[@]}" --set imagePullSecret=a --set nriGard.mode=off
refuses "controller.replicas is null: remove the line to use the default" "${gate[@]}" --set controller.replicas=null
refuses "kubeletPlugin.metrics is null: remove the line to use the default" "${gate[@]}" --set kubeletPlugin.metrics=null
renders_as_default "${gate[@]}" --set global.registry=a --set enabled=true --set tags.gpu=true

# Values of another type: Helm's words, which name key and types.
said=$(render "${gate[@]}" --set controller.replicas=two --set kubeletPlugin=5 2>&1) && fail "rendered with values of another type"
for part in "at '/controller/replicas': got string, want integer" "at '/kubeletPlugin': got number, want object"; do
    [[ $said == *"$part"* ]] || fail "lacks: $part: $said"
done
refuses "kubeletPlugin.metrics is 5, but must be a map with the keys computeDomainHttpEndpoint, enabled, gpuHttpEndpoint, metricsPath" "${gate[@]}" --skip-schema-validation --set kubeletPlugin.metrics=5

# Every boolean takes the strings, and nothing else.
# req: CHART-4
booleans=$(tool booleans | cut -d: -f1)
[ "$(wc -w <<<"$booleans")" -ge 15 ] || fail "found no booleans in keys.yaml"
for key in $booleans; do
    refuses "$key=maybe is not a boolean: set it to true or false" "${gate[@]}" --set "$key=maybe"
    for value in true false; do
        render "${gate[@]}" --set "$key=$value" >"$scratch/bool.yaml" 2>&1 || true
        render "${gate[@]}" --set-string "$key=$value" >"$scratch/string.yaml" 2>&1 || true
        diff "$scratch/bool.yaml" "$scratch/string.yaml" >&2 || fail "$key: the string $value is not the boolean"
    done
done

# Where the Go driver's controller kept its objects, ours may look for leftovers.
render "${gate[@]}" --set 'controller.containers.computeDomain.env[0].name=ADDITIONAL_NAMESPACES' \
    --set 'controller.containers.computeDomain.env[0].value=nvidia\, imex-dra' >"$scratch/additional.yaml"
[ "$(grep -c 'name: imex-dra-role-controller-leftovers' "$scratch/additional.yaml")" = 4 ] ||
    fail "not one Role and one RoleBinding for each of two namespaces in which leftovers are looked for"

imex=resources.computeDomains.imex
# Gates, imex.mode and imex.isolation: controller/api/tests/modes. Here, what only a chart has.
refuses "unrecognized feature gate featureGates.HostManagedImex: remove it, or set one of AllAlpha, AllBeta, ComputeDomainCliques, ConsumableShares, ContextualLogging, CrashOnNVLinkFabricErrors, DRAListTypeAttributes, DeviceMetadata, DynamicMIG, FabricManagerPartitioning, HostManagedIMEX, HostManagedIMEXDaemon, IMEXDaemonsWithDNSNames, LoggingAlphaOptions, LoggingBetaOptions, MPSSupport, NVMLDeviceHealthCheck, PassthroughSupport, TimeSlicingSettings" --set featureGates.HostManagedImex=true
refuses "resources.computeDomains.enabled and resources.gpus.enabled are both false, which leaves nothing to install: set one of them to true, or uninstall the chart" "${gate[@]}" --set resources.computeDomains.enabled=false
refuses "webhook.enabled=on is not a boolean: set it to true or false" "${gate[@]}" --set webhook.enabled=on
refuses "the namespace is default: add --namespace imex-dra --create-namespace, or --set allowDefaultNamespace=true if that is intended" "${gate[@]}" --namespace default
# req: CHART-7
refuses "controller.replicas=2 needs controller.leaderElection.enabled=true: otherwise all replicas would reconcile at the same time" "${gate[@]}" --set controller.leaderElection.enabled=false
refuses "controller.pdb.minAvailable=2: with controller.replicas=2, no node that runs a replica could be drained; set a smaller value" "${gate[@]}" --set controller.pdb.minAvailable=2
refuses "serviceAccount.create=false needs serviceAccount.name: the accounts NAME-controller and NAME-kubeletplugin (and NAME-imexdaemon, unless hosts manage IMEX) must exist, and NAME-crds and NAME-guard unless crds.apply and guard.enabled are false" "${gate[@]}" --set serviceAccount.create=false
refuses 'kubeletPlugin.kubeletRoot="kubelet" is not an absolute path: give the path on the hosts, from /' "${gate[@]}" --set kubeletPlugin.kubeletRoot=kubelet
refuses 'resources.computeDomains.imex.hostSocketPath="imex.sock" is not an absolute path: give the path on the hosts, from /' "${gate[@]}" --set $imex.hostSocketPath=imex.sock
refuses "resources.computeDomains.imex.groupClaims=true needs kubeletPlugin.containers.computeDomains.gpuCliqueLabelEnabled=true: group claims find their nodes by that label" "${gate[@]}" --set $imex.groupClaims=true
refuses 'unknown kubeletPlugin.hostService.identity "node": set kubelet or serviceAccount' "${gate[@]}" --set kubeletPlugin.hostService.identity=node
refuses 'unknown nriGuard.mode "on": set off, warn or enforce' "${gate[@]}" --set nriGuard.mode=on
refuses 'nriGuard.exemptNamespaces has "a,b", which is not a valid name of a namespace' "${gate[@]}" --set 'nriGuard.exemptNamespaces[0]=a\,b'
for directory in etc/cdi /etc/cdi/ /etc/../cdi /var/run/cdi; do
    refuses "nriGuard.cdiDirectories has \"$directory\": list directories of the host such as /etc/cdi, without a trailing slash; /var/run/cdi is always read" "${gate[@]}" --set "nriGuard.cdiDirectories[0]=$directory"
done
refuses 'nriGuard.cdiDirectories lists a directory twice: remove one of the two' "${gate[@]}" --set 'nriGuard.cdiDirectories={/etc/cdi,/etc/cdi}'
refuses "controller.containers.computeDomain.env: IMEX_MODE is set by the chart from another value; set that value instead" "${gate[@]}" --set 'controller.containers.computeDomain.env[0].name=IMEX_MODE'
refuses "kubeletPlugin.containers.computeDomains.env: NODE_NAME is set by the chart from another value; set that value instead" "${gate[@]}" --set 'kubeletPlugin.containers.computeDomains.env[0].name=NODE_NAME'
# req: CHART-9
refuses "chart requires kubeVersion: >=1.34.0-0 which is incompatible with Kubernetes v1.33.9" "${gate[@]}" --kube-version 1.33.9

[ "$(sed -n 's/^appVersion: //p' "$chart/Chart.yaml")" = "$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")" ] ||
    fail "Chart.yaml's appVersion is not the workspace's version"
repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
[ "$(sed -n 's/^home: //p; /^sources:/{n; s/^  - //p}' "$chart/Chart.yaml")" = "$repository"$'\n'"$repository" ] ||
    fail "Chart.yaml's home and sources are not Cargo.toml's repository"

if [ $failed = 0 ]; then echo "chart: all renderings as expected"; fi
exit $failed
