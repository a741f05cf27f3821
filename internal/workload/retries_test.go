// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/netns"
)

func TestRetries(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := retries{}
	at := func(n int) netns.Inode { return netns.Inode{Number: uint64(n)} }
	r.fail(at(1), 11, nil, now)
	r.fail(at(2), 0, nil, now)
	for _, tt := range []struct {
		inode  int
		cookie uint64
		want   bool
	}{{1, 11, true}, {1, 0, true}, {1, 12, false}, {2, 22, true}, {3, 33, false}} {
		if got := r.mustWait(at(tt.inode), tt.cookie, now.Add(firstRetry-1)); got != tt.want {
			t.Errorf("namespace %d with cookie %d waits: %v, want %v", tt.inode, tt.cookie, got, tt.want)
		}
	}
	if r.mustWait(at(1), 11, now.Add(firstRetry)) {
		t.Error("waits behind its pause")
	}
	// Another namespace has got the inode.
	r.fail(at(1), 12, nil, now)
	if got := r[at(1)].pause; got != firstRetry {
		t.Errorf("a new namespace waits %v, want %v", got, firstRetry)
	}
	for i := range 2 * maxRetries {
		r.fail(at(i), 1, nil, now)
	}
	if len(r) != maxRetries {
		t.Errorf("%d namespaces are remembered, want %d at most", len(r), maxRetries)
	}
}
