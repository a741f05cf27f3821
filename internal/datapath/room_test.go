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
