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
	r := newRetries()
	at := func(n int) netns.Inode { return netns.Inode{Number: uint64(n)} }
	r.fail(at(1), 11, "a", nil, now)
	r.fail(at(2), 0, "a", nil, now)
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
	r.fail(at(1), 12, "a", nil, now)
	if got := r.byInode[at(1)].pause; got != firstRetry {
		t.Errorf("a new namespace waits %v, want %v", got, firstRetry)
	}
	for i := range 2 * maxRetries {
		r.fail(at(i), 1, "b", nil, now)
	}
	if n := len(r.byInode); n != maxRetries || r.of["a"]+r.of["b"] != n {
		t.Errorf("%d namespaces are remembered, want %d at most; of makers: %v", n, maxRetries, r.of)
	}
	r.keep(nil)
	if len(r.byInode)+len(r.of) != 0 {
		t.Errorf("%d namespaces of %v are remembered, want none", len(r.byInode), r.of)
	}
}

func TestOneMakersFailuresKeepOthersFromNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := newRetries()
	at := func(n int) netns.Inode { return netns.Inode{Number: uint64(n)} }
	for i := range maxRetriesOfOne {
		if !r.mayTry(at(i), "a") {
			t.Fatalf("namespace %d may not be tried", i)
		}
		r.fail(at(i), 1, "a", nil, now)
	}
	if r.mayTry(at(maxRetriesOfOne), "a") {
		t.Error("another one of the maker's is tried")
	}
	if !r.mayTry(at(0), "a") {
		t.Error("one that has waited is not tried again")
	}
	if !r.mayTry(at(maxRetriesOfOne), "b") {
		t.Error("another maker's is not tried")
	}
	r.drop(at(0))
	if !r.mayTry(at(maxRetriesOfOne), "a") {
		t.Error("another one of the maker's is not tried where one has gone")
	}
}
