// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/tools"
)

// StationProcess is the i-th endpoint of the least case.
func StationProcess(i int) Process {
	took := cases.FastService
	if cases.IsSlow(i) {
		took = cases.SlowService
	}
	return Process{
		Name: EndpointName(i), Tool: tools.Self, Host: lab.ServerHost,
		Args: func(s Site, _ string) []string {
			return []string{"station", "--listen", s.Endpoints[i].String(), "--service", took.String(), "--workers", strconv.Itoa(cases.StationWorkers)}
		},
	}
}

// EndpointName is that of the i-th endpoint.
func EndpointName(i int) string { return fmt.Sprintf("endpoint%d", i) }

// EndpointProcess is the i-th nginx that answers.
func EndpointProcess(i int) Process {
	return Answering(EndpointName(i), func(s Site) netip.AddrPort { return s.Endpoints[i] })
}

// Answering is an nginx that answers.
func Answering(name string, at func(s Site) netip.AddrPort) Process {
	return Process{
		Name: name, Tool: "nginx", Template: "endpoint.conf.tmpl", Host: lab.ServerHost, Args: nginxArgs,
		settings: func(s Site) settings { return settings{Listeners: []Listener{{Name: name, Address: at(s)}}} },
	}
}

// OwnServer is this very program as a server on the endpoints' host.
func OwnServer(name string, args ...string) Process {
	return Process{Name: name, Tool: tools.Self, Host: lab.ServerHost, Args: func(Site, string) []string { return args }}
}

// EchoProcess is the i-th server that returns messages.
func EchoProcess(i int) Process {
	return Process{
		Name: EndpointName(i), Tool: tools.Self, Host: lab.ServerHost,
		Args: func(s Site, _ string) []string { return []string{"echo", "--listen", s.Endpoints[i].String()} },
	}
}

// EndpointAddresses lists where so many endpoints listen on the host at addr.
func EndpointAddresses(addr netip.Addr, n int) []netip.AddrPort {
	addresses := make([]netip.AddrPort, n)
	for i := range addresses {
		addresses[i] = netip.AddrPortFrom(addr, uint16(endpointPort+i))
	}
	return addresses
}

// SinkProcess is the i-th endpoint that reads whole bodies before it answers.
func SinkProcess(i int) Process {
	return Process{
		Name: EndpointName(i), Tool: tools.Self, Host: lab.ServerHost,
		Args: func(s Site, _ string) []string { return []string{"service", "--listen", s.Endpoints[i].String()} },
	}
}
