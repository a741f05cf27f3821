// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/lab"
)

func TestApplicationsAreMeasuredByNameOnOneHost(t *testing.T) {
	for _, name := range Apps {
		o := validOptions()
		o.Case, o.AppUsers = name, []int{2, 8}
		if err := o.Validate(somePeers); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]Load{UsedBy(name, 2), UsedBy(name, 8)}, o.Loads()); diff != "" {
			t.Errorf("case %s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff([]lab.Topology{lab.SameHost}, o.Topologies()); diff != "" {
			t.Errorf("topologies (-want +got):\n%s", diff)
		}
		o.Topology = string(lab.CrossHost)
		if err := o.Validate(somePeers); err == nil || !strings.Contains(err.Error(), "--topology") {
			t.Errorf("case %s on two hosts: %v", name, err)
		}
	}
	o := validOptions()
	o.AppUsers = []int{1}
	if err := o.Validate(somePeers); err == nil || !strings.Contains(err.Error(), "--app-users") {
		t.Errorf("one user: %v", err)
	}
}

// somePeers are the names that --peers may have.
var somePeers = []string{"direct", "xlb"}

func validOptions() Options {
	return Options{
		Topology: All, Case: All, Connections: []int{1, 32}, ShortConnections: []int{8}, Rounds: 1,
		WebSocketConnections: []int{1, 100}, Messages: []int{16, 1024},
		Routes: []int{1, 10}, RouteKinds: []string{ByPath, ByRegex}, RouteConnections: 8, LeastRate: LeastRate, AppUsers: []int{2},
		Peers: []string{All}, Duration: time.Second, Output: outputText, Generators: []string{Wrk}, Scale: defaultScale(),
	}
}

func TestOptionsNameEveryBadFlag(t *testing.T) {
	if err := validOptions().Validate(somePeers); err != nil {
		t.Fatalf("valid options: %v", err)
	}
	bad := Options{
		Topology: "near", Case: "long", Output: "xml", Peers: []string{"squid"}, Connections: []int{0},
		Messages: []int{1 << 20}, Routes: []int{0}, RouteKinds: []string{"colour"}, Rounds: -1, Duration: 1500 * time.Millisecond, Warmup: -time.Second, Body: -1,
	}
	err := bad.Validate(somePeers)
	if err == nil {
		t.Fatal("validate() accepts everything")
	}
	for _, flag := range []string{
		"topology", "case", "output", "peers", "connections", "short-connections", "websocket-connections", "messages", "routes", "route-kinds", "route-connections", "least-rate", "rounds", "duration", "warmup", "body",
	} {
		if !strings.Contains(err.Error(), "--"+flag+" ") {
			t.Errorf("validate() does not mention --%s: %v", flag, err)
		}
	}
}

func TestLoadsFollowTheCase(t *testing.T) {
	kept := []Load{KeptAlive(1), KeptAlive(32)}
	once := []Load{ShortLived(8)}
	setup := []Load{{Case: Setup, Connections: 8}}
	routes := []Load{
		ThroughRoutes(8, ByPath, 1), ThroughRoutes(8, ByPath, 10), ThroughRoutes(8, ByRegex, 1), ThroughRoutes(8, ByRegex, 10),
	}
	messages := []Load{WithMessages(1, 16), WithMessages(100, 16), WithMessages(1, 1024), WithMessages(100, 1024)}
	least := []Load{LeastLoaded(OfTwo, LeastRate), LeastLoaded(OfAll, LeastRate)}
	for name, want := range map[string][]Load{
		Least: least, Keepalive: kept, Short: once, Setup: setup, Routes: routes, WebSocket: messages, All: slices.Concat(kept, once, setup, routes, messages, least, validOptions().scaleLoads()),
	} {
		o := validOptions()
		o.Case = name
		if diff := cmp.Diff(want, o.Loads()); diff != "" {
			t.Errorf("case %s (-want +got):\n%s", name, diff)
		}
	}
}
