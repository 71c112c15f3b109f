// Command pace-node is the service (no verb), the verbs typed as its flags, and, called pacectl, the operator's tool. Its
// one job is to hand what was typed and what the platform gives to the packages that do the work.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/host"
	"pace-node/internal/machine"
	"pace-node/internal/node"
	"pace-node/internal/statedir"
	"pace-node/internal/version"
)

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

func run(argv []string, stdout, stderr io.Writer) int {
	h := newHost()
	parse, help := config.Parse, config.Help
	if name := strings.TrimSuffix(strings.ToLower(filepath.Base(argv[0])), ".exe"); name == config.ToolVerb {
		parse, help = config.ParseTool, func(w io.Writer) error { _, err := io.WriteString(w, control.ToolHelp()); return err }
	}
	cfg, call, err := parse(argv[1:], os.LookupEnv, h.StoredSettings, os.ReadFile)
	if err != nil {
		return refused(cfg, err, stdout, stderr)
	}
	switch call.Name {
	case "help":
		err = help(stdout)
	case "version":
		_, err = fmt.Fprintf(stdout, "pace-node %s %s\n", version.Version, version.Platform())
	case "check-arguments":
	case "":
		return serve(h, cfg, stderr)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return control.Run(ctx, call, cfg, stdout, stderr, machine.New(h, cfg).Deps())
	}
	if err != nil {
		return config.ExitFailed
	}
	return config.ExitOK
}

// serve runs the node until the service manager or a signal ends it.
func serve(h host.Host, cfg config.Config, stderr io.Writer) int {
	m := machine.New(h, cfg)
	state, err := m.State()
	if err != nil {
		fmt.Fprintf(stderr, "pace-node: %v\n", err)
		return config.ExitFailed
	}
	socket := h.AdminSocket(m.Config.StateDir)
	if socket == "" {
		socket = statedir.SocketPath(m.Config.StateDir)
	}
	return node.Serve(h, node.Service{Settings: m.Config, State: state, Mint: m.Mint(), AdminSocket: socket, Stderr: stderr, Point: crashPoint()})
}

// refused says why nothing was begun.
func refused(cfg config.Config, err error, stdout, stderr io.Writer) int {
	f := control.Failure{Code: "failed", Reason: err.Error(), Remedy: "the reason names what stands in the way", Exit: config.ExitFailed}
	if usage := (*config.UsageError)(nil); errors.As(err, &usage) {
		f = control.Failure{Code: "usage", Reason: usage.What, Remedy: usage.Remedy, Exit: config.ExitUsage}
	} else if refused := (*config.RefusedError)(nil); errors.As(err, &refused) {
		f = control.Failure{Code: "configuration", Reason: err.Error(), Remedy: refused.Way(), Exit: config.ExitConfig}
	}
	if cfg.JSON {
		json.NewEncoder(stdout).Encode(control.FailureDocument{V: control.DocumentVersion, Error: f})
	} else {
		fmt.Fprintf(stderr, "pace-node: %v\n", err)
	}
	return f.Exit
}
