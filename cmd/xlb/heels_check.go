// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/heels"
	"github.com/xlb-project/xlb/internal/heels/check"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/internal/plural"
)

func heelsCheckCommand(e *env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "check",
		Short: "Say whether this host can run a configuration, and what to change",
		Long: `Reads a configuration and looks at this machine: kernel, who has the pin directory,
interfaces and their programs, reverse path filter, routes, listeners, firewall. Changes and
attaches nothing. Exit code 2 means that the agent could not run, or that what one has put in
force does not work.`,
		Example: "  xlb heels check --config heels.yaml\n  xlb heels check --config heels.yaml --output json",
		Args:    noArguments,
	}
	c.Flags().StringVarP(&file, "config", "c", "", "`file` of kind heels (required)")
	pin, output := pinFlag(c), outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if file == "" {
			return refused(errNoHeelsFile("check"))
		}
		cfg, err := settings.Load(file)
		if err != nil {
			return refused(err)
		}
		return printFindings(e, *output, check.Run(cfg, *pin))
	}
	return c
}

func printFindings(e *env, output format, list []check.Finding) error {
	var errs []error
	rows := make([][]string, 0, len(list))
	for _, f := range list {
		rows = append(rows, []string{f.Name, f.Status, f.Detail})
		if f.Status == check.Missing {
			errs = append(errs, fmt.Errorf("%s: %s; %s", f.Name, f.Detail, f.Remedy))
		}
	}
	if output == formatJSON {
		return errors.Join(writeJSON(e.stdout, list), refused(errors.Join(errs...)))
	}
	if err := writeTable(e.stdout, []string{"CHECK", "STATUS", "DETAIL"}, rows); err != nil {
		return err
	}
	heading := "\nto change:\n"
	for _, f := range list {
		if f.Remedy != "" {
			fmt.Fprintf(e.stdout, "%s  %s: %s\n", heading, f.Name, f.Remedy)
			heading = ""
		}
	}
	return refused(errors.Join(errs...))
}

func heelsProbeCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "probe VIP:PORT",
		Short: "Open one connection to a VIP and say whether it goes around the balancer",
		Long: `Opens a connection to a VIP of this client host, as an application would, sends no payload
unless told to, and says whether its SYN carried the option, which server answered, and
whether that server confirms what is sent to it. In confirm mode the first payload is the
first that goes directly: --send names one, best a request that the service understands.
Must run in the agent's network namespace and cgroup. Exit code 1 means that the connection
did not go around the balancer.`,
		Example: "  xlb heels probe 10.0.0.100:80\n  xlb heels probe 10.0.0.100:80 --send $'HEAD / HTTP/1.0\\r\\n\\r\\n' --output json",
		Args:    oneArgument("an address with a port", "10.0.0.100:80"),
	}
	pin, output := pinFlag(c), outputFlag(c)
	send := c.Flags().String("send", "", "`text` to send as payload (default: none)")
	c.RunE = func(c *cobra.Command, args []string) error {
		vip, err := netip.ParseAddrPort(args[0])
		if err != nil {
			return refused(fmt.Errorf("probe %q: want an address with a port, as 10.0.0.100:80", args[0]))
		}
		return withKernel(*pin, func(k *heels.Kernel) error {
			r, err := k.Probe(c.Context(), vip, *send)
			if err != nil {
				return err
			}
			return printProbe(e, *output, r)
		})
	}
	return c
}

func printProbe(e *env, output format, r *heels.ProbeResult) error {
	verdict := probeVerdict(r)
	if output == formatJSON {
		return errors.Join(writeJSON(e.stdout, r), verdict)
	}
	state := string(r.State)
	err := writeTable(e.stdout, []string{"VIP", "LOCAL", "OPTION", "SERVER", "CONFIRMED", "PAYLOAD THROUGH BALANCER"}, [][]string{{
		r.VIP.String(), r.Local.String(), orDash(state), orDash(addrText(r.Server)), yesNo(r.Confirmed), plural.Of(r.ThroughBalancer, "byte"),
	}})
	return errors.Join(err, verdict)
}

// probeVerdict is nil when the connection went around the balancer.
func probeVerdict(r *heels.ProbeResult) error {
	switch {
	case r.State == "":
		return fmt.Errorf("%s: the SYN carried no option: not a VIP of this agent, another cgroup or network namespace, draining or backing off; see: xlb heels status", r.VIP)
	case r.State == heels.Waiting:
		return fmt.Errorf("%s: server %s answered in confirm mode, in which the first payload goes directly; name one: --send", r.VIP, r.Server)
	case r.State == heels.Fallback && r.Server.IsValid():
		return fmt.Errorf("%s: server %s does not confirm what is sent to it directly, or its answers do not arrive; the balancer serves", r.VIP, r.Server)
	case r.State != heels.Direct:
		return fmt.Errorf("%s: the SYN-ACK had no answer: no agent on the server, or it declined; see there: xlb heels status", r.VIP)
	case !r.Confirmed:
		return fmt.Errorf("%s: server %s does not confirm what is sent to it directly: a firewall or security group between", r.VIP, r.Server)
	}
	return nil
}
