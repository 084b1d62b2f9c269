//go:build tools

// Package tools pins the programs that hack/cluster.sh builds from this module.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
