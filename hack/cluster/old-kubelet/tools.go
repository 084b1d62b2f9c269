//go:build tools

// Package tools pins the older kubelet that hack/cluster/kubelet.sh builds.
package tools

import _ "k8s.io/kubernetes/cmd/kubelet"
