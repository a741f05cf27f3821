// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/workload"
)

func TestTablesHaveAPartOfTheDescriptors(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		files, requests, idle int
		isocks, namespaces    int
		connections           uint32
	}{
		{"usual", 1 << 20, 1 << 18, 1 << 17, 1<<17 - ownFiles, 87381, 1 << 18},
		{"few", 1024, 256, 128, 32, 85, 512},
		{"next to none", 20, 16, 16, 16, 16, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := maxConnections(tt.files, 1<<18); got != tt.connections {
				t.Errorf("%d connections, want %d", got, tt.connections)
			}
			if requests, idle := maxRequests(tt.files), maxIdle(tt.files); requests != tt.requests || idle != tt.idle {
				t.Errorf("%d requests, %d idle; want %d, %d", requests, idle, tt.requests, tt.idle)
			}
			if got := maxISocks(tt.files); got != tt.isocks {
				t.Errorf("descriptors for i-socks: got %d, want %d", got, tt.isocks)
			}
			if got := maxNamespaces(tt.files); got != tt.namespaces {
				t.Errorf("namespaces: got %d, want %d", got, tt.namespaces)
			}
		})
	}
}

func TestTheHostAloneHasAsManyEntriesAsItNeeds(t *testing.T) {
	table := tableOf(2)
	for range 5 {
		if !table.Take(workload.Host) {
			t.Fatalf("an entry was refused of %+v", table.Usage())
		}
	}
	table.SetShared(true)
	if table.Take(workload.Host) || table.Usage().Size != 2 {
		t.Errorf("another entry was taken beside others: %+v", table.Usage())
	}
}

// Of a daemon with next to no descriptors each table has a few all the same.
func TestTablesHaveNoMoreDescriptorsThanThereAre(t *testing.T) {
	for _, files := range []int{1024, 4096, 20000, 65536, 1 << 20} {
		all := int(maxConnections(files, 1<<18)) + maxRequests(files) + maxIdle(files) + maxISocks(files)
		if most := files + files/32; all > most {
			t.Errorf("entries of a daemon with %d descriptors: %d, want %d at most", files, all, most)
		}
	}
}

func TestDescriptorsAreThoseOfTheSoftLimit(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if got, err := descriptors(); err != nil || uint64(got) != min(limit.Cur, 1<<31-1) {
		t.Errorf("got %d, %v; want %d", got, err, limit.Cur)
	}
}
