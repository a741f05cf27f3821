// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net/netip"

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

// load is one kind of traffic.
type load struct {
	Name string `json:"load"`
	// Connections at a time, and how many Requests each makes; 0: all that the duration allows.
	Connections int `json:"connections"`
	Requests    int `json:"requests"`
	// Answer is the size of an answer in bytes.
	Answer uint32 `json:"answer_bytes"`
	// OneCPU keeps client and server on one processor.
	OneCPU bool   `json:"one_cpu"`
	paths  []Path // nil: direct, balancer and HEELS
}

func (l load) String() string {
	text := fmt.Sprintf("%s, %d connections, answers of %d bytes", l.Name, l.Connections, l.Answer)
	if l.OneCPU {
		text += ", one processor"
	}
	return text
}

func (l load) allPaths() []Path {
	if l.paths != nil {
		return l.paths
	}
	return []Path{Direct, Balancer, HEELS}
}

// Names of loads: persistent connections, one connection for each request, and how long connect takes.
const (
	rr    = "RR"
	crr   = "CRR"
	setup = "set-up"
)

// loads are the HEELS paper's figures 2 to 4.
func loads() []load {
	const kb = 1000
	var all []load
	for _, one := range []bool{false, true} {
		for _, size := range []uint32{kb, 32 * kb, 260 * kb} {
			all = append(all, load{Name: rr, Connections: 100, Answer: size, OneCPU: one})
		}
	}
	for _, size := range []uint32{kb, 100 * kb} {
		all = append(all, load{Name: rr, Connections: 1, Answer: size}, load{Name: crr, Connections: 1, Requests: 1, Answer: size})
	}
	return append(all, load{Name: setup, Connections: 1, Requests: 1, Answer: smallest, paths: []Path{Direct, Balancer, SYN, SYNACK, HEELS}})
}

// smallest is the least size of an answer, and request of every request, in bytes.
const (
	smallest = 64
	request  = 32
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

// kinds are one balancer that rewrites and one that encapsulates.
func kinds() []kind {
	return []kind{
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
}

// measures reports whether a load is measured with a balancer: a server that has answered a rewritten SYN and does not hear directly of it
// serves nobody, so set-up by steps needs one that encapsulates.
func (k kind) measures(l load) bool { return l.Name != setup || k.mode == "encapsulated" }

func (l load) client(target netip.AddrPort) traffic.ClientOptions {
	o := traffic.ClientOptions{Target: target, Concurrency: l.Connections, Requests: l.Requests, Request: request, Answer: l.Answer}
	if l.OneCPU {
		o.CPU = 1
	}
	return o
}
