// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

// userHZ is the unit of /proc/stat, 1/100 s on every architecture Go runs on.
const userHZ = 100

// cpuTime is processor time, by who used it.
type cpuTime struct {
	// Machine is all busy time of the machine, other people's included: the only
	// figure that has kernel threads and interrupts, so read it with the others.
	Machine   time.Duration
	Clients   time.Duration
	Endpoints time.Duration
	Balancer  time.Duration
}

func readCPU(l *lab.Lab) (t cpuTime, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	if t.Machine, err = busyTime(string(stat)); err != nil {
		return t, err
	}
	for role, into := range map[lab.Role]*time.Duration{
		lab.Client: &t.Clients, lab.Endpoint: &t.Endpoints, lab.Balancer: &t.Balancer,
	} {
		if *into, err = l.CPU(role); err != nil {
			return t, err
		}
	}
	return t, nil
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

// perRequest is processor time in microseconds per answered request.
type perRequest struct {
	Machine   float64 `json:"machine"`
	Clients   float64 `json:"clients"`
	Endpoints float64 `json:"endpoints"`
	Balancer  float64 `json:"balancer"`
}

// lab is clients, endpoints and balancer together.
func (c perRequest) lab() float64 { return c.Clients + c.Endpoints + c.Balancer }

// per divides the time since before by the number of requests.
func (t cpuTime) per(before cpuTime, requests int64) perRequest {
	if requests == 0 {
		return perRequest{}
	}
	us := func(now, then time.Duration) float64 {
		return float64((now - then).Microseconds()) / float64(requests)
	}
	return perRequest{
		Machine:   us(t.Machine, before.Machine),
		Clients:   us(t.Clients, before.Clients),
		Endpoints: us(t.Endpoints, before.Endpoints),
		Balancer:  us(t.Balancer, before.Balancer),
	}
}
