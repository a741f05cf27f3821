// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/tools"
)

// found are the programs, all of which these tests need, but XLB.
func found(t *testing.T) (n Tools) {
	t.Helper()
	t.Chdir("../..") // Tools lie below the root of the tree.
	var err error
	if os.Getuid() != 0 {
		err = errors.New("needs root, for namespaces")
	}
	for tool, into := range map[string]*string{"nginx": &n.NGINX, "envoy": &n.Envoy, "nft": &n.NFT} {
		path, findErr := (tools.Tools{}).Find(tool)
		*into, err = path, errors.Join(err, findErr)
	}
	if err == nil {
		return n
	}
	if os.Getenv("XLB_REQUIRE_CLIENTS") != "" {
		t.Fatalf("XLB_REQUIRE_CLIENTS is set: %v", err)
	}
	t.Skip(err)
	return n
}

// freeNet is one with pods when no other benchmark is on this machine.
func freeNet(t *testing.T, topology lab.Topology, pods int) *Net {
	t.Helper()
	programs := found(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var n *Net
	err := lab.Poll(ctx, 100*time.Millisecond, func() (err error) {
		n, err = New(topology, pods, programs)
		if err != nil && !errors.Is(err, syscall.EAGAIN) {
			cancel()
		}
		return err
	})
	if errors.Is(err, syscall.EAGAIN) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := n.StartServers(t.Context(), n.Pods); err != nil {
		t.Fatal(err)
	}
	return n
}

// get asks from a pod, on a connection of its own.
func get(p *Pod, at netip.AddrPort) (body string, err error) {
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = lab.Within(p.ns, func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	response, err := client.Get("http://" + at.String() + "/stats?filter=downstream_rq_2xx")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", response.Status)
	}
	return string(text), err
}

func TestPodsReachEachOtherAndTheHost(t *testing.T) {
	n := freeNet(t, lab.SameHost, 3)
	for _, from := range n.Pods {
		for _, to := range n.Pods {
			if _, err := get(from, to.Server()); err != nil {
				t.Errorf("from %s to %s: %v", from.Address, to.Address, err)
			}
		}
	}
	response, err := n.HTTPClient().Get("http://" + n.Pods[2].Server().String())
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

// The pod has as far as the host has, and each reaches both addresses.
func TestAPodHasALinkOfItsOwnToTheOtherHost(t *testing.T) {
	n := freeNet(t, lab.CrossHost, 1)
	if err := n.StartServerOn(t.Context(), lab.ServerHost); err != nil {
		t.Fatal(err)
	}
	linked, err := n.JoinServerHost(n.Pods[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []netip.AddrPort{linked, netip.AddrPortFrom(n.EndpointAddress(), ServerPort)} {
		if _, err := get(n.Pods[0], at); err != nil {
			t.Errorf("from the pod to %s: %v", at, err)
		}
		response, err := n.HTTPClient().Get("http://" + at.String())
		if err != nil {
			t.Errorf("from the host to %s: %v", at, err)
			continue
		}
		response.Body.Close()
	}
}

func TestRequestsPassTheSidecarsOfBothPods(t *testing.T) {
	n := freeNet(t, lab.SameHost, 2)
	client, server := n.Pods[0], n.Pods[1]
	service := Services(n.Pods[1:])
	var running []*lab.Process
	for _, start := range []func() (*lab.Process, error){
		func() (*lab.Process, error) { return n.StartServerSidecar(server, 1, lab.Charge{}) },
		func() (*lab.Process, error) { return n.StartClientSidecar(client, service, 1, lab.Charge{}) },
	} {
		p, err := start()
		if err != nil {
			t.Fatal(errors.Join(err, n.StopAll(running)))
		}
		running = append(running, p)
	}
	const requests = 5
	err := n.await(t.Context(), "the sidecars", func() error { _, err := get(client, service[0].Address); return err })
	for i := 1; err == nil && i < requests; i++ {
		_, err = get(client, service[0].Address)
	}
	for _, one := range []struct {
		pod  *Pod
		stat string
	}{{client, "http.s0.downstream_rq_2xx: 5"}, {server, "http.inbound.downstream_rq_2xx: 5"}} {
		stats, statsErr := get(one.pod, peers.AdminAddress)
		if err = errors.Join(err, statsErr); !strings.Contains(stats, one.stat) {
			t.Errorf("the sidecar of %s counts:\n%s\nwant %s", one.pod.Address, stats, one.stat)
		}
	}
	if err := errors.Join(err, n.StopAll(running)); err != nil {
		t.Fatal(err)
	}
	if _, err := get(client, server.Server()); err != nil {
		t.Errorf("without the sidecars: %v", err)
	}
}
