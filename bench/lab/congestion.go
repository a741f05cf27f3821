// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/xlb-project/xlb/test/machine"
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

// choosing is held while the machine allows more: what one goroutine takes back, another one may be about to rely on.
var choosing sync.Mutex

// whileAllowed has the machine allow its namespaces an algorithm until choose
// returns.
func whileAllowed(algorithm string, choose func() error) error {
	choosing.Lock()
	defer choosing.Unlock()
	allowed, err := machine.Append(allowedCongestionControl, algorithm)
	if err != nil {
		return err
	}
	return errors.Join(choose(), allowed.Restore())
}
