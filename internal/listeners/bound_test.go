// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
)

// binding is a Bound whose sockets cannot be opened while fault is set.
type binding struct {
	*Bound
	fault error
	log   strings.Builder
	asked []netip.AddrPort
	moved [][]netip.Addr
}

func newBinding() *binding {
	b := &binding{}
	b.Bound = NewBound(Config{
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Bind: func(address netip.AddrPort, _ anchor.BoundTo) (*anchor.Bound, error) {
			b.asked = append(b.asked, address)
			if b.fault != nil {
				return nil, b.fault
			}
			return &anchor.Bound{}, nil
		},
		Indices: func() map[model.ListenerName]uint32 {
			return map[model.ListenerName]uint32{model.SharedListener("web"): 1}
		}, MaxConnections: func() uint64 { return 2 },
		AddressesChanged: func(own []netip.Addr) { b.moved = append(b.moved, own) }, Spawn: func(f func()) { f() },
	})
	return b
}

var (
	webAddress = netip.MustParseAddrPort("127.80.0.1:80")
	webConfig  = &model.Config{Listeners: []*model.Listener{{Name: "web", Address: webAddress, Bound: true}}}
)

func TestAnotherAddressOfTheHostIsReported(t *testing.T) {
	t.Parallel()
	b := newBinding()
	other := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	b.own = other
	b.Tend()
	if b.HasSockets() || len(b.moved) != 0 {
		t.Fatalf("without a bound listener: reported %v", b.moved)
	}
	if err := b.Apply(webConfig); err != nil || !b.HasSockets() {
		t.Fatalf("apply: %v; has sockets: %v", err, b.HasSockets())
	}
	b.own = other
	b.Tend()
	b.Tend()
	if len(b.moved) != 1 || slices.Equal(b.moved[0], other) {
		t.Errorf("reported %v, want the addresses of this host, once", b.moved)
	}
}

func TestAListenerThatCannotBeBoundIsRetried(t *testing.T) {
	t.Parallel()
	b := newBinding()
	b.fault = errors.New("address already in use")
	if err := b.Apply(webConfig); err == nil || !strings.Contains(err.Error(), `listener "web"`) {
		t.Errorf("got %v, want the name of the listener", err)
	}
	if s := b.State(webAddress); s != b.fault.Error() {
		t.Errorf("state %q, want the fault", s)
	}
	b.Tend()
	if n := strings.Count(b.log.String(), "binding a listener failed"); n != 1 {
		t.Errorf("the log has it %d times, want once: %s", n, &b.log)
	}
	b.fault = nil
	b.Tend()
	if s := b.State(webAddress); s != "not yet" || len(b.asked) != 3 {
		t.Errorf("state %q behind %d tries", s, len(b.asked))
	}
}

func TestBoundListenersHaveTheAddressesOfTheHost(t *testing.T) {
	t.Parallel()
	b := newBinding()
	b.own = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	first := b.AddOwnAddresses(webConfig).Listeners[0]
	if want := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:80")}; !slices.Equal(first.Own, want) {
		t.Errorf("own addresses %v, want %v", first.Own, want)
	}
	if again := b.AddOwnAddresses(webConfig).Listeners[0]; again != first {
		t.Error("the same listener is another one, for those who compare pointers")
	}
	if len(webConfig.Listeners[0].Own) != 0 {
		t.Error("the configuration itself has been changed")
	}
	if !b.Admits(1) || b.Admits(2) {
		t.Error("the bound of connections is not 2")
	}
}
