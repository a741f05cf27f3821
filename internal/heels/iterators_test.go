// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
)

// Some kernels let no iterator run over a map. Connections are listed there all the same, from any thread of the agent.
func TestConnectionsAreListedOfMapsAndOfSockets(t *testing.T) {
	for name, spares := range map[string]bool{"maps": false, "sockets": true} {
		t.Run(name, func(t *testing.T) {
			if !spares && !kernel.ListsMaps() {
				t.Skip("this kernel lets no iterator run over a map")
			}
			sparesMaps = spares
			defer func() { sparesMaps = false }()
			r, client, server := pair(t)
			c := r.connect()
			echo(t, c, 1024)
			for role, a := range map[Role]*Agent{ClientRole: client, ServerRole: server} {
				conns, err := a.Connections()
				if err != nil || len(conns) != 1 {
					t.Fatalf("%s: %d connections, %v; want one", role, len(conns), err)
				}
				if one := conns[0]; one.Role != role || one.State != Direct || one.TCP != "established" || one.foreign || one.VIP.String() != testVIP+":80" {
					t.Errorf("%s: %+v", role, one)
				}
			}
		})
	}
}

// Where the kernel shows connections of one network namespace alone, a list made elsewhere is an error, and not empty: programs would be taken away from
// under connections.
func TestConnectionsOfAnotherNamespaceAreAnError(t *testing.T) {
	sparesMaps = true
	defer func() { sparesMaps = false }()
	r, _, _ := pair(t)
	r.connect()
	k, err := Open(r.client.pin)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var pin *pins.Error
	if conns, err := k.Connections(); !errors.As(err, &pin) || !strings.Contains(err.Error(), "nsenter") {
		t.Errorf("%d connections, error %v; want one that says where to ask", len(conns), err)
	}
	if _, err := k.Status(); !errors.As(err, &pin) {
		t.Errorf("status: error %v, want that connections cannot be seen", err)
	}
	if err := k.Detach(false); !errors.As(err, &pin) {
		t.Errorf("detach: error %v, want that connections cannot be seen", err)
	}
	heelstest.Within(t, r.client.NS, func() error {
		own, err := Open(r.client.pin)
		if err != nil {
			return err
		}
		defer own.Close()
		conns, err := own.Connections()
		if err == nil && len(conns) != 1 {
			err = errors.New("the connection is not listed in its own namespace")
		}
		return err
	})
}
