// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/tools"
)

// peerOf is the peer of a name.
func peerOf(name string) peers.Peer {
	known := peers.All()
	return known[slices.IndexFunc(known, func(p peers.Peer) bool { return p.Name == name })]
}

// needMesh skips tests of the redirection where it cannot be: it needs root, nginx, nft and Envoy. With XLB_REQUIRE_CLIENTS it fails them.
func needMesh(t *testing.T) {
	t.Helper()
	t.Chdir("../..") // Tools lie below the root of the tree.
	if os.Getuid() != 0 {
		cannot(t, errors.New("needs root, for namespaces"))
	}
	for _, tool := range []string{"nginx", "nft", "envoy", "ip"} {
		if _, err := (tools.Tools{}).Find(tool); err != nil {
			cannot(t, err)
		}
	}
}

func cannot(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("XLB_REQUIRE_CLIENTS") != "" {
		t.Fatalf("XLB_REQUIRE_CLIENTS is set: %v", err)
	}
	t.Skip(err)
}

// upMesh starts the sidecars, and stops them after the test.
func upMesh(t *testing.T, b *Bed, p peers.Peer) {
	t.Helper()
	running, err := b.up(t.Context(), p)
	t.Cleanup(func() {
		if err := errors.Join(lab.StopAll(running), b.unredirect(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRequestsPassBothSidecarsByRedirection(t *testing.T) {
	needMesh(t)
	const requests = 20
	for _, topology := range []lab.Topology{lab.SameHost, lab.CrossHost} {
		t.Run(string(topology), func(t *testing.T) {
			b := freeBed(t, topology, cases.Nginxes)
			t.Cleanup(func() {
				if _, err := b.get(context.Background(), "http://"+b.site.Endpoints[0].String()+"/"); err != nil {
					t.Errorf("without the sidecars: %v", err)
				}
			})
			upMesh(t, b, peerOf(peers.Envoy2))
			// Until the sidecars are there, those who wait for them are redirected, too, and get no answer.
			before := redirected(t, b)
			for range requests {
				if _, err := b.get(t.Context(), "http://"+peers.ServiceAddress.String()+"/"); err != nil {
					t.Fatal(err)
				}
			}
			client := answered(t, b, lab.ClientHost, peers.AdminAddress.Port(), "service")
			server := answered(t, b, lab.ServerHost, peers.SidecarAdmin, "endpoint0") + answered(t, b, lab.ServerHost, peers.SidecarAdmin, "endpoint1")
			if client < requests || server != client {
				t.Errorf("the sidecars answered %d and %d requests, want at least %d, both as many", client, server, requests)
			}
			// The test's client makes a connection for each request, the client's sidecar keeps its own.
			counts := redirected(t, b)
			to, from := counts[peers.OutboundPort]-before[peers.OutboundPort], counts[peers.InboundPort]-before[peers.InboundPort]
			if to != requests || counts[peers.InboundPort] == 0 || from > requests {
				t.Errorf("%d connections to the service are redirected and %d to endpoints, with %d requests; in all %v", to, from, requests, counts)
			}
		})
	}
}

// freeBed is a bed that no other benchmark of this machine is on.
func freeBed(t *testing.T, topology lab.Topology, k cases.Kind) *Bed {
	t.Helper()
	var b *Bed
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := lab.Poll(ctx, 100*time.Millisecond, func() (err error) {
		lock, err := lab.Lock()
		if err != nil {
			return err
		}
		return lock.Close()
	})
	if err != nil {
		t.Skip(err)
	}
	if b, err = New(t.Context(), topology, tools.Tools{}, 0, k); err != nil {
		if strings.Contains(err.Error(), syscall.EAGAIN.Error()) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// answered is how many requests the connection manager of an Envoy has answered with 200.
func answered(t *testing.T, b *Bed, host lab.Host, admin uint16, name string) (n int) {
	t.Helper()
	there := &Bed{http: b.Lab.HTTPClientOn(host)}
	text, err := there.get(t.Context(), fmt.Sprintf("http://%s/stats?filter=^http.%s.downstream_rq_2xx", netip.AddrPortFrom(peers.AdminAddress.Addr(), admin), name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(text, "http."+name+".downstream_rq_2xx: %d", &n); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return n
}

// redirected is how many connections the rules of all hosts have sent to each port.
func redirected(t *testing.T, b *Bed) map[uint16]int {
	t.Helper()
	counter := regexp.MustCompile(`counter packets (\d+) bytes \d+ dnat to \S+:(\d+)`)
	counts := map[uint16]int{}
	path, err := b.tools.Find("nft")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range b.redirected {
		running, err := b.Lab.Start(lab.Command{Name: "nft", Path: path, Args: []string{"list", "table", "ip", peers.MeshTable}, Role: lab.Balancer, Host: host})
		if err != nil {
			t.Fatal(err)
		}
		text, err := running.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range counter.FindAllStringSubmatch(text, -1) {
			packets, _ := strconv.Atoi(match[1])
			port, _ := strconv.Atoi(match[2])
			counts[uint16(port)] += packets
		}
	}
	return counts
}

// serve is the command "service" of the benchmark.
func serve(args []string) error {
	var o chain.Options
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.TextVar(&o.Listen, "listen", netip.AddrPort{}, "")
	flags.TextVar(&o.Next, "next", netip.AddrPort{}, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Count = 1
	return chain.Serve(context.Background(), o)
}

// TestMain has the test's program serve as a service of a chain.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "service" {
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestChainPassesEverySidecar(t *testing.T) {
	needMesh(t)
	const hops, requests = 3, 10
	b := freeBed(t, lab.SameHost, cases.Nothing)
	s, err := b.stage(t.Context(), peerOf(peers.Envoy2), cases.Chained(1, hops), cases.Options{})
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	upMesh(t, b, s.peer)
	for range requests {
		if _, err := b.get(t.Context(), "http://"+peers.ServiceAddress.String()+"/"); err != nil {
			t.Fatal(err)
		}
	}
	client := answered(t, b, lab.ClientHost, peers.AdminAddress.Port(), "outbound")
	for i := range hops {
		if n := answered(t, b, lab.ClientHost, uint16(peers.MeshAdmin+i), "inbound"); n != client || n < requests {
			t.Errorf("sidecar %d took in %d requests, want %d", i, n, client)
		}
		if i+1 == hops {
			continue
		}
		if n := answered(t, b, lab.ClientHost, uint16(peers.MeshAdmin+i), "outbound"); n != client {
			t.Errorf("sidecar %d sent on %d requests, want %d", i, n, client)
		}
	}
	if counts := redirected(t, b); counts[peers.OutboundPort] < requests+hops-1 || counts[peers.InboundPort] < hops {
		t.Errorf("redirected by port: %v, want at least one connection for each hop to both", counts)
	}
}
