// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

func TestResponsesThatMayBeRetriedAreTheDaemons(t *testing.T) {
	const kept, limited = uint8(maps.RetryKept), uint8(maps.RetryKept | maps.RetryLimited)
	answer := func(status, fields string) string {
		return "HTTP/1.1 " + status + " X\r\nContent-Length: 0\r\n" + fields + "\r\n"
	}
	const says = "X-Envoy-RateLimited: true\r\n"
	tests := []struct {
		name, head string
		// retry is the slot's before the head was read, and left what it is then.
		retry, left uint8
		want        maps.Verdict
	}{
		{"no policy", answer("503", ""), 0, 0, maps.VerdictOk},
		{"a status of the set", answer("503", ""), kept, kept, maps.VerdictSpillRetry},
		{"the first status of all", "HTTP/1.1 100 X\r\n\r\n", kept, 0, maps.VerdictOk},
		{"the last one", answer("599", ""), kept, kept, maps.VerdictSpillRetry},
		{"another status", answer("200", ""), kept, 0, maps.VerdictOk},
		{"an interim response", "HTTP/1.1 103 X\r\n\r\n", kept, 0, maps.VerdictOk},
		{"a status of which the daemon knows", answer("799", ""), kept, kept, maps.VerdictSpillFraming},
		{"an answer that closes", answer("503", "Connection: close\r\n"), kept, kept, maps.VerdictSpillRetry},
		{"another one that closes", answer("200", "Connection: close\r\n"), kept, 0, maps.VerdictSpillConnectionOption},
		{"a body until the end", "HTTP/1.1 503 X\r\n\r\n", kept, kept, maps.VerdictSpillRetry},
		{"half a head", "HTTP/1.1 200 X\r\nContent-Len", kept, kept, maps.VerdictSpillFraming},
		{"no HTTP", "garbage\r\n\r\n", kept, kept, maps.VerdictSpillFraming},
		{"too much, unasked", answer("503", says), kept, 0, maps.VerdictOk},
		{"too much, asked", answer("503", says), limited, limited, maps.VerdictSpillRetry},
		{"too much, of any status", answer("200", says), limited, limited, maps.VerdictSpillRetry},
		{"too much, a longer name", answer("200", "X-Envoy-RateLimited2: true\r\n"), limited, 0, maps.VerdictOk},
	}
	spec, err := loadXlb()
	must(t, err)
	var parts struct {
		Program *ebpf.Program `ebpf:"xlb_selftest_retry"`
		Copies  *ebpf.Map     `ebpf:"request_copies"`
	}
	must(t, spec.LoadAndAssign(&parts, nil))
	t.Cleanup(func() { must(t, parts.Program.Close()); must(t, parts.Copies.Close()) })
	var c maps.RequestCopy
	for _, status := range []uint32{100, 103, 503, 599} {
		at := status - maps.FirstStatus
		c.Statuses[at/64] |= 1 << (at % 64)
	}
	pages := bpfmap.NewPages("request_copies", parts.Copies, spec.Maps["request_copies"].InnerMap)
	t.Cleanup(func() { must(t, pages.Close()) })
	must(t, bpfmap.NewPagedTable[maps.RequestCopy](pages).Put(0, c))
	for _, tt := range tests {
		packet := maps.Packet([]byte(tt.head))
		packet[0] = tt.retry
		result, err := parts.Program.Run(&ebpf.RunOptions{Data: packet})
		must(t, err)
		if v, left := maps.Verdict(result>>24), uint8(result>>16); v != tt.want || left != tt.left {
			t.Errorf("%s: %s, and %d is left; want %s, and %d", tt.name, maps.VerdictName(v), left, maps.VerdictName(tt.want), tt.left)
		}
	}
}
