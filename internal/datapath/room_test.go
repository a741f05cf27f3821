// SPDX-License-Identifier: Apache-2.0

package datapath

import "testing"

// A reload writes a virtual host's domains anew before it takes the old ones away.
func TestThereIsRoomForTheHostsOfAllVirtualHostsTwice(t *testing.T) {
	spec, err := loadXlb()
	if err != nil {
		t.Fatal(err)
	}
	hosts, vhosts := spec.Maps["hosts"], spec.Maps["vhosts"]
	if hosts == nil || vhosts == nil {
		t.Fatal("the object lacks the maps")
	}
	if hosts.MaxEntries < 2*vhosts.MaxEntries {
		t.Errorf("room for %d hosts, want twice the %d virtual hosts", hosts.MaxEntries, vhosts.MaxEntries)
	}
}

// A connection of the fast path has at most one entry in each; those that outlive their socket for a while stand beside.
func TestThereIsRoomForTheStateOfAllConnections(t *testing.T) {
	spec, err := loadXlb()
	if err != nil {
		t.Fatal(err)
	}
	connections, servers := spec.Maps["psocks"].MaxEntries, spec.Maps["ssocks"].MaxEntries
	if n := spec.Maps["slow_conns"].MaxEntries; n < 2*connections {
		t.Errorf("room for %d connections on the slow path, want twice the %d p-socks", n, connections)
	}
	if n := spec.Maps["receive_sequences"].MaxEntries; n < connections+2*servers {
		t.Errorf("room for what %d sockets receive, want the %d p-socks and twice the %d s-socks", n, connections, servers)
	}
}
