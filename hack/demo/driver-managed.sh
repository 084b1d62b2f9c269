# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with hack/demo.sh, which sources it
# The demo of driver-managed IMEX: two ComputeDomains on the same nodes, with a channel each.

manifest=hack/demo/two-domains.yaml
directory=/dev/nvidia-caps-imex-channels

step "One permanent IMEX daemon on each node, and their clique"
members() { k get computedomaincliques -n imex-dra -o jsonpath='{range .items[*].daemons[*]}{.nodeName}/{.status} {end}'; }
until_is "both nodes are ready members" "node1/Ready node2/Ready" sorted members
shows k get computedomaincliques -n imex-dra -o yaml
daemons() { k get pods -n imex-dra -l imex-dra-component=imex-daemon -o name; }
for daemon in $(daemons); do
    shows k exec -n imex-dra "$daemon" -- compute-domain-daemon check
done

step "Two ComputeDomains, and a Job of two pods in each"
shows cat "$manifest"
started=$(date +%s%N)
shows k apply -f "$manifest"
phases() { k get pods -l demo=two-domains -o jsonpath='{.items[*].status.phase}'; }
until_is "all four pods run" "Running Running Running Running" phases
printf 'ok  %d ms after kubectl apply began\n' $((($(date +%s%N) - started) / 1000000))
shows k get computedomains,resourceclaims
shows k get pods -o wide

step "Inside the pods: only the channel of their own ComputeDomain"
for domain in red blue; do
    number=$(k get computedomain "$domain" -o 'jsonpath={.status.channel}')
    nodes=
    for entry in $(k get pods -l job-name="$domain" -o jsonpath='{range .items[*]}{.metadata.name}:{.spec.nodeName} {end}'); do
        pod=${entry%:*} node=${entry#*:node}
        nodes+="$node "
        until_is "$pod of $domain has channel$number" "channel$number" k exec "$pod" -- ls $directory
        until_is "its device numbers are those of node$node's mock: major (hex) and minor" \
            "$(printf '%x %x' "$(major_of "$node")" "$number")" k exec "$pod" -- stat -c '%t %T' "$directory/channel$number"
    done
    until_is "the pods of $domain are on both nodes" "1 2" xargs <<<"$(tr ' ' '\n' <<<"$nodes" | sort -n)"
done
