// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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

	"github.com/xlb-project/xlb/bench/lab"
)

func TestRulesSendToSidecarsWhatIsNotTheirOwn(t *testing.T) {
	s := site{endpoints: endpointAddresses(netip.MustParseAddr("198.18.80.2"), workers)}
	there := s.mesh().redirections(false)
	s.endpoints = endpointAddresses(netip.MustParseAddr("127.0.0.1"), workers)
	here := s.mesh().redirections(true)
	for _, tt := range []struct {
		name  string
		of    []redirection
		parts []string
	}{
		{"two hosts", there, []string{
			"hook output", "ip daddr 127.80.0.1 tcp dport 8080 meta mark != 1337 counter dnat to 127.0.0.1:15001",
			"hook prerouting", "ip daddr 198.18.80.2 tcp dport 9002 meta mark != 1338 counter dnat to 198.18.80.2:15006",
		}},
		{"one host", here, []string{"hook output", "counter dnat to 127.0.0.1:15001", "ip daddr 127.0.0.1 tcp dport 9001 meta mark != 1338 counter dnat to 127.0.0.1:15006"}},
		{"chain", peer{}.meshed(2).redirects(s).redirections(true), []string{
			"ip daddr 127.80.0.1 tcp dport 8080 meta mark != 1337 counter dnat to 127.0.0.1:15001",
			"ip daddr 127.80.0.2 tcp dport 8080 meta mark != 1337 counter dnat to 127.82.0.1:15001",
			"ip daddr 127.81.0.2 tcp dport 9000 meta mark != 1338 counter dnat to 127.82.0.2:15006",
		}},
	} {
		text := ""
		for _, r := range tt.of {
			accepted(t, r.text())
			text += r.text()
		}
		for _, part := range tt.parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing in:\n%s", tt.name, part, text)
			}
		}
	}
}

func TestOnlySidecarsAreRedirectedTo(t *testing.T) {
	s := site{endpoints: endpointAddresses(netip.MustParseAddr("127.0.0.1"), workers)}
	for _, p := range peers() {
		for _, process := range p.processes {
			text, err := process.configuration(s)
			if err != nil {
				t.Fatal(err)
			}
			redirected := strings.Contains(string(text), "bind_to_port: false") && strings.Contains(string(text), "name: 36, int_value: 133") && strings.Contains(string(text), "use_original_dst")
			if redirected != (p.name == peerEnvoy2) {
				t.Errorf("%s, %s: redirected to: %t", p.name, process.name, redirected)
			}
		}
	}
}

// envoy2 is the peer of redirected sidecars.
func envoy2() peer {
	i := slices.IndexFunc(peers(), func(p peer) bool { return p.name == peerEnvoy2 })
	return peers()[i]
}

// needMesh skips tests of the redirection where it cannot be: it needs root, nginx, nft and Envoy. With XLB_REQUIRE_CLIENTS it fails them.
func needMesh(t *testing.T) {
	t.Helper()
	t.Chdir("..") // Tools lie below the root of the tree.
	if os.Getuid() != 0 {
		cannot(t, errors.New("needs root, for namespaces"))
	}
	for _, tool := range []string{"nginx", "nft", "envoy", "ip"} {
		if _, err := (tools{}).find(tool); err != nil {
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
func upMesh(t *testing.T, b *bed, p peer) {
	t.Helper()
	running, err := b.up(t.Context(), p)
	t.Cleanup(func() {
		if err := errors.Join(stopAll(running), b.unredirect(context.Background())); err != nil {
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
			b := freeBed(t, topology, nginxes)
			t.Cleanup(func() {
				if _, err := b.get(context.Background(), "http://"+b.site.endpoints[0].String()+"/"); err != nil {
					t.Errorf("without the sidecars: %v", err)
				}
			})
			upMesh(t, b, envoy2())
			for range requests {
				if _, err := b.get(t.Context(), "http://"+serviceAddress.String()+"/"); err != nil {
					t.Fatal(err)
				}
			}
			client := answered(t, b, lab.ClientHost, adminAddress.Port(), "service")
			server := answered(t, b, lab.ServerHost, sidecarAdmin, "endpoint0") + answered(t, b, lab.ServerHost, sidecarAdmin, "endpoint1")
			if client < requests || server != client {
				t.Errorf("the sidecars answered %d and %d requests, want at least %d, both as many", client, server, requests)
			}
			// The test's client makes a connection for each request, the client's sidecar keeps its own.
			counts := redirected(t, b)
			if to, from := counts[outboundPort], counts[inboundPort]; to < requests || from == 0 || from > client {
				t.Errorf("%d connections to the service are redirected and %d to endpoints, with %d requests", to, from, client)
			}
		})
	}
}

// freeBed is a bed that no other benchmark of this machine is on.
func freeBed(t *testing.T, topology lab.Topology, k kind) *bed {
	t.Helper()
	var b *bed
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
	if b, err = newBed(t.Context(), topology, tools{}, 0, k); err != nil {
		if strings.Contains(err.Error(), syscall.EAGAIN.Error()) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// answered is how many requests the connection manager of an Envoy has answered with 200.
func answered(t *testing.T, b *bed, host lab.Host, admin uint16, name string) (n int) {
	t.Helper()
	there := &bed{http: b.lab.HTTPClientOn(host)}
	text, err := there.get(t.Context(), fmt.Sprintf("http://%s/stats?filter=^http.%s.downstream_rq_2xx", netip.AddrPortFrom(adminAddress.Addr(), admin), name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(text, "http."+name+".downstream_rq_2xx: %d", &n); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return n
}

// redirected is how many connections the rules of all hosts have sent to each port.
func redirected(t *testing.T, b *bed) map[uint16]int {
	t.Helper()
	counter := regexp.MustCompile(`counter packets (\d+) bytes \d+ dnat to \S+:(\d+)`)
	counts := map[uint16]int{}
	path, err := b.tools.find("nft")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range b.redirected {
		running, err := b.lab.Start(lab.Command{Name: "nft", Path: path, Args: []string{"list", "table", "ip", meshTable}, Role: lab.Balancer, Host: host})
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

// TestMain has the test's program serve as a service of a chain.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "service" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestChainPassesEverySidecar(t *testing.T) {
	needMesh(t)
	const hops, requests = 3, 10
	b := freeBed(t, lab.SameHost, nothing)
	s, err := b.stage(t.Context(), envoy2(), chained(1, hops), options{})
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
		if _, err := b.get(t.Context(), "http://"+serviceAddress.String()+"/"); err != nil {
			t.Fatal(err)
		}
	}
	client := answered(t, b, lab.ClientHost, adminAddress.Port(), "outbound")
	for i := range hops {
		if n := answered(t, b, lab.ClientHost, uint16(meshAdmin+i), "inbound"); n != client || n < requests {
			t.Errorf("sidecar %d took in %d requests, want %d", i, n, client)
		}
		if i+1 == hops {
			continue
		}
		if n := answered(t, b, lab.ClientHost, uint16(meshAdmin+i), "outbound"); n != client {
			t.Errorf("sidecar %d sent on %d requests, want %d", i, n, client)
		}
	}
	if counts := redirected(t, b); counts[outboundPort] < requests+hops-1 || counts[inboundPort] < hops {
		t.Errorf("redirected by port: %v, want at least one connection for each hop to both", counts)
	}
}
