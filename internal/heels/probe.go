// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/limits"
)

// ProbeResult is what one connection to a VIP has shown.
type ProbeResult struct {
	VIP   netip.AddrPort `json:"vip"`
	Local netip.AddrPort `json:"local"`
	// State is "" when the SYN did not carry the option.
	State State `json:"state"`
	// Server is its own address, if it was learnt.
	Server netip.AddrPort `json:"server,omitzero"`
	// Confirmed: the server has acknowledged a FIN, which with State Direct was sent to it directly.
	Confirmed bool `json:"confirmed"`
	// ThroughBalancer is how many bytes of payload went through the balancer: none, if the connection is direct.
	ThroughBalancer uint64 `json:"payload_through_balancer_bytes"`
	// Verdicts are those given to this machine's connections meanwhile.
	Verdicts map[string]uint64 `json:"verdicts"`
}

// Probe opens a connection to a VIP, as an application of this network namespace and this process's cgroup would, sends payload, if there is any, and FIN, and
// reports what became of it. A VIP that cannot be connected to is an error.
func (k *Kernel) Probe(ctx context.Context, vip netip.AddrPort, payload string) (*ProbeResult, error) {
	before, err := k.Verdicts()
	if err != nil {
		return nil, err
	}
	c, err := (&net.Dialer{Timeout: limits.HeelsProbe.Connect}).DialContext(ctx, "tcp", vip.String())
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", vip, err)
	}
	defer c.Close()
	tcp := c.(*net.TCPConn)
	r := &ProbeResult{VIP: vip, Local: tcp.LocalAddr().(*net.TCPAddr).AddrPort(), Verdicts: map[string]uint64{}}
	if payload != "" {
		if _, err := tcp.Write([]byte(payload)); err != nil {
			return nil, fmt.Errorf("probe %s: %w", vip, err)
		}
		// Whether it was acknowledged shows in what follows.
		if _, err := await(ctx, tcp, func(info *unix.TCPInfo) bool { return info.Unacked == 0 }); err != nil {
			return nil, fmt.Errorf("probe %s: %w", vip, err)
		}
	}
	if err := k.find(r); err != nil {
		return nil, err
	}
	if r.Confirmed, err = confirms(ctx, tcp); err != nil {
		return nil, fmt.Errorf("probe %s: %w", vip, err)
	}
	after, err := k.Verdicts()
	if err != nil {
		return nil, err
	}
	for name, n := range after {
		if n > before[name] {
			r.Verdicts[name] = n - before[name]
		}
	}
	return r, nil
}

// find looks for the probe's own connection.
func (k *Kernel) find(r *ProbeResult) error {
	conns, err := k.Connections()
	if err != nil {
		return err
	}
	for _, c := range conns {
		if c.Role == ClientRole && c.Local == r.Local && c.Remote == r.VIP {
			r.State, r.Server = c.State, c.Server
		}
	}
	return nil
}

// confirms sends FIN and waits until it is acknowledged.
func confirms(ctx context.Context, c *net.TCPConn) (bool, error) {
	if err := c.CloseWrite(); err != nil {
		return false, err
	}
	return await(ctx, c, func(info *unix.TCPInfo) bool {
		switch tcpNames[min(int(info.State), len(tcpNames)-1)] {
		case "fin_wait1", "established", "close_wait", "closing", "last_ack":
			return false
		}
		return true
	})
}

// await waits until the kernel's view of a connection is as wanted.
func await(ctx context.Context, c *net.TCPConn, is func(*unix.TCPInfo) bool) (bool, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.HeelsProbe.Connect)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		var info *unix.TCPInfo
		var failure error
		err := raw.Control(func(fd uintptr) { info, failure = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
		if err != nil || failure != nil {
			return false, fmt.Errorf("ask for the state of the connection: %w", firstOf(err, failure))
		}
		if is(info) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-ticker.C:
		}
	}
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
