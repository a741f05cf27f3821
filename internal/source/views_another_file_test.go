// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/test/await"
)

// another is a bootstrap of view blue that has all from the control plane, as that node, and waits for it for so long.
func (c *controlled) another(p *plane, node, patience string) *Bootstrap {
	c.t.Helper()
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := Load(c.t.Context(), File{View: model.View{Number: 1, Name: "blue"}, Path: "another.yaml", Text: fmt.Appendf(nil, fromServer, node, patience, patience, port)})
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func newBlueAndRed(t *testing.T) (*plane, *controlled) {
	t.Helper()
	p := newPlane(t)
	p.say(t, "blue", "1", toPort(t, 8100))
	p.say(t, "red", "1", toPort(t, 8200))
	c := newControlled(t, p, map[string]string{"blue": "0s", "red": "0s"})
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
	return p, c
}

// A view that has another file is served by the one before until there is what the new one reads: at no time it is without a configuration.
func TestAViewIsServedWhileItsOtherFileIsMadeReady(t *testing.T) {
	p, c := newBlueAndRed(t)
	p.say(t, "green", "1", toPort(t, 8300))
	activate := c.cfg.Activate
	c.cfg.Activate = func(cfg *model.Config) error {
		if ports(cfg)["blue"] == 0 {
			t.Error("a configuration is put in force that has nothing of the view")
		}
		return activate(cfg)
	}
	if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0s")}); err != nil {
		t.Fatal(err)
	}
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8300, "red": 8200})
	p.say(t, "green", "2", toPort(t, 8301))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8301, "red": 8200})
}

// Where the server of the other file says nothing, the view has nothing in force once that has had its time, and has it when the server says something.
func TestAViewIsReplacedByAFileWithoutAnAnswerInTime(t *testing.T) {
	p, c := newBlueAndRed(t)
	if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0.2s")}); err != nil {
		t.Fatal(err)
	}
	c.awaitPorts(map[string]uint16{"": 8000, "red": 8200})
	p.say(t, "green", "1", toPort(t, 8300))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8300, "red": 8200})
}

// The end of the daemon ends the waiting, and puts nothing in force.
func TestAViewThatIsMadeReadyAtTheEndChangesNothing(t *testing.T) {
	p, c := newBlueAndRed(t)
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := c.Add(ctx, []*Bootstrap{c.another(p, "green", "0s")}); !errors.Is(err, shutdown.ErrEnding) {
		t.Errorf("got %v, want %v", err, shutdown.ErrEnding)
	}
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
}

// An attempt that has ended waits for no server: the view may be silent for good.
func TestAnAttemptThatEndsWaitsNoLonger(t *testing.T) {
	p, c := newBlueAndRed(t)
	attempt, end := context.WithCancel(t.Context())
	added := make(chan error, 1)
	go func() { added <- c.AddWhile(t.Context(), attempt, []*Bootstrap{c.another(p, "silent", "0s")}) }()
	await.Within(t, await.Patience, func() string {
		if !slices.Contains(p.nodes(resource.ClusterType), "silent") {
			return "the server is not asked"
		}
		return ""
	})
	end()
	if err := <-added; !errors.Is(err, shutdown.ErrEnding) {
		t.Errorf("got %v, want %v", err, shutdown.ErrEnding)
	}
	if strings.Contains(c.log.String(), "going on without a part") {
		t.Errorf("it has waited as long as a view waits:\n%s", c.log.String())
	}
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
}

// roomless refuses configurations in which the cluster b of view blue has its endpoint at that port: there is no room for it.
func (c *controlled) roomless(port uint16) {
	activate := c.cfg.Activate
	c.cfg.Activate = func(cfg *model.Config) error {
		if ports(cfg)["blue"] == port {
			return &reconcile.FullError{Cluster: model.ClusterKey{View: "blue", Name: "b"}, New: 1, Most: 1}
		}
		return activate(cfg)
	}
}

// refusalOf is what is wrong with the configuration of a view as a whole; nil: it is all in force.
func (c *controlled) refusalOf(view string) *admin.Refusal {
	for _, o := range c.Origins() {
		if o.View == view && o.Kind == admin.WholeConfiguration {
			return o.Refusal
		}
	}
	return nil
}

// A cluster that there is no room for stays as the view had it, and keeps nothing else of what comes from being put in force.
func TestAViewComesWithoutTheClusterThatThereIsNoRoomFor(t *testing.T) {
	p, c := newBlueAndRed(t)
	p.say(t, "green", "1", toPort(t, 8300))
	c.roomless(8300)
	if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0s")}); err != nil {
		t.Fatal(err)
	}
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
	if log := c.log.String(); !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, "endpoints refused") && strings.Contains(line, "view=blue")
	}) {
		t.Errorf("the log does not say so:\n%s", log)
	}
	if r := c.refusalOf("blue"); r == nil || len(r.Problems) != 1 || r.Problems[0].Resource != "b" {
		t.Errorf("shown as refused: %+v, want cluster b", r)
	}
	if r := c.refusalOf("red"); r != nil {
		t.Errorf("another view shows %+v", r)
	}
	if node := c.of("blue").dynamic.bootstrap.Load().Dynamic.Node.GetId(); node != "green" {
		t.Errorf("the view is node %s, want green", node)
	}
}

// A view that has come without a cluster follows its server with all others, and has the cluster once there is room.
func TestAViewWithoutRoomForOneClusterFollowsItsServer(t *testing.T) {
	p, c := newBlueAndRed(t)
	full := toPort(t, 8300)
	p.say(t, "green", "1", full)
	c.roomless(8300)
	if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0s")}); err != nil {
		t.Fatal(err)
	}
	other := proto.Clone(full[resource.ClusterType][0].(*clusterv3.Cluster)).(*clusterv3.Cluster)
	other.Name, other.LoadAssignment.ClusterName = "other", "other"
	p.say(t, "green", "2", map[string][]types.Resource{resource.ClusterType: {full[resource.ClusterType][0], other}})
	await.Within(t, await.Patience, func() string {
		if c.last().In(model.View{Number: 1, Name: "blue"}).Cluster("other") == nil {
			return "another cluster of the view is not in force: " + c.log.String()
		}
		return ""
	})
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
	p.say(t, "green", "3", toPort(t, 8301))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8301, "red": 8200})
	await.Within(t, await.Patience, func() string {
		if r := c.refusalOf("blue"); r != nil {
			return fmt.Sprintf("still shown as refused: %+v", r)
		}
		return ""
	})
}

// Counters are sums over all views, and never become smaller: neither when a view has another file, nor when one goes.
func TestCountersOfViewsThatHaveGoneStay(t *testing.T) {
	p, c := newBlueAndRed(t)
	p.say(t, "green", "1", toPort(t, 8300))
	c.of("red").intake.Refuse(c.of("red").bootstrapKey(), intake.RefusalOf(errors.New("wrong")), false)
	const updates = "cluster_manager.cds.update_success"
	refused := func() (n uint64) {
		for _, o := range c.OriginsByKind() {
			if o.Kind == "bootstrap" {
				n = o.Refused
			}
		}
		return n
	}
	if got := c.DynamicStats()[updates]; got != 2 || refused() != 1 {
		t.Fatalf("%d updates and %d refusals, want 2 and 1", got, refused())
	}
	if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0s")}); err != nil {
		t.Fatal(err)
	}
	if got := c.DynamicStats()[updates]; got != 3 {
		t.Errorf("%d updates with another file, want 3", got)
	}
	if err := c.Remove([]string{"red"}); err != nil {
		t.Fatal(err)
	}
	if got := c.DynamicStats(); got[updates] != 3 || got["control_plane.connected_state"] != 1 {
		t.Errorf("%d updates without a view, and a connection state %d, want 3 and 1", got[updates], got["control_plane.connected_state"])
	}
	if got := refused(); got != 1 {
		t.Errorf("%d refusals without a view, want 1", got)
	}
}

// A scrape while another file of a view is put in force, or refused, has no count that is smaller at the next one. Secrets of that file are found meanwhile.
func TestCountersStayWhileAViewHasAnotherFile(t *testing.T) {
	for name, refusal := range map[string]error{"that is refused": errors.New("no"), "that is taken": nil} {
		t.Run(name, func(t *testing.T) {
			p, c := newBlueAndRed(t)
			p.say(t, "green", "1", toPort(t, 8300))
			former := c.of("blue")
			former.intake.Refuse(former.bootstrapKey(), intake.RefusalOf(errors.New("wrong")), false)
			counters := func() map[string]uint64 {
				out := metrics.CountersOf(c.DynamicStats())
				for _, o := range c.OriginsByKind() {
					out[o.Kind+" of "+o.Source] = o.Refused
				}
				return out
			}
			activate := c.cfg.Activate
			var meanwhile map[string]uint64
			var asked *Source
			c.cfg.Activate = func(cfg *model.Config) error {
				if ports(cfg)["blue"] != 8300 {
					return activate(cfg)
				}
				meanwhile, asked = counters(), c.secretsOf("blue")
				if refusal != nil {
					return refusal
				}
				return activate(cfg)
			}
			before := counters()
			if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0s")}); !errors.Is(err, refusal) {
				t.Fatal(err)
			}
			if asked == former || asked == nil {
				t.Error("what is about to be in force would have the secrets of the former file")
			}
			after := counters()
			for name, n := range meanwhile {
				if n < before[name] || after[name] < n {
					t.Errorf("%s was %d, then %d, and is %d", name, before[name], n, after[name])
				}
			}
			if now := c.secretsOf("blue"); now != c.of("blue") || (now == former) != (refusal != nil) {
				t.Error("secrets are those of a file that is not in force")
			}
		})
	}
}

// Many views may come together, of a template for one, and have one cluster without room: that takes one more attempt, and not one for each.
func TestAClusterWithoutRoomIsLeftOutOfAllViewsThatComeTogether(t *testing.T) {
	r := newViewsRig(t)
	file := filepath.Join(t.TempDir(), "cds.yaml")
	const big = `resources:
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: big, load_assignment: {cluster_name: big, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.3, port_value: 80}}}}]}]}}
`
	if err := os.WriteFile(file, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	r.refuses = func(cfg *model.Config) error {
		attempts++
		for _, c := range cfg.Clusters {
			if c.Name == "big" && len(c.Endpoints) > 0 {
				return &reconcile.FullError{Cluster: c.Key(), New: 1, Most: 1}
			}
		}
		return nil
	}
	var all []*Bootstrap
	for i := range 20 {
		text := fmt.Sprintf(ofView, 8300) + fmt.Sprintf("node: {id: n%d, cluster: c}\ndynamic_resources: {cds_config: {resource_api_version: V3, path_config_source: {path: %s}}}\n", i, file)
		b, err := Load(t.Context(), File{View: model.View{Number: uint32(10 + i), Name: fmt.Sprintf("t/%d", i)}, Path: "b.yaml", Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if err := r.Add(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	// The rig asks twice why one is refused.
	if attempts > 4 {
		t.Errorf("%d attempts for 20 views", attempts)
	}
	for _, b := range all {
		if c := r.last().In(b.file.View).Cluster("big"); c == nil || len(c.Endpoints) > 0 {
			t.Errorf("view %s has %+v", b.file.View.Name, c)
		}
	}
}
