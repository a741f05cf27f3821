// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"fmt"
	"net/netip"
	"strconv"
	"time"
)

// WrkArgs have a wrk of one thread ask a target for so many whole seconds.
func WrkArgs(script string, target netip.AddrPort, connections int, long time.Duration) []string {
	return []string{
		"--threads", "1", "--connections", strconv.Itoa(connections), "--duration", fmt.Sprintf("%ds", int(long.Seconds())),
		"--script", script, "http://" + target.String() + "/",
	}
}

// Whole returns an error unless a duration is of whole seconds, as wrk measures.
func Whole(long time.Duration) error {
	if long < time.Second || long%time.Second != 0 {
		return fmt.Errorf("a load of %s: wrk takes whole seconds, at least one", long)
	}
	return nil
}
