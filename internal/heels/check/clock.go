// SPDX-License-Identifier: Apache-2.0

package check

import "golang.org/x/sys/unix"

// checkClock asks the kernel whether something keeps its clock right: tags are over the time.
func checkClock() Finding {
	state, err := unix.Adjtimex(&unix.Timex{})
	return clockFinding(state, err)
}

// timeError is TIME_ERROR of adjtimex(2): nobody keeps the clock right.
const timeError = 5

func clockFinding(state int, err error) Finding {
	const name = "clock"
	switch {
	case err != nil:
		return fine(name, "not known: %v", err)
	case state == timeError:
		return Finding{
			name, Attention, "not synchronized: with a key, SYNs between hosts whose clocks are more than half a minute apart are declined (decline_tag)",
			"run chrony, ntpd or systemd-timesyncd",
		}
	}
	return fine(name, "synchronized")
}
