// SPDX-License-Identifier: Apache-2.0

package values

import (
	"os"
	"sync"
)

// unknownHost stands for the name of a host that the kernel does not say, as in Envoy's headers.
const unknownHost = "-"

// Hostname is the name of the host at the first call (uname(2)): what differs by it stays as it is until the process ends. It is "-" where the kernel does not
// say it.
var Hostname = sync.OnceValue(func() string { return hostnameOf(os.Hostname) })

func hostnameOf(read func() (string, error)) string {
	name, err := read()
	if err != nil {
		return unknownHost
	}
	return name
}
