// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T, name string) App {
	t.Helper()
	a, err := Load(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestServicesAndConfigurationAgree(t *testing.T) {
	for _, name := range []string{"bookstore", "bank"} {
		a := load(t, name)
		text, err := os.ReadFile(a.File())
		if err != nil {
			t.Fatal(err)
		}
		addresses := a.Endpoints()
		for _, s := range a.Services {
			if s.Address.IsValid() {
				addresses = append(addresses, s.Address)
			}
		}
		for _, address := range addresses {
			if !address.Addr().IsLoopback() {
				t.Errorf("%s: %s is no loopback address", name, address)
			}
			line := fmt.Sprintf("{ address: %s, port_value: %d }", address.Addr(), address.Port())
			if n := strings.Count(string(text), line); n != 1 {
				t.Errorf("%s: envoy.yaml names %s %d times, want once", name, address, n)
			}
		}
		// The admin API has one more.
		if n := strings.Count(string(text), "socket_address:"); n != len(addresses)+1 {
			t.Errorf("%s: envoy.yaml has %d addresses, services.yaml %d", name, n-1, len(addresses))
		}
		if _, err := a.Admin(); err != nil {
			t.Error(err)
		}
	}
}

func TestServiceKnowsOthersByAddress(t *testing.T) {
	s := Service{Name: "two", Instances: []Instance{{Listen: netip.MustParseAddrPort("127.0.0.1:1")}, {Listen: netip.MustParseAddrPort("127.0.0.2:1")}}}
	if got := s.asked(1, false); got != s.Instances[1].Listen {
		t.Errorf("without an address of its own it is known by %s", got)
	}
	s.Address = netip.MustParseAddrPort("127.0.0.9:1")
	if got := s.asked(1, false); got != s.Address {
		t.Errorf("with a balancer it is known by %s, want %s", got, s.Address)
	}
	for i, want := range []int{0, 1, 0} {
		if got := s.asked(i, true); got != s.Instances[want].Listen {
			t.Errorf("without a balancer instance %d asks %s, want instance %d", i, got, want)
		}
	}
}

func TestProcessHasNoEnvironmentButItsOwn(t *testing.T) {
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	a := App{Name: "x", Dir: "/x", Services: []Service{
		{
			Name: "front", Address: netip.MustParseAddrPort("127.0.0.9:1"), Run: []string{"sh", "${APP}/front"}, Asks: []string{"store"},
			Env: map[string]string{"KEY": "${BUILD}/key"}, Instances: []Instance{{Listen: netip.MustParseAddrPort("127.0.0.1:1")}},
		},
		{Name: "store", Run: []string{"sh", "${DATA}"}, Instances: []Instance{{Listen: netip.MustParseAddrPort("127.0.0.2:2")}}},
	}}
	processes, err := a.Processes("/build", "/data", false)
	if err != nil {
		t.Fatal(err)
	}
	store, front := processes[0], processes[1]
	if store.Name != "store" || store.HTTP || !slices.Equal(store.Args, []string{"/data"}) {
		t.Errorf("first is %+v, want the store", store)
	}
	want := []string{"KEY=/build/key", "LISTEN=127.0.0.1:1", "PATH=" + os.Getenv("PATH"), "STORE_ADDR=127.0.0.2:2"}
	if !slices.Equal(front.Env, want) || !slices.Equal(front.Args, []string{"/x/front"}) || !front.HTTP {
		t.Errorf("second is %+v, want the environment %v", front, want)
	}
}

func TestBadServicesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             "services: []",
		"no address":        "services: [{ name: a, run: [a], instances: [{ listen: '127.0.0.1:1' }] }]",
		"asks nobody known": "services: [{ name: a, address: '127.0.0.1:1', run: [a], asks: [b], instances: [{ listen: '127.0.0.1:1' }] }]",
		"no instance":       "services: [{ name: a, address: '127.0.0.1:1', run: [a] }]",
		"unknown field":     "services: [{ name: a, address: '127.0.0.1:1', runs: [a], instances: [{ listen: '127.0.0.1:1' }] }]",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "services.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
