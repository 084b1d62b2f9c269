# shellcheck shell=bash disable=SC2034,SC2154 # shares variables with its siblings
# etcd, the API server, the scheduler and the controller manager, in the
# supervisor's namespaces. Each `run_NAME` replaces the shell by that program.
# Sourced after state.sh and namespaces.sh.

api_server=https://10.200.0.1:6443
service_subnet=10.96.0.0/16
service_of_api_server=10.96.0.1

# as_component PROGRAM ARG...: runs it without the caller's environment, and without
# the ignored signals that a shell's background job has.
as_component() {
    exec env -i --default-signal "PATH=$programs:/usr/sbin:/usr/bin:/sbin:/bin" \
        "HOME=$state/home" "TMPDIR=$state/tmp" "$@"
}

# Writes tokens for the identities of the built-in RBAC and the Node authorizer.
write_identities() {
    local k
    mkdir -p "$state/kubeconfig" "$state/api"
    {
        identity admin imex-dra-admin system:masters
        identity scheduler system:kube-scheduler
        identity controller-manager system:kube-controller-manager
        for k in $(seq 1 "$(node_count)"); do
            identity "kubelet-$k" "system:node:node$k" system:nodes
            identity "proxy-$k" system:kube-proxy
        done
    } >"$state/api/tokens.csv"
    openssl ecparam -name prime256v1 -genkey -noout -out "$state/api/service-accounts.key"
    client_authority
    for k in $(seq 1 "$(node_count)"); do client_certificate "kubelet-$k" "/O=system:nodes/CN=system:node:node$k"; done
}

new_key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)

# Makes the certificate authority for client certificates.
client_authority() {
    openssl req -x509 "${new_key[@]}" -subj /CN=clients -days 3650 -keyout "$state/api/clients.key" -out "$state/api/clients.crt" 2>/dev/null
}

# client_certificate NAME SUBJECT: writes a second kubeconfig for an identity, NAME-certificate. Certificate and key
# are in one file, which kubelet renews, as in kubeadm's kubeconfig for kubelet.
client_certificate() {
    local pem=$state/kubeconfig/$1.pem
    openssl req -new "${new_key[@]}" -subj "$2" -keyout "$pem.key" -out "$pem.request" 2>/dev/null
    openssl x509 -req -in "$pem.request" -CA "$state/api/clients.crt" -CAkey "$state/api/clients.key" -set_serial "$RANDOM" -days 3650 \
        -extfile <(echo extendedKeyUsage=clientAuth) -out "$pem" 2>/dev/null
    cat "$pem.key" >>"$pem"
    rm "$pem.key" "$pem.request"
    sed "s|{token: [^}]*}|{client-certificate: \"$pem\", client-key: \"$pem\"}|" "$state/kubeconfig/$1" >"$state/kubeconfig/$1-certificate"
}

# identity NAME USER [GROUP]: prints a line of the API server's token file and
# writes a kubeconfig.
identity() {
    local token
    token=$(openssl rand -hex 16)
    echo "$token,$2,$2${3:+,\"$3\"}"
    cat >"$state/kubeconfig/$1" <<-EOT
	apiVersion: v1
	kind: Config
	clusters: [{name: imex-dra, cluster: {server: "$api_server", certificate-authority: "$state/api/certs/apiserver.crt"}}]
	users: [{name: "$1", user: {token: "$token"}}]
	contexts: [{name: imex-dra, context: {cluster: imex-dra, user: "$1"}}]
	current-context: imex-dra
	EOT
}

# Prints the feature-gates option of control plane programs, if gates are set.
gates_option() {
    local gates more=
    gates=$(<"$state/version-gates")
    if [ -e "$state/control-plane-gates" ]; then more=$(<"$state/control-plane-gates"); fi
    # If a gate is named twice, the last one takes effect.
    gates+=${gates:+${more:+,}}$more
    if [ "$gates" ]; then echo "--feature-gates=$gates"; fi
}

run_etcd() {
    as_component etcd --name default --data-dir "$state/etcd" --unsafe-no-fsync \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster default=http://127.0.0.1:2380
}

# The API server makes its own serving certificate, valid for the service address.
# Pods verify it with the root certificate that the controller manager gives them.
# The audit log is never rotated, so that all its requests can be counted.
run_apiserver() {
    local audit=() gates apis
    gates=$(gates_option)
    apis=$(<"$state/version-apis")
    if [ -e "$state/audit-policy" ]; then
        audit=(--audit-policy-file="$state/audit-policy" --audit-log-path="$state/log/audit.log" --audit-log-maxsize=100000)
    fi
    as_component kube-apiserver \
        --etcd-servers=http://127.0.0.1:2379 \
        --bind-address=0.0.0.0 --secure-port=6443 --advertise-address=10.200.0.1 \
        --cert-dir="$state/api/certs" \
        --service-cluster-ip-range="$service_subnet" \
        --token-auth-file="$state/api/tokens.csv" \
        --client-ca-file="$state/api/clients.crt" \
        --authorization-mode=Node,RBAC \
        --enable-admission-plugins=NodeRestriction \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$state/api/service-accounts.key" \
        --service-account-signing-key-file="$state/api/service-accounts.key" \
        --kubelet-preferred-address-types=InternalIP \
        --allow-privileged=true "${audit[@]}" ${gates:+"$gates"} ${apis:+--runtime-config="$apis"}
}

run_scheduler() {
    local kubeconfig=$state/kubeconfig/scheduler gates
    gates=$(gates_option)
    as_component kube-scheduler ${gates:+"$gates"} --bind-address=127.0.0.1 --leader-elect=false --authentication-skip-lookup=true \
        --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" --authorization-kubeconfig="$kubeconfig"
}

# With the default rates and period, a start takes 5 s longer. The default
# --flex-volume-plugin-dir would be created in the host's /usr.
run_controller-manager() {
    local kubeconfig=$state/kubeconfig/controller-manager gates
    gates=$(gates_option)
    as_component kube-controller-manager ${gates:+"$gates"} --bind-address=127.0.0.1 --leader-elect=false \
        --kubeconfig="$kubeconfig" --authentication-kubeconfig="$kubeconfig" --authorization-kubeconfig="$kubeconfig" \
        --authentication-skip-lookup=true --use-service-account-credentials=true \
        --kube-api-qps=500 --kube-api-burst=1000 --node-monitor-period=1s \
        --flex-volume-plugin-dir="$state/api/volume-plugins" \
        --service-account-private-key-file="$state/api/service-accounts.key" \
        --root-ca-file="$state/api/certs/apiserver.crt"
}
