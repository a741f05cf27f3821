// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"testing"
)

func TestWhatIsExcessive(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, tt := range []struct {
		name string
		u    usage
		want bool
	}{
		{"nothing but what is live", usage{live: 10 * mb, objects: 10 * mb}, false},
		{"a little of a small heap", usage{live: mb, objects: 3 * mb, free: mb}, false},
		{"much of a small heap", usage{live: mb, objects: 3 * mb, free: 3 * mb}, true},
		{"garbage alone", usage{live: 10 * mb, objects: 15 * mb}, true},
		{"free memory alone", usage{live: 10 * mb, objects: 10 * mb, free: 5 * mb}, true},
		{"a quarter of a large heap", usage{live: 100 * mb, objects: 110 * mb, free: 15 * mb}, false},
		{"more than a quarter", usage{live: 100 * mb, objects: 110 * mb, free: 16 * mb}, true},
		{"less than at the last collection", usage{live: 100 * mb, objects: 10 * mb}, false},
	} {
		if got := tt.u.isExcessive(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What has been given back is not to be given back again each minute.
func TestMemoryIsReturnedOnce(t *testing.T) {
	leaveGarbage(64 << 20)
	// The runtime has one each two minutes at least.
	runtime.GC()
	if !IsExcessive() {
		t.Fatal("64 MiB of garbage are not excessive")
	}
	Return()
	if IsExcessive() {
		t.Error("it is excessive still")
	}
}

// leaveGarbage allocates so many bytes, uses them, and leaves them.
func leaveGarbage(bytes int) {
	garbage := make([]byte, bytes)
	for i := 0; i < len(garbage); i += 4096 {
		garbage[i] = 1
	}
	runtime.KeepAlive(garbage)
}
