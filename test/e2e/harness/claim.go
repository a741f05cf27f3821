// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
)

// claims are held until the process ends.
var claims struct {
	sync.Mutex
	held []net.Listener
}

// claimPort is nobody else's: there is no service, and no test, at it.
const claimPort = 1

// claim returns which of so many blocks is this process's, and no other's: it listens at an address that stands for the block. Packages are
// tested side by side, and what two of them gave to their tests would be that of both.
func claim(blocks uint32, standsFor func(block uint32) netip.Addr) (uint32, error) {
	first := uint32(os.Getpid()) % blocks
	for i := range blocks {
		block := (first + i) % blocks
		l, err := net.Listen("tcp", netip.AddrPortFrom(standsFor(block), claimPort).String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err == nil {
			claims.Lock()
			defer claims.Unlock()
			claims.held = append(claims.held, l)
		}
		return block, err
	}
	return 0, errors.New("other processes have all of them")
}
