// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/heels"
)

func heelsStatusCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Show VIPs, servers and counters; the agent need not run",
		Long: `Shows what the programs of this host do: where they are attached, the VIPs of both roles, the
servers that connections go to directly, and what has been decided how often. It reads what is
pinned.`,
		Example: "  xlb heels status\n  xlb heels status --output json",
		Args:    noArguments,
	}
	pin, output := pinFlag(c), outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		return withKernel(*pin, func(k *heels.Kernel) error {
			s, err := k.Status()
			if err != nil {
				return err
			}
			if *output == formatJSON {
				return writeJSON(e.stdout, s)
			}
			return printHeelsStatus(e, s)
		})
	}
	return c
}

func printHeelsStatus(e *env, s *heels.Status) error {
	fmt.Fprintf(e.stdout, "attached: %s\n", orDash(strings.Join(s.Attached, " ")))
	for _, r := range s.Draining {
		fmt.Fprintf(e.stdout, "draining: %s\n", r)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(e.stdout, "problem: %s\n", p)
	}
	fmt.Fprintln(e.stdout)
	rows := [][]string{}
	for _, v := range s.VIPs {
		backOff := ""
		if v.BackOff > 0 {
			backOff = v.BackOff.Round(time.Second).String()
		}
		mode := string(v.Mode)
		if v.Confirm {
			mode += " confirm"
		}
		rows = append(rows, []string{string(v.Role), v.VIP.String(), orDash(mode), orDash(addrText(v.Local)), orDash(backOff)})
	}
	if err := writeTable(e.stdout, []string{"ROLE", "VIP", "MODE", "LOCAL", "BACK-OFF"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(e.stdout)
	rows = rows[:0]
	for _, b := range s.Backends {
		rows = append(rows, []string{
			string(b.Role), b.VIP.String(), b.Server.String(), number(b.Live), number(b.Opened), number(b.Sent), number(b.Received),
		})
	}
	if err := writeTable(e.stdout, []string{"ROLE", "VIP", "SERVER", "LIVE", "OPENED", "SENT", "RECEIVED"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(e.stdout)
	rows = rows[:0]
	for _, name := range slices.Sorted(maps.Keys(s.Verdicts)) {
		if n := s.Verdicts[name]; n != 0 {
			rows = append(rows, []string{name, number(n)})
		}
	}
	return writeTable(e.stdout, []string{"VERDICT", "COUNT"}, rows)
}

func addrText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func heelsConnsCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "conns",
		Short: "Show the live connections; the agent need not run",
		Long: `Shows the connections to VIPs that this host is an end of: which server has each, and whether it
goes around the balancer. It reads what is pinned, and the kernel's list of sockets.`,
		Example: "  xlb heels conns\n  xlb heels conns --output json",
		Args:    noArguments,
	}
	pin, output := pinFlag(c), outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		return withKernel(*pin, func(k *heels.Kernel) error {
			conns, err := k.Connections()
			if err != nil {
				return err
			}
			if *output == formatJSON {
				return writeJSON(e.stdout, conns)
			}
			rows := make([][]string, 0, len(conns))
			for _, c := range conns {
				rows = append(rows, []string{
					string(c.Role), c.Local.String(), c.Remote.String(), c.VIP.String(), orDash(addrText(c.Server)), string(c.State), c.TCP,
					number(c.Sent), number(c.Received),
				})
			}
			return writeTable(e.stdout, []string{"ROLE", "LOCAL", "REMOTE", "VIP", "SERVER", "STATE", "TCP", "SENT", "RECEIVED"}, rows)
		})
	}
	return c
}
