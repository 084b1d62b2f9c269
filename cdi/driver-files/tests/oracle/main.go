// Answers each line of JSON on standard input, a driver root and its version, with the edits that NVIDIA's generator
// of CDI specs makes for every container with a GPU of that root.
package main

import (
	"encoding/json"
	"io"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/sirupsen/logrus"
	"tags.cncf.io/container-device-interface/specs-go"
)

type request struct {
	Root    string `json:"root"`
	Version string `json:"version"`
}

type answer struct {
	Edits *specs.ContainerEdits `json:"edits"`
	Error string                `json:"error"`
	// Of one run, after an earlier one on the same root.
	Microseconds int64 `json:"microseconds"`
}

// The version is all that the edits for every container need of NVML.
type versionOnly struct {
	nvml.Interface
	version string
}

func (v versionOnly) Init() nvml.Return     { return nvml.SUCCESS }
func (v versionOnly) Shutdown() nvml.Return { return nvml.SUCCESS }

func (v versionOnly) SystemGetDriverVersion() (string, nvml.Return) {
	return v.version, nvml.SUCCESS
}

func (v versionOnly) Extensions() nvml.ExtendedInterface { return nil }

func edits(r request) (*specs.ContainerEdits, error) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	lib, err := nvcdi.New(
		nvcdi.WithLogger(log),
		nvcdi.WithMode(nvcdi.ModeNvml),
		nvcdi.WithDriverRoot(r.Root),
		nvcdi.WithNvmlLib(versionOnly{version: r.Version}),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	)
	if err != nil {
		return nil, err
	}
	common, err := lib.GetCommonEdits()
	if err != nil {
		return nil, err
	}
	return common.ContainerEdits, nil
}

func main() {
	// The generator searches for programs and configuration files where these say, too.
	os.Setenv("PATH", "")
	os.Unsetenv("XDG_DATA_DIRS")
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		if err := in.Decode(&r); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		_, _ = edits(r)
		start := time.Now()
		found, err := edits(r)
		a := answer{Edits: found, Microseconds: time.Since(start).Microseconds()}
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			panic(err)
		}
	}
}
