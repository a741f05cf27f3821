// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/hangup"
	"github.com/xlb-project/xlb/internal/heels"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/internal/node"
)

func heelsCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "heels",
		Short: "Go around a layer-4 balancer after the SYN (client and server hosts)",
		Long: `HEELS: the balancer takes part in the handshake only. A layer-4 balancer (Katran, IPVS,
nftables, a cloud's) chooses the server of a connection; from the SYN-ACK on client and
server talk directly. Needs this agent on both hosts, and nothing on the balancer; where one
of them has none, connections take the balancer's own path.`,
		Example: `  xlb heels check --config heels.yaml
  xlb heels run --config heels.yaml --admin 127.0.0.1:15001
  xlb heels probe 10.0.0.100:80`,
	}
	c.AddCommand(heelsRunCommand(e), heelsCheckCommand(e), heelsProbeCommand(e), heelsStatusCommand(e), heelsConnsCommand(e),
		heelsDrainCommand(e, "drain", true), heelsDrainCommand(e, "undrain", false), heelsDetachCommand(e))
	return c
}

func errNoHeelsFile(verb string) error {
	return fmt.Errorf("--config: required: give a file of kind heels, as in: xlb heels %s --config heels.yaml", verb)
}

func pinFlag(c *cobra.Command) *string {
	return c.Flags().String("pin", heels.DefaultPin, "`directory` on a BPF file system that keeps what outlives the agent")
}

// heelsRunFlags are the flags of "xlb heels run".
type heelsRunFlags struct {
	config, admin, logLevel string
	adminHosts              []string
	pin                     *string
}

func heelsRunCommand(e *env) *cobra.Command {
	var f heelsRunFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the agent of this host, in its network namespace",
		Long: `Runs the agent in the foreground. SIGHUP reads the configuration again: VIPs, prefixes and
keys; one that cannot be used changes nothing. SIGTERM ends the agent and leaves its programs in
force, for the sake of connections; the next agent takes them over without a gap. To end
that too: xlb heels detach.`,
		Example: "  xlb heels run --config heels.yaml\n  xlb heels run --config heels.yaml --admin 127.0.0.1:15001",
		Args:    noArguments,
	}
	flags := c.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "`file` of kind heels, YAML or JSON (required)")
	flags.StringVar(&f.admin, "admin", "", "`address` of metrics and status, host:port or unix:PATH (default: none)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringSliceVar(&f.adminHosts, "admin-host", nil, adminHostUsage)
	completes(c, "log-level", logLevels...)
	f.pin = pinFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), e) }
	return reloads(c)
}

func (f *heelsRunFlags) run(ctx context.Context, e *env) error {
	if f.config == "" {
		return refused(errNoHeelsFile("run"))
	}
	log, _, err := newLog(e, f.logLevel)
	if err != nil {
		return refused(err)
	}
	reload := hangup.Take()
	defer hangup.End()
	cfg, err := settings.Load(f.config)
	if err != nil {
		return refused(err)
	}
	cgroup := cfg.Cgroup
	if cgroup == "" {
		if cgroup, err = check.CgroupMount(); err != nil {
			return refused(err)
		}
	}
	if err := checkCgroup(cgroup); err != nil {
		return refused(err)
	}
	if err := check.Privileges(); err != nil {
		return refused(err)
	}
	agent, err := heels.Start(cfg, *f.pin, cgroup)
	if err != nil {
		logDetail(log, err)
		return heelsRefused(err)
	}
	defer agent.Close()
	node.SayBuild(log, build())
	log.Info("in force", "config", f.config, "pin", *f.pin)
	go agent.Watch(ctx, log)
	served := make(chan error, 1)
	if f.admin != "" {
		l, err := admin.Listen(ctx, f.admin)
		if err != nil {
			return err
		}
		go func() {
			served <- admin.Serve(ctx, l, append([]string{f.admin}, f.adminHosts...), admin.WithoutParameters(agent.Handler()), log)
		}()
	}
	for {
		select {
		case <-ctx.Done():
			log.Info("ending; programs stay in force")
			if f.admin != "" {
				return <-served
			}
			return nil
		case err := <-served:
			return err
		case <-reload:
			f.reload(agent, log)
		}
	}
}

func (f *heelsRunFlags) reload(agent *heels.Agent, log *slog.Logger) {
	cfg, err := settings.Load(f.config)
	if err == nil {
		err = agent.Reload(cfg)
	}
	if err != nil {
		log.Error("configuration not used", "err", err)
		return
	}
	log.Info("configuration reloaded", "config", f.config)
}

// heelsRefused marks what lies in configuration, command line or machine.
func heelsRefused(err error) error {
	var (
		field *settings.FieldError
		pin   *pins.Error
		flows *heels.FlowsError
	)
	if errors.As(err, &field) || errors.As(err, &pin) || errors.As(err, &flows) {
		return refused(err)
	}
	if err == nil {
		return nil
	}
	// What the kernel refuses, and why.
	if said := explained(err, false, check.Privileged()); !errors.Is(said, err) {
		return refused(said)
	}
	return err
}

// withKernel runs do over what an agent has pinned.
func withKernel(pin string, do func(*heels.Kernel) error) error {
	k, err := heels.Open(pin)
	if err != nil {
		return heelsRefused(err)
	}
	defer k.Close()
	return heelsRefused(do(k))
}

func heelsDrainCommand(_ *env, name string, on bool) *cobra.Command {
	c := &cobra.Command{
		Use:   name + " client|server",
		Short: "Send new connections through the balancer; those that there are go on",
		Long: `Tells one role of this host's agent to offer (client) or answer (server) nothing more: new
connections take the balancer's own path, and those around it go on. It holds until "xlb heels
undrain", whether the agent runs or not.`,
		Example:   "  xlb heels " + name + " client\n  xlb heels " + name + " server",
		Args:      oneArgument("client or server", "client"),
		ValidArgs: []string{string(heels.ClientRole), string(heels.ServerRole)},
	}
	if !on {
		c.Short = "Take new connections around the balancer again"
		c.Long = `Ends "xlb heels drain" for one role of this host's agent: new connections go around the balancer
again.`
	}
	pin := pinFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		role := heels.Role(args[0])
		if role != heels.ClientRole && role != heels.ServerRole {
			return refused(fmt.Errorf("%s %q: want client or server", name, args[0]))
		}
		return withKernel(*pin, func(k *heels.Kernel) error { return k.SetDraining(role, on) })
	}
	return c
}

func heelsDetachCommand(_ *env) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "detach",
		Short: "Take programs and pins away, when no connection depends on them",
		Long: `Takes away what the agent has attached and pinned. While connections depend on it, it is
refused: drain both roles first and wait for their end, or break them with --force. End the
agent before.`,
		Example: "  xlb heels detach\n  xlb heels detach --force",
		Args:    noArguments,
	}
	c.Flags().BoolVar(&force, "force", false, "break the connections that depend on them")
	pin := pinFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		return withKernel(*pin, func(k *heels.Kernel) error { return k.Detach(force) })
	}
	return c
}
