# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with hack/demo.sh, which sources it
# The demo of host-managed IMEX: one ComputeDomain, channel 0.

manifest=hack/demo/train-a.yaml
channel=/dev/nvidia-caps-imex-channels/channel0

step "A user's ComputeDomain and a Job of two pods that share its template"
shows cat "$manifest"
shows k apply -f "$manifest"
phases() { k get pods -l job-name=train-a -o jsonpath='{.items[*].status.phase}'; }
until_is "the domain is Ready" Ready k get computedomain train-a -o 'jsonpath={.status.status}'
until_is "both pods run" "Running Running" phases
shows k get computedomains,resourceclaimtemplates,resourceclaims
shows k get pods -o wide

step "Inside the pods: the device, its numbers, and the device cgroup"
pods=$(k get pods -l job-name=train-a -o jsonpath='{range .items[*]}{.metadata.name}:{.spec.nodeName} {end}')
nodes=
for entry in $pods; do
    pod=${entry%:*} node=${entry#*:node}
    nodes+="$node "
    major=$(major_of "$node")
    until_is "$pod on node$node has $channel: type, mode, major (hex) of node$node's mock, minor" \
        "character special file 666 $(printf %x "$major") 0" k exec "$pod" -- stat -c '%F %a %t %T' "$channel"
    until_is "the device cgroup permits its open(), and the mock has no kernel driver (ENXIO)" \
        "cat: can't open '$channel': No such device or address" k exec "$pod" -- sh -c "cat $channel 2>&1 || true"
    shows k exec "$pod" -- ls -l "$channel"
done
until_is "the pods are on both nodes" "1 2" xargs <<<"$(tr ' ' '\n' <<<"$nodes" | sort -n)"

step "A pod without the claim makes the same device node and cannot open it"
k run outsider --image=localhost/busybox:1 --image-pull-policy=Never --restart=Never \
    --overrides='{"spec":{"nodeName":"node1","terminationGracePeriodSeconds":1}}' -- sleep 100000 >/dev/null
until_is "the outsider runs" Running k get pod outsider -o 'jsonpath={.status.phase}'
major=$(major_of 1)
until_is "its open() is refused (EPERM)" "cat: can't open '/tmp/channel0': Operation not permitted" \
    k exec outsider -- sh -c "rm -f /tmp/channel0 && mknod /tmp/channel0 c $major 0 && cat /tmp/channel0 2>&1 || true"

step "On a node: the claim's CDI spec and the checkpoint"
shows "$cluster" exec --node 1 sh -c 'head -c 2000 /var/run/cdi/*claim_*; echo'
shows "$cluster" exec --node 1 sh -c "cat $plugin_dir/checkpoint.json; echo"
k delete pod outsider --wait=true >/dev/null
