// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHZ is the unit of /proc/stat, 1/100 s on every architecture Go runs on.
const userHZ = 100

// CPUTime is processor time, by who used it.
type CPUTime struct {
	// Machine is all busy time of the machine, other people's included: the only
	// figure that has kernel threads and interrupts, so read it with the others.
	Machine   time.Duration
	Clients   time.Duration
	Endpoints time.Duration
	Balancer  time.Duration
}

// ReadCPU reads what each role of the lab, and the machine, has used so far.
func ReadCPU(l *Lab) (t CPUTime, err error) {
	if t.Machine, err = MachineCPU(); err != nil {
		return t, err
	}
	for role, into := range map[Role]*time.Duration{
		Client: &t.Clients, Endpoint: &t.Endpoints, Balancer: &t.Balancer,
	} {
		if *into, err = l.CPU(role); err != nil {
			return t, err
		}
	}
	return t, nil
}

// MachineCPU is all busy time of the machine so far.
func MachineCPU() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return busyTime(string(stat))
}

// busyTime adds the busy columns of the "cpu" line of /proc/stat (proc(5)):
// user nice system idle iowait irq softirq; steal is another guest's time, and
// guest is part of user.
func busyTime(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat: the first line is no cpu line of at least 7 columns")
	}
	var ticks int64
	for _, column := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(fields[column], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: column %d: %w", column, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHZ, nil
}
