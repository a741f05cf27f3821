// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
)

// observed keeps the last report.
type observed struct{ atomic.Pointer[Report] }

// Observe implements Observer.
func (o *observed) Observe(r Report) { o.Store(&r) }

// await returns when the last request is reported for a cluster: the client may have its answer before.
func (o *observed) await(t *testing.T, want model.ClusterKey) {
	t.Helper()
	await.Quiet(t, func() string {
		if got := o.Load(); got == nil || got.Cluster != want {
			return fmt.Sprintf("the last report: %+v, want one for %s", got, want)
		}
		return ""
	})
}

// What a request's header names as its cluster is a cluster of the listener's view, or there is no such cluster: a client cannot reach another view's by its name.
func TestAHeaderNamesNoClusterOfAnotherView(t *testing.T) {
	served := httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	blue := model.View{Number: 1, Name: "blue"}
	seen := &observed{}
	f := newFront(t, list(served), func(c *Config, r *model.Route) {
		r.Clusters = []model.WeightedCluster{{Header: "x-cluster", Weight: 1}}
		of := activeOf(c)
		of.view = blue
		of.cluster = func(name string) *model.Cluster {
			if name != "c" {
				return nil
			}
			return &model.Cluster{View: blue, Name: name, ConnectTimeout: 2 * time.Second}
		}
		of.others = func(key model.ClusterKey) *model.Cluster {
			return &model.Cluster{View: model.View{Number: 2, Name: key.View}, Name: key.Name, ConnectTimeout: 2 * time.Second}
		}
		c.Observer = seen
	})
	for _, tt := range []struct{ named, status string }{
		{"c", "200"},
		{"other", "503"},
		{"c of view red", "503"},
	} {
		answer := f.exchange(fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nX-Cluster: %s\r\nConnection: close\r\n\r\n", tt.named))
		if !strings.HasPrefix(answer, "HTTP/1.1 "+tt.status) {
			t.Errorf("cluster %q: got %.40q, want %s", tt.named, answer, tt.status)
		}
		if tt.status == "200" {
			seen.await(t, model.ClusterKey{View: "blue", Name: "c"})
		}
	}
}

// The kernel leads clients to a new listener a moment before the slow path knows it. Requests of such a connection go to clusters of the listener's view, and not to
// those of the shared one that have their names.
func TestAConnectionThatIsFasterThanItsListenersConfigurationSeesItsView(t *testing.T) {
	served := httpEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	seen, blue := &observed{}, model.View{Number: 1, Name: "blue"}
	var known atomic.Pointer[configuration]
	var whole *configuration
	f := newFront(t, list(served), func(c *Config, _ *model.Route) {
		whole = activeOf(c)
		whole.view, whole.others = blue, func(key model.ClusterKey) *model.Cluster {
			return &model.Cluster{Name: key.Name, ConnectTimeout: 2 * time.Second}
		}
		of := *whole
		whole.cluster = func(name string) *model.Cluster {
			return &model.Cluster{View: blue, Name: name, ConnectTimeout: 2 * time.Second}
		}
		of.view, of.routes = model.View{}, nil
		known.Store(&of)
		c.Active, c.Observer = func() Configuration { return known.Load() }, seen
	})
	conn := f.dial()
	answers := bufio.NewReader(conn)
	for _, want := range []int{http.StatusNotFound, http.StatusOK} {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil || answer.StatusCode != want {
			t.Fatalf("got %+v, %v, want %d", answer, err, want)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		known.Store(whole)
	}
	seen.await(t, model.ClusterKey{View: "blue", Name: "c"})
}

// A claim of the kernel's on an endpoint of another view's cluster holds for no route, whatever the cluster's name.
func TestAClaimIsForClustersOfItsViewAlone(t *testing.T) {
	route := &model.Route{Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}
	for _, tt := range []struct {
		key  model.ClusterKey
		want bool
	}{
		{model.ClusterKey{View: "blue", Name: "c"}, true},
		{model.ClusterKey{View: "blue", Name: "d"}, false},
		{model.SharedCluster("c"), false},
		{model.ClusterKey{View: "red", Name: "c"}, false},
	} {
		claim := &Claim{Cluster: tt.key}
		if got := claim.share(model.ClusterKey{View: "blue", Name: tt.key.Name}, route, nil) != nil; got != tt.want {
			t.Errorf("a claim on %s: taken %t, want %t", tt.key, got, tt.want)
		}
	}
}
