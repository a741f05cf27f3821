// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/test/await"
)

const noRoom = 9999

// fullAt is the error for a configuration with a cluster b whose endpoint has the port that there is no room for.
func fullAt(cfg *model.Config) error {
	for _, c := range cfg.Clusters {
		if c.Name == "b" && c.Endpoints[0].Address.Port() == noRoom {
			return &reconcile.FullError{Cluster: c.Key(), New: 1, Most: 1}
		}
	}
	return nil
}

// allSay has all views say the same, and waits until that is one cluster.
func (r *viewsRig) allSay(port int) {
	r.t.Helper()
	for _, v := range []string{"", "blue", "red"} {
		if err := r.reload(v, port); err != nil {
			r.t.Fatal(err)
		}
	}
	time.Sleep(sharedApart)
	synctest.Wait()
}

// What there is no room for, however long a view has waited for it, is held alone.
func TestAViewWithoutRoomHoldsNoOther(t *testing.T) {
	for _, tt := range []struct{ full, other string }{{"red", "blue"}, {"blue", "red"}} {
		t.Run(tt.full, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newViewsRig(t)
				r.refuses = fullAt
				r.allSay(8000)
				if err := r.reload(tt.full, noRoom); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if err := r.reload(tt.other, 8400); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if got := r.portsNow()[tt.other]; got != 8400 {
					t.Errorf("ten minutes later %s has %d, says 8400", tt.other, got)
				}
				r.Close()
			})
		})
	}
}

// There is a chance for what is held each second, however often other views change.
func TestAViewWithoutRoomHasItsChanceBesideOneThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.refuses = fullAt
		r.allSay(8000)
		if err := r.reload("blue", noRoom); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if i == 10 {
				r.Exclusive(func() { r.refuses = nil })
			}
			if err := r.reload("red", 8400+i); err != nil {
				t.Fatal(err)
			}
			time.Sleep(mergePace / 5)
			synctest.Wait()
		}
		if got := r.portsNow()["blue"]; got != noRoom {
			t.Errorf("blue has %d though there has been room for two seconds", got)
		}
		r.Close()
	})
}

// There is no room for a second cluster; in place of the one there is.
func TestViewsThatSayTheSameOneAfterAnotherNeedNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(8000)
		r.Exclusive(func() {
			r.refuses = func(cfg *model.Config) error {
				var full error
				for _, c := range cfg.Clusters {
					if port := c.Endpoints[0].Address.Port(); c.Name == "b" && port == 9000 && len(cfg.Clusters) > 2 {
						full = &reconcile.FullError{Cluster: c.Key(), New: 1, Most: 1}
					}
				}
				return full
			}
		})
		for _, view := range []string{"blue", "red", ""} {
			if got := r.portsNow(); got["blue"] != 8000 {
				t.Fatal(got)
			}
			if err := r.reload(view, 9000); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * mergePace)
			synctest.Wait()
		}
		if got := r.portsNow(); got[""] != 9000 || got["blue"] != 9000 || got["red"] != 9000 {
			t.Errorf("ports %v, want 9000 of all", got)
		}
		r.Close()
	})
}

// What a change that failed half way has left in the kernel is known to the next one: it gives no key another content.
func TestWhatAFailedChangeHasLeftIsKnownToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(8000)
		var tried model.ClusterKey
		blue := model.View{Name: "blue"}
		failing := func(cfg *model.Config) error {
			if c := cfg.In(blue).Cluster("b"); c.Endpoints[0].Address.Port() == 9000 {
				tried = c.Key()
			}
			return &reconcile.UnfinishedError{Err: errors.New("the write of a table failed")}
		}
		for _, view := range []string{"blue", "red"} {
			if err := r.reload(view, 9000); err != nil {
				t.Fatal(err)
			}
		}
		r.Exclusive(func() { r.refuses = failing })
		time.Sleep(sharedPatience)
		synctest.Wait()
		r.Exclusive(func() { r.refuses = nil })
		if err := r.reload("blue", 9100); err != nil {
			t.Fatal(err)
		}
		if got := r.last().In(blue).Key("b"); got == tried || tried == (model.ClusterKey{}) || r.portsNow()["blue"] != 9100 {
			t.Errorf("%s was tried with 9000, and %s has %d", tried, got, r.portsNow()["blue"])
		}
		r.Close()
	})
}

// Equal clusters are one at once where there is no room for both.
func TestEqualClustersThatAreApartAreOneWhereThereIsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(8000)
		r.reload("blue", 8100)
		time.Sleep(2 * sharedPatience)
		synctest.Wait()
		r.reload("blue", 8000)
		if n := len(r.last().Clusters); n != 3 {
			t.Fatalf("%d clusters, want 3: blue's is apart for a while", n)
		}
		r.Exclusive(func() {
			r.refuses = func(cfg *model.Config) error {
				if len(cfg.Clusters) > 3 {
					return &reconcile.FullError{Cluster: cfg.In(model.View{Name: "red"}).Key("b"), New: 1, Most: 1}
				}
				return nil
			}
		})
		r.reload("red", 8200)
		time.Sleep(2 * sharedPatience)
		synctest.Wait()
		if got := r.portsNow(); got["red"] != 8200 || got["blue"] != 8000 {
			t.Errorf("ports %v: red's cluster has no room", got)
		}
		r.Close()
	})
}

// newWaitingRig is one whose views blue and red have shared a cluster, until blue says one that there is no room for: it waits for that.
func newWaitingRig(t *testing.T) *viewsRig {
	t.Helper()
	r := newViewsRig(t)
	r.refuses = fullAt
	for _, view := range []string{"blue", "red"} {
		if err := r.reload(view, 8100); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(sharedApart)
	synctest.Wait()
	if err := r.reload("blue", noRoom); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if got := r.portsNow(); got["blue"] != 8100 || got["red"] != 8100 {
		t.Fatal(got)
	}
	return r
}

func TestAViewCanBeRemovedBesideOneWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWaitingRig(t)
		if err := r.Remove([]string{"red"}); err != nil {
			t.Errorf("red cannot be removed: %v", err)
		}
		r.Close()
	})
}

// refuseFull has what fullAt refuses be refused from now on; refused says whether something was.
func (c *controlled) refuseFull() (refused *atomic.Bool) {
	c.Sources.mu.Lock()
	defer c.Sources.mu.Unlock()
	refused = new(atomic.Bool)
	activate := c.cfg.Activate
	c.cfg.Activate = func(cfg *model.Config) error {
		if err := fullAt(cfg); err != nil {
			refused.Store(true)
			return err
		}
		return activate(cfg)
	}
	return refused
}

func awaitRefused(t *testing.T, refused *atomic.Bool) {
	t.Helper()
	await.Within(t, await.Patience, func() string {
		if !refused.Load() {
			return "what there is no room for is not refused"
		}
		return ""
	})
}

// withNewListener are the resources of toPort, and a listener "new" that leads to the cluster.
func withNewListener(t *testing.T, port int) map[string][]types.Resource {
	t.Helper()
	out := toPort(t, port)
	out[resource.ListenerType] = []types.Resource{message[*listenerv3.Listener](t, `{name: new, address: {socket_address: {address: 10.96.0.2, port_value: 80}}, filter_chains: [{filters: [{name: tcp, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: x, cluster: b}}]}]}`)}
	return out
}

// Its cluster stays as it is, as that of a view which shares it with no other.
func TestRoutesAreActiveThoughTheirClusterHasNoRoom(t *testing.T) {
	for _, tt := range []struct {
		name string
		red  int
	}{{"alone", 8200}, {"shared with red", 8100}} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlane(t)
			p.say(t, "blue", "1", toPort(t, 8100))
			p.say(t, "red", "1", toPort(t, tt.red))
			c := newControlled(t, p, map[string]string{"blue": "0s", "red": "0s"})
			c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": uint16(tt.red)})
			refused := c.refuseFull()
			p.say(t, "blue", "2", toPort(t, noRoom))
			awaitRefused(t, refused)
			p.say(t, "blue", "3", withNewListener(t, noRoom))
			await.Within(t, await.Patience, func() string {
				for _, l := range c.last().Listeners {
					if l.Name == "new" {
						return ""
					}
				}
				return fmt.Sprintf("the listener of blue is not in force; refusals: %q", p.refusals("blue"))
			})
		})
	}
}

// The file that it had before said the same, for which the view waited. What the view has instead is what it says from then on, also when a name of another cluster
// has other addresses.
func TestAViewThatComesWithoutRoomDoesNotAskForItAgain(t *testing.T) {
	p := newPlane(t)
	p.say(t, "blue", "1", toPort(t, 8100))
	p.say(t, "red", "1", toPort(t, 8100))
	c := newControlled(t, p, map[string]string{"blue": "0s", "red": "0s"})
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8100})
	refused := c.refuseFull()
	p.say(t, "blue", "2", toPort(t, noRoom))
	awaitRefused(t, refused)
	p.say(t, "green", "1", withNewListener(t, noRoom))
	if err := c.Add(t.Context(), []*Bootstrap{c.another(p, "green", "0s")}); err != nil {
		t.Fatal(err)
	}
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8100})
	// Blue shares the cluster with no other view any more: it waits for none.
	if err := c.Remove([]string{"red"}); err != nil {
		t.Fatal(err)
	}
	if err := c.of("blue").Reactivate(); err != nil {
		t.Errorf("what the view has is refused: %v", err)
	}
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100})
}

// What it says needs no room: it is not refused because of another view that waits for room.
func TestAViewMayChangeBesideOneWithoutRoom(t *testing.T) {
	for _, tt := range []struct {
		name string
		text string
	}{
		{"other policy", `name: b, lb_policy: RANDOM`},
		{"no such cluster", `name: c`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newWaitingRig(t)
				text := strings.Replace(fmt.Sprintf(ofView, 8100), "name: b", tt.text, 1)
				text = strings.Replace(text, "cluster_name: b", "cluster_name: "+tt.text[6:7], 1)
				text = strings.Replace(text, "cluster: b}", "cluster: "+tt.text[6:7]+"}", 1)
				red := r.of("red")
				b, err := Load(t.Context(), File{View: red.cfg.File.View, Path: "red.yaml", Text: []byte(text)})
				if err != nil {
					t.Fatal(err)
				}
				if err := red.replaceBootstrap(b); err != nil {
					t.Errorf("refused: %v", err)
				}
				r.Close()
			})
		})
	}
}

// What is half done is put right, and nothing else has to change for that.
func TestHalfOfARefusedChangeIsPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.Exclusive(func() {
			r.refuses = func(*model.Config) error {
				return &reconcile.UnfinishedError{Err: errors.New("the write of a table failed")}
			}
		})
		if err := r.reload("red", 9000); err == nil {
			t.Fatal("what cannot be written is not refused")
		}
		r.Exclusive(func() { r.refuses = nil })
		before := len(r.active)
		time.Sleep(2 * mergePace)
		synctest.Wait()
		if n := len(r.active) - before; n != 1 || r.portsNow()["red"] != 8200 {
			t.Errorf("%d configurations were put in force since; ports %v", n, r.portsNow())
		}
		r.Close()
	})
}

// A timer that has fired waits for the lock of a change, which begins another timer: there is one from then on.
func TestAMergeThatIsLateBeginsNoSecondTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(8000)
		attempts := 0
		r.Exclusive(func() {
			r.scheduleMerge(time.Now().Add(mergePace))
			r.refuses = func(*model.Config) error { attempts++; return errors.New("no room") }
		})
		for range 5 {
			r.mergeAgain() // as that timer's does, behind the change
		}
		before := attempts
		time.Sleep(10 * mergePace)
		synctest.Wait()
		// The rig calls it twice for each.
		if got := (attempts - before) / 2; got > 11 {
			t.Errorf("%d attempts in ten seconds, want ten", got)
		}
		r.Close()
	})
}

// All views agree on a change in place, which fails half way; there is no room for the content of each under a key of its own. Others change all the same.
func TestAFailedChangeWithoutRoomHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(8000)
		for _, view := range []string{"", "blue"} {
			if err := r.reload(view, 9000); err != nil {
				t.Fatal(err)
			}
		}
		r.Exclusive(func() {
			r.refuses = func(*model.Config) error {
				return &reconcile.UnfinishedError{Err: errors.New("the write of a table failed")}
			}
		})
		if err := r.reload("red", 9000); err == nil {
			t.Fatal("what cannot be written is not refused")
		}
		r.Exclusive(func() { r.refuses = secondIsFull })
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := r.Reactivate(); err != nil {
			t.Errorf("a minute later: %v", err)
		}
		r.Close()
	})
}

// secondIsFull is the error for a configuration in which there are two clusters b or more.
func secondIsFull(cfg *model.Config) error {
	var last *model.Cluster
	for _, c := range cfg.Clusters {
		if c.Name != "b" {
			continue
		}
		if last != nil {
			return &reconcile.FullError{Cluster: c.Key(), New: 1, Most: 1}
		}
		last = c
	}
	return nil
}

// That equal clusters cannot become one is no view's matter: they stay apart.
func TestEqualClustersThatCannotBecomeOneKeepNoViewFromBeingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		r.allSay(8000)
		r.reload("blue", 8100)
		time.Sleep(2 * sharedPatience)
		synctest.Wait()
		r.reload("blue", 8000)
		r.Exclusive(func() {
			r.refuses = func(cfg *model.Config) error {
				if len(cfg.Clusters) < 3 {
					return errors.New("no room for the table")
				}
				return nil
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := r.Reactivate(); err != nil {
			t.Errorf("what is in force is refused: %v", err)
		}
		r.Exclusive(func() { r.refuses = nil })
		time.Sleep(2 * sharedApart)
		synctest.Wait()
		if n := len(r.last().Clusters); n != 2 {
			t.Errorf("%d clusters, want 2: they can become one now", n)
		}
		r.Close()
	})
}
