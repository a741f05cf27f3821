// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// shortages are what the system calls that open a connection answer where this host lacks descriptors, memory or ports.
var shortages = append([]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM}, portShortages...)

// portShortages are those of ports, of which each network namespace has its own.
var portShortages = []error{unix.EADDRINUSE, unix.EADDRNOTAVAIL}

// IsShortage reports that this host has no room for another connection, which says nothing of the endpoint. Idle ones may have the room.
func IsShortage(err error) bool { return isAnyOf(err, shortages) }

// IsPortShortage reports a shortage of ports. Connections of other network namespaces do not have them.
func IsPortShortage(err error) bool { return isAnyOf(err, portShortages) }

func isAnyOf(err error, list []error) bool {
	return slices.ContainsFunc(list, func(one error) bool { return errors.Is(err, one) })
}
