// Command pace-node is the service (no verb), the verbs typed as its flags, and, called pacectl, the operator's tool. Its
// one job is to hand what was typed and what the platform gives to the packages that do the work.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/host"
	"pace-node/internal/machine"
	"pace-node/internal/node"
	"pace-node/internal/target"
	"pace-node/internal/upgrade"
	"pace-node/internal/version"
)

func main() {
	h, stderr := newHost(), output(os.Stderr)
	guard := upgrade.Begin(upgrade.Watch{Args: os.Args, Stderr: stderr, Point: crashPoint(), Refuse: h.Refuse, Within: serveWithin()})
	os.Exit(guard.End(run(h, os.Args, output(os.Stdout), stderr, guard)))
}

func run(h host.Host, argv []string, stdout, stderr io.Writer, guard *upgrade.Guard) int {
	parse, tool := config.Parse, config.IsTool(argv[0])
	if tool {
		parse = config.ParseTool
	}
	cfg, call, err := parse(argv[1:], os.LookupEnv, h.StoredSettings, os.ReadFile)
	if err != nil {
		code := control.PrintFailure(err, cfg.JSON, tool, stdout, stderr)
		if call.Name == "" && !tool {
			h.Refuse(err, code)
		}
		return code
	}
	switch call.Name {
	case "help":
		var text strings.Builder
		if !tool {
			err = config.Help(&text)
		} else if page, unknown := control.ToolHelp(call.Words); unknown != nil {
			return control.PrintFailure(unknown, cfg.JSON, tool, stdout, stderr)
		} else {
			text.WriteString(page)
		}
		if err == nil {
			err = say(stdout, text.String(), cfg.JSON)
		}
	case "version":
		err = say(stdout, fmt.Sprintf("pace-node %s %s\n", version.Version, version.Platform()), cfg.JSON)
	case "check-arguments":
		if cfg.JSON {
			err = say(stdout, "every argument can be used", true)
		}
	case "":
		return serve(h, cfg, stderr, guard)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		m := machine.New(h, cfg)
		m.Point = crashPoint()
		return control.Run(ctx, call, cfg, stdout, stderr, m.Deps())
	}
	if err != nil {
		return config.ExitFailed
	}
	return config.ExitOK
}

// say prints what needs no node: as it stands, or as the text of a document.
func say(stdout io.Writer, text string, asJSON bool) error {
	if asJSON {
		return control.Print(&control.Done{Said: strings.TrimSuffix(text, "\n")}, true, stdout)
	}
	_, err := io.WriteString(stdout, text)
	return err
}

// serve runs the node until the service manager or a signal ends it.
func serve(h host.Host, cfg config.Config, stderr io.Writer, guard *upgrade.Guard) int {
	m := machine.New(h, cfg)
	m.Point = crashPoint()
	state, err := m.State()
	var upgrader target.Upgrader
	if err == nil {
		upgrader, err = m.Upgrader(guard)
	}
	if err != nil {
		fmt.Fprintf(stderr, "pace-node: %v\n", err)
		h.Refuse(err, config.ExitFailed)
		return config.ExitFailed
	}
	return node.Serve(h, node.Service{Settings: m.Config, State: state, Mint: m.Mint(), AdminSocket: m.AdminSocket(), Hooks: m.Hooks(), Stderr: stderr, Point: m.Point, Upgrade: upgrader, Served: guard.Served})
}
