// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// Packets that crossed a host's link, seen from the host. A segment that the kernel has not cut yet counts once.
type Packets struct{ In, Out, BytesIn, BytesOut uint64 }

// Since is what was added.
func (p Packets) Since(before Packets) Packets {
	return Packets{p.In - before.In, p.Out - before.Out, p.BytesIn - before.BytesIn, p.BytesOut - before.BytesOut}
}

// Packets reads the counters of the host's link.
func (h *Host) Packets() (p Packets, err error) {
	err = h.Do(func() error {
		l, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		s := l.Attrs().Statistics
		p = Packets{In: s.RxPackets, Out: s.TxPackets, BytesIn: s.RxBytes, BytesOut: s.TxBytes}
		return nil
	})
	return p, err
}

// Sockets counts the host's TCP sockets by state, as ss(8) calls it: "ESTAB", "LAST-ACK", "TIME-WAIT".
func (h *Host) Sockets() (map[string]int, error) {
	out, err := h.Run("", "ss", "-H", "-t", "-a", "-n")
	if err != nil {
		return nil, err
	}
	states := map[string]int{}
	for line := range strings.Lines(out) {
		state, _, _ := strings.Cut(line, " ")
		states[state]++
	}
	return states, nil
}

// TCP reads the host's counters of TCP by their names in snmp and netstat: "RetransSegs", "InCsumErrors", "SyncookiesSent".
func (h *Host) TCP() (map[string]int64, error) {
	counts := map[string]int64{}
	for _, name := range []string{"snmp", "netstat"} {
		text, err := h.procNet(name)
		if err != nil {
			return nil, err
		}
		readCounters(text, counts)
	}
	return counts, nil
}

// readCounters takes what pairs of lines hold that begin with "Tcp:" or "TcpExt:", the first with names and the second with values.
func readCounters(text string, into map[string]int64) {
	var names []string
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(line, ":")
		if kind != "Tcp" && kind != "TcpExt" {
			continue
		}
		fields := strings.Fields(rest)
		if names == nil {
			names = fields
			continue
		}
		for i, field := range fields[:min(len(fields), len(names))] {
			if n, err := strconv.ParseInt(field, 10, 64); err == nil {
				into[names[i]] = n
			}
		}
		names = nil
	}
}

// procNet reads a file of /proc/net as the host has it. The plain path would show the main thread's namespace.
func (h *Host) procNet(name string) (text string, err error) {
	err = h.Do(func() error {
		content, err := os.ReadFile("/proc/thread-self/net/" + name)
		text = string(content)
		return err
	})
	return text, err
}

// Conntrack counts the connections that the host tracks, by state: "SYN_SENT", "ESTABLISHED". A host that tracks none has an empty map.
func (h *Host) Conntrack() (map[string]int, error) {
	text, err := h.procNet("nf_conntrack")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	states := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		// ipv4 2 tcp 6 117 SYN_SENT src=...
		if fields := strings.Fields(lines.Text()); len(fields) > 5 && fields[2] == "tcp" {
			states[fields[5]]++
		}
	}
	return states, nil
}

// Listens tells whether somebody listens on a port of the host.
func (h *Host) Listens(port uint16) (bool, error) {
	out, err := h.Run("", "ss", "-H", "-t", "-l", "-n", fmt.Sprintf("sport = %d", port))
	return strings.TrimSpace(out) != "", err
}
