// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// shortages are what the system calls that open a connection answer where this host lacks descriptors, memory or ports.
var shortages = []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EADDRINUSE, unix.EADDRNOTAVAIL}

// IsShortage reports that this host has no room for another connection, which says nothing of the endpoint. Idle ones may have the room.
func IsShortage(err error) bool {
	return slices.ContainsFunc(shortages, func(one error) bool { return errors.Is(err, one) })
}
