// Asks the Go library what it reads in a CDI spec.
//
// Standard input has a JSON object on each line, with the `text`, or with its bytes
// in `hex` where they are no UTF-8; standard output the same object with `go`, the
// spec that the library holds after reading and checking it, or `goRefuses`, its
// error. Other keys are kept.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	dir, err := os.MkdirTemp("", "verdict")
	if err != nil {
		fail(err)
	}
	defer os.RemoveAll(dir)
	// The library's errors name the file.
	if err := os.Chdir(dir); err != nil {
		fail(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var asked map[string]any
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(err)
		}
		delete(asked, "go")
		delete(asked, "goRefuses")
		spec, err := read("spec.yaml", textOf(asked))
		if err != nil {
			asked["goRefuses"] = err.Error()
		} else {
			asked["go"] = spec.Spec
		}
		if err := out.Encode(asked); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func textOf(asked map[string]any) []byte {
	if text, ok := asked["text"].(string); ok {
		return []byte(text)
	}
	digits, _ := asked["hex"].(string)
	text, err := hex.DecodeString(digits)
	if err != nil || len(text) == 0 {
		fail(fmt.Errorf("no text in %v", asked))
	}
	return text
}

// read is the library's own reading of a file. Where it panics, a nil list
// entry being one case, the text is as good as refused.
func read(path string, text []byte) (spec *cdi.Spec, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		fail(err)
	}
	return cdi.ReadSpec(path, 0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "verdict:", err)
	os.Exit(1)
}
