// A runtime with NRI's own library for runtimes, in the version of the build.
//
//	go_runtime SOCKET PLUGIN_DIRECTORY RUNTIME_VERSION PODS
//
// It prints a line of JSON for each synchronization of a plugin and for each update that a
// plugin sends, and answers each line of JSON on its standard input with one. It ends when
// standard input is closed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/nri/pkg/adaptation"
)

type command struct {
	Do    string `json:"do"`
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

type line struct {
	What    string            `json:"what"`
	Error   string            `json:"error,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Updates []string          `json:"updates,omitempty"`
}

var (
	printing sync.Mutex
	out      = json.NewEncoder(os.Stdout)
)

func say(l line) {
	printing.Lock()
	defer printing.Unlock()
	if err := out.Encode(l); err != nil {
		os.Exit(1)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func ids(updates []*adaptation.ContainerUpdate) []string {
	var ids []string
	for _, u := range updates {
		ids = append(ids, u.ContainerId)
	}
	return ids
}

func main() {
	socket, plugins, name, version := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	if err != nil {
		panic(err)
	}
	var pods []*adaptation.PodSandbox
	for i := range count {
		// 2 KiB each, so that some thousands need several messages.
		annotations := map[string]string{"a": strings.Repeat("x", 2048)}
		pods = append(pods, &adaptation.PodSandbox{Id: fmt.Sprint(i), Annotations: annotations})
	}
	synchronize := func(ctx context.Context, callback adaptation.SyncCB) error {
		updates, err := callback(ctx, pods, nil)
		say(line{What: "synchronized", Updates: ids(updates), Error: text(err)})
		return err
	}
	update := func(_ context.Context, updates []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		say(line{What: "update", Updates: ids(updates)})
		return updates[1:], nil
	}
	runtime, err := adaptation.New(name, version, synchronize, update,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(plugins))
	if err == nil {
		err = runtime.Start()
	}
	if err != nil {
		panic(err)
	}
	say(line{What: "started"})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var c command
		if err := json.Unmarshal(commands.Bytes(), &c); err != nil {
			panic(err)
		}
		say(do(runtime, c))
	}
}

func do(runtime *adaptation.Adaptation, c command) line {
	ctx := context.Background()
	pod := &adaptation.PodSandbox{Id: "pod", Name: "pod"}
	container := &adaptation.Container{Id: c.Name, Name: c.Name, Env: []string{"LONG=" + strings.Repeat("x", c.Bytes)}}
	answer := line{What: c.Do}
	switch c.Do {
	case "create":
		created, err := runtime.CreateContainer(ctx, &adaptation.CreateContainerRequest{Pod: pod, Container: container})
		answer.Error = text(err)
		if created != nil {
			answer.Updates = ids(created.Update)
			answer.Env = map[string]string{}
			for _, e := range created.GetAdjust().GetEnv() {
				answer.Env[e.Key] = e.Value
			}
		}
	case "stop":
		stopped, err := runtime.StopContainer(ctx, &adaptation.StopContainerRequest{Pod: pod, Container: container})
		answer.Error = text(err)
		answer.Updates = ids(stopped.GetUpdate())
	default:
		answer.Error = text(notify(ctx, runtime, c.Do, pod, container))
	}
	return answer
}
