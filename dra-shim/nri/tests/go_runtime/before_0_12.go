//go:build before_0_12

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
)

func notify(ctx context.Context, runtime *adaptation.Adaptation, do string, pod *adaptation.PodSandbox, container *adaptation.Container) error {
	event := &adaptation.StateChangeEvent{Pod: pod}
	if do == "run" {
		return runtime.RunPodSandbox(ctx, event)
	}
	event.Container = container
	return runtime.StartContainer(ctx, event)
}
