//go:build !before_0_12

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
)

func notify(ctx context.Context, runtime *adaptation.Adaptation, do string, pod *adaptation.PodSandbox, container *adaptation.Container) error {
	if do == "run" {
		return runtime.RunPodSandbox(ctx, &adaptation.RunPodSandboxRequest{Pod: pod})
	}
	return runtime.StartContainer(ctx, &adaptation.StartContainerRequest{Pod: pod, Container: container})
}
