// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/workload"
)

// missing has client's connects to those addresses fail, as far as that is known.
func missing(client workload.ID, at ...netip.AddrPort) frontOption {
	return func(c *Config, _ *model.Route) {
		c.Misses = func(from workload.ID) func(netip.AddrPort) bool {
			if from != client {
				return nil
			}
			return func(to netip.AddrPort) bool { return slices.Contains(at, to) }
		}
	}
}

func withRetries(_ *Config, r *model.Route) { r.Retry = &model.Retry{} }

// Others reach the endpoint, so that it is in service: a request that came there would wait for a connect timeout.
func TestRequestsGoWhereTheirClientGetsThrough(t *testing.T) {
	near, far := saying200(t), saying200(t)
	tests := []struct {
		name    string
		missed  []netip.AddrPort
		options []frontOption
		// claimed is the kernel's choice, if it has made one.
		claimed netip.AddrPort
		want    netip.AddrPort
	}{
		{"the next", []netip.AddrPort{near}, nil, netip.AddrPort{}, far},
		{"the kernel's choice", []netip.AddrPort{near}, nil, near, far},
		{"the kernel's choice, which it reaches", []netip.AddrPort{near}, nil, far, far},
		{"the next, with retries", []netip.AddrPort{near}, []frontOption{withRetries}, netip.AddrPort{}, far},
		{"the kernel's choice, with retries", []netip.AddrPort{near}, []frontOption{withRetries}, near, far},
		{"there is no other", []netip.AddrPort{near, far}, nil, netip.AddrPort{}, near},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var dialed netip.AddrPort
			dials := func(c *Config, _ *model.Route) {
				c.Dial = func(ctx context.Context, _ workload.ID, to netip.AddrPort) (net.Conn, error) {
					dialed = to
					return conns.Dial(ctx, workload.Host, to)
				}
			}
			f := newFront(t, list(near, far), append(tt.options, missing(ofClient, tt.missed...), dials)...)
			f.proxy.Join(ofClient, ofClient)
			s := Session{Listener: "l", Workload: ofClient, Account: ofClient}
			claimed := &fakePick{balancer: &fakeBalancer{}, address: tt.claimed}
			if tt.claimed.IsValid() {
				s.Claim = &Claim{Cluster: model.SharedCluster("c"), Endpoint: claimed}
			}
			client, server := tcpPair(t)
			_, _ = io.WriteString(client, lastGet)
			go func() { _, _ = io.Copy(io.Discard, client) }()
			if _, err := f.proxy.Serve(t.Context(), server, s); err != nil {
				t.Fatal(err)
			}
			if dialed != tt.want {
				t.Errorf("the request went to %v, want %v", dialed, tt.want)
			}
			if tt.claimed.IsValid() && !claimed.done {
				t.Error("the kernel's choice counts as busy for ever")
			}
		})
	}
}
