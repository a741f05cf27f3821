// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/test/heels/balancer"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// Path is the way of a turn's packets.
type Path string

// The paths. Set-up has two more between the balancer's and HEELS', as the HEELS paper's figure 4: programs are enabled one after the other.
const (
	Direct   Path = "direct"
	Balancer Path = "balancer"
	// SYN has the client's sock_ops alone: the SYN carries the option.
	SYN Path = "balancer, SYN"
	// SYNACK has the server's programs, too, and the SYN-ACK the answer; nothing goes directly yet.
	SYNACK Path = "balancer, SYN and SYN-ACK"
	HEELS  Path = "heels"
)

// Processors that client and server run on.
type Processors string

// The choices. Apart they stand for two hosts with one processor each, so that the scheduler's choice is in no latency; where there is only one, it
// is for both.
const (
	All   Processors = "all"
	One   Processors = "one"
	Apart Processors = "apart"
)

// load is one kind of traffic.
type load struct {
	Name string `json:"load"`
	// Connections at a time, and how many Requests each makes; 0: all that the duration allows.
	Connections int `json:"connections"`
	Requests    int `json:"requests"`
	// Request and Answer are sizes in bytes; of HTTP the answer's body.
	Request    uint32     `json:"request_bytes"`
	Answer     uint32     `json:"answer_bytes"`
	Processors Processors `json:"processors"`
	paths      []Path     // nil: direct, balancer and HEELS
}

func (l load) String() string {
	text := fmt.Sprintf("%s, %d connections", l.Name, l.Connections)
	if l.Connections == 1 {
		text = l.Name + ", one connection"
	}
	if l.Name == viaHTTP && l.Requests == 1 {
		text += " of one request each"
	}
	if l.Request > l.Answer {
		text += fmt.Sprintf(", requests of %d bytes", l.Request)
	} else {
		text += fmt.Sprintf(", answers of %d bytes", l.Answer)
	}
	switch l.Processors {
	case One:
		text += ", one processor"
	case Apart:
		text += ", a processor each"
	}
	return text
}

func (l load) allPaths() []Path {
	if l.paths != nil {
		return l.paths
	}
	return []Path{Direct, Balancer, HEELS}
}

// isLatency reports whether a load says how long things take; the others say how much gets through.
func (l load) isLatency() bool { return l.Connections == 1 && l.Name != stream }

// Names of loads: persistent connections, one connection for each request, how long connect takes, large transfers, and wrk with nginx.
const (
	rr      = "RR"
	crr     = "CRR"
	setup   = "set-up"
	stream  = "stream"
	viaHTTP = "wrk"
)

// Cases are the names of loads, in the order in which they are measured.
func Cases() []string { return []string{rr, crr, setup, stream, viaHTTP} }

// loads are the HEELS paper's figures 2 to 4, large transfers both ways, and HTTP.
func loads() []load {
	const kb, mb = 1000, 1000_000
	var all []load
	for _, processors := range []Processors{All, One} {
		for _, size := range []uint32{kb, 32 * kb, 260 * kb} {
			all = append(all, load{Name: rr, Connections: 100, Request: least, Answer: size, Processors: processors})
		}
	}
	for _, size := range []uint32{kb, 100 * kb} {
		all = append(all, load{Name: rr, Connections: 1, Request: least, Answer: size, Processors: Apart})
	}
	for _, size := range []uint32{kb, 100 * kb} {
		all = append(all, load{Name: crr, Connections: 1, Requests: 1, Request: least, Answer: size, Processors: Apart})
	}
	return append(all,
		load{Name: setup, Connections: 1, Requests: 1, Request: least, Answer: leastAnswer, Processors: Apart, paths: []Path{Direct, Balancer, SYN, SYNACK, HEELS}},
		load{Name: stream, Connections: 1, Request: least, Answer: 100 * mb, Processors: All},
		load{Name: stream, Connections: 1, Request: 100 * mb, Answer: leastAnswer, Processors: All},
		load{Name: viaHTTP, Connections: 100, Answer: kb, Processors: All},
		load{Name: viaHTTP, Connections: 32, Requests: 1, Answer: kb, Processors: All})
}

// least and leastAnswer are the least sizes of a message of package traffic, in bytes.
const (
	least       = 32
	leastAnswer = 64
)

// kind is a balancer.
type kind struct {
	name, mode, sources string
	port                uint16
	set                 func(*stand.Stand, stand.Service) (closes, error)
}

// closes is what ends with a turn; nil: nothing.
type closes interface{ Close() error }

const servicePort = 80

func (k kind) serverPort() uint16 {
	if k.port == 0 {
		return servicePort
	}
	return k.port
}

var vip = netip.AddrPortFrom(stand.VIP, servicePort)

// Balancers are the names of what is measured.
func Balancers() (names []string) {
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// kinds are one balancer that rewrites and one that encapsulates, and Katran where there is a checkout of it.
func kinds() []kind {
	all := []kind{
		{
			name: "masquerade", mode: "rewritten", sources: stand.Balancers, port: 8080,
			set: func(s *stand.Stand, service stand.Service) (closes, error) {
				return nil, s.Rewrite(stand.Rewriting{Masquerade: true}, service)
			},
		},
		{
			name: "IPIP", mode: "encapsulated", sources: "172.16.0.0/16",
			set: func(s *stand.Stand, service stand.Service) (closes, error) {
				return s.Encapsulate(balancer.IPIP, service)
			},
		},
	}
	source := os.Getenv(balancer.KatranSource)
	if source == "" {
		return all
	}
	return append(all, kind{
		name: "Katran", mode: "encapsulated", sources: "172.16.0.0/16",
		set: func(s *stand.Stand, service stand.Service) (closes, error) {
			return s.EncapsulateByKatran(source, service)
		},
	})
}

// measures reports whether a load is measured with a balancer: a server that has answered a rewritten SYN and does not hear directly of it
// serves nobody, so set-up by steps needs one that encapsulates.
func (k kind) measures(l load) bool { return l.Name != setup || k.mode == "encapsulated" }

// chosen are the loads of the cases, all of them if none is named.
func chosen(cases []string) []load {
	return slices.DeleteFunc(loads(), func(l load) bool { return !isNamed(cases, l.Name) })
}

// isNamed looks a name up, whatever its case; an empty list has all names.
func isNamed(names []string, name string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// processors are the client's and the server's, from 1; 0: all.
func (l load) processors() (client, server int) {
	switch l.Processors {
	case One:
		return 1, 1
	case Apart:
		return 1, min(2, runtime.NumCPU())
	}
	return 0, 0
}

func (l load) client(target netip.AddrPort) traffic.ClientOptions {
	o := traffic.ClientOptions{Target: target, Concurrency: l.Connections, Requests: l.Requests, Request: l.Request, Answer: l.Answer}
	o.CPU, _ = l.processors()
	return o
}
