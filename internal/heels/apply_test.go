// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// parse reads a configuration for an interface.
func parse(t *testing.T, device, text string) *settings.Config {
	t.Helper()
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: ["+device+"]\ncgroup: "+testCgroup+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An agent may end at any step. A VIP that takes the number of one that has gone is never judged by that one's prefixes.
func TestAVIPIsNotJudgedByAnothersPrefixes(t *testing.T) {
	const one = `server:
  address: 10.77.2.1
  vips: [{ vip: 10.77.0.200:80, port: 8080, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }]
`
	l := newLab(t, one, "10.77.2.1:8080")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	// Behind the VIPs and before what is stale, so that everything ends there.
	l.maps.HeelsClientList.Close()
	other := parse(t, "lo", strings.NewReplacer("10.77.0.200", "10.77.0.100", "10.77.3.0/24", "10.77.4.0/24").Replace(one))
	if err := l.apply(other); err == nil {
		t.Fatal("the configuration is in force whole: the test shows nothing")
	}
	if _, verdicts := l.run(t, l.hooks.ServerIngress, rewritten.packet()); verdicts["decline_client"] != 1 {
		t.Errorf("verdicts %v, want decline_client", verdicts)
	}
}

// As many prefixes as there may be can be exchanged for as many others.
func TestAllPrefixesMayChange(t *testing.T) {
	full := func(second int) *settings.Config {
		var clients []string
		// One of them is the balancers'.
		for i := range kernel.MaxPrefixes - 1 {
			clients = append(clients, fmt.Sprintf("10.%d.%d.%d/32", second, i>>8, i&0xff))
		}
		return parse(t, "lo", "server:\n  address: 10.77.2.1\n  vips: [{ vip: 10.77.0.100:80, port: 8080, mode: rewritten, balancers: [10.77.1.0/24], clients: ["+strings.Join(clients, ", ")+"] }]\n")
	}
	l := newLab(t, labText)
	for second := range 3 {
		if err := l.apply(full(second)); err != nil {
			t.Fatal(err)
		}
	}
	var (
		key   kernel.Prefix
		value uint8
		n     int
	)
	for entries := l.maps.HeelsPrefixes.Iterate(); entries.Next(&key, &value); {
		n++
	}
	if n != kernel.MaxPrefixes {
		t.Errorf("%d prefixes are in force, want %d", n, kernel.MaxPrefixes)
	}
}
