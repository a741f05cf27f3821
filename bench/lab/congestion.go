// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netns"
)

const (
	congestionControl        = "/proc/sys/net/ipv4/tcp_congestion_control"
	allowedCongestionControl = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
	// The kernel's own default.
	cubic = "cubic"
)

// UseCubic gives the current network namespace CUBIC, whatever the machine
// prefers: BBR sends by timers and paces a new connection by the round trip of
// its handshake, which slows down whoever sends much to the other side of a
// veth pair.
//
// A namespace may only choose what the machine allows, and a machine whose
// administrator has chosen another one need not allow CUBIC. Then it does for
// the moment of the choice, which asks for root.
func UseCubic() error {
	err := os.WriteFile(congestionControl, []byte(cubic), 0)
	if errors.Is(err, syscall.EPERM) {
		err = whileAllowed(cubic, func() error { return os.WriteFile(congestionControl, []byte(cubic), 0) })
	}
	if err != nil {
		return fmt.Errorf("choose %s as congestion control of a network namespace: %w (try: modprobe tcp_%s)", cubic, err, cubic)
	}
	return nil
}

// whileAllowed has the machine allow its namespaces an algorithm until choose
// returns.
func whileAllowed(algorithm string, choose func() error) (err error) {
	allowed, err := openOfMachine(allowedCongestionControl)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allowed.Close()) }()
	// What one process takes back, another one may be about to rely on.
	if err := syscall.Flock(int(allowed.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", allowedCongestionControl, err)
	}
	text := make([]byte, 4096)
	n, err := allowed.ReadAt(text, 0)
	if n == 0 {
		return fmt.Errorf("read %s: %w", allowedCongestionControl, err)
	}
	before := strings.Fields(string(text[:n]))
	if err := writeFields(allowed, append(slices.Clone(before), algorithm)); err != nil {
		return err
	}
	return errors.Join(choose(), writeFields(allowed, before))
}

func writeFields(f *os.File, fields []string) error {
	_, err := f.WriteAt([]byte(strings.Join(fields, " ")), 0)
	return err
}

// machine is the network namespace that the process was started in: the
// machine's, or else it has no say in what is allowed.
var machine, errMachine = netns.Get()

// openOfMachine opens a file below /proc/sys/net for reading and writing, as
// the machine has it.
func openOfMachine(path string) (f *os.File, err error) {
	if errMachine != nil {
		return nil, fmt.Errorf("open the machine's network namespace: %w", errMachine)
	}
	err = Within(machine, func() error {
		f, err = os.OpenFile(path, os.O_RDWR, 0)
		return err
	})
	return f, err
}
