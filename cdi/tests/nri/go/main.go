// Applies adjustments as the runtimes do that have this version of NRI.
//
// Standard input has a JSON case on each line, standard output the container's config
// that comes of it on a line, in the same order.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/runtime-tools/generate"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	stock "github.com/opencontainers/runtime-tools/generate"
	"google.golang.org/protobuf/proto"
)

type request struct {
	// A ContainerAdjustment, as a plugin sends it, in hexadecimal digits.
	Adjustment string    `json:"adjustment"`
	Config     *oci.Spec `json:"config"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		text, err := adjust(lines.Bytes())
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

func adjust(line []byte) ([]byte, error) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	message, err := hex.DecodeString(asked.Adjustment)
	if err != nil {
		return nil, err
	}
	adjustment := &api.ContainerAdjustment{}
	if err := proto.Unmarshal(message, adjustment); err != nil {
		return nil, err
	}
	config := stock.NewFromSpec(asked.Config)
	if err := generate.SpecGenerator(&config).Adjust(adjustment); err != nil {
		return nil, err
	}
	return json.Marshal(asked.Config)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "nri:", err)
	os.Exit(1)
}
