// Asks the Go library what it makes of CDI specs, and of a container's config.
//
// Standard input has a JSON case on each line, standard output its answer in
// JSON on a line, in the same order. A case has the spec directories (lowest
// priority first), the names of devices, and the config. The library is given
// a cache of its own for each case, since it writes what it finds on the host
// into its cached specs.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

type request struct {
	Dirs   []string        `json:"dirs"`
	Names  []string        `json:"names"`
	Config json.RawMessage `json:"config"`
}

type answer struct {
	// Qualified names of the devices that resolve, sorted.
	Devices []string `json:"devices"`
	// Files with an error of any kind, conflicts among them, by path.
	FileErrors map[string][]string `json:"fileErrors"`
	// The names among those asked for that do not resolve.
	Unresolved []string `json:"unresolved"`
	// What the library panicked with, empty unless it did.
	Panic string `json:"panic"`
	// Why there is no config, empty if there is one.
	Error string `json:"error"`
	// The container's config with its devices.
	Config *oci.Spec `json:"config"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		text, err := json.Marshal(inject(asked))
		if err != nil {
			fail(err)
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
	if err := out.Flush(); err != nil {
		fail(err)
	}
}

func inject(asked request) (given answer) {
	defer func() {
		if cause := recover(); cause != nil {
			given = answer{Panic: fmt.Sprint(cause)}
		}
	}()
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(asked.Dirs...))
	if err != nil {
		fail(err)
	}
	given = answer{Devices: cache.ListDevices(), FileErrors: map[string][]string{}}
	sort.Strings(given.Devices)
	for path, errs := range cache.GetErrors() {
		for _, err := range errs {
			given.FileErrors[path] = append(given.FileErrors[path], err.Error())
		}
	}
	config := &oci.Spec{}
	if err := json.Unmarshal(asked.Config, config); err != nil {
		// The names are a question of their own.
		given.Unresolved, _ = cache.InjectDevices(&oci.Spec{}, asked.Names...)
		given.Error = err.Error()
		return given
	}
	given.Unresolved, err = cache.InjectDevices(config, asked.Names...)
	if err != nil {
		given.Error = err.Error()
		return given
	}
	given.Config = config
	return given
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}
