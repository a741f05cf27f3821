// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

const (
	// streamed is the length of a stream in bytes.
	streamed = 64 << 20
	// allowed bounds what TCP may hold for a reader that does not read.
	allowed = 16 << 20
)

// blocked waits until the writer has sent something and then nothing for a
// while, and returns how much it sent.
func blocked(t *testing.T, sentSoFar func() int64) int64 {
	t.Helper()
	const quiet = 500 * time.Millisecond
	var sent int64
	since := time.Now()
	harness.Eventually(t, 30*time.Second, "the writer blocks", func() bool {
		if now := sentSoFar(); now != sent {
			sent, since = now, time.Now()
		}
		return sent > 0 && time.Since(since) > quiet
	})
	return sent
}

// requireBounded fails when a writer got far ahead of its reader, or when TCP
// keeps holding more than it may. Others' connections count too, but come and go.
func (p *pair) requireBounded(t *testing.T, memory, sent int64) {
	t.Helper()
	if sent >= streamed/2 {
		t.Errorf("%d of %d MiB sent to a reader that does not read", sent>>20, streamed>>20)
	}
	var grown int64
	harness.Eventually(t, 10*time.Second, "TCP holds little for a reader that does not read", func() bool {
		grown = harness.TCPMemory(t) - memory
		return grown < allowed
	})
	t.Logf("writer blocked after %d KiB, TCP memory grew by %d KiB, daemon has %d KiB",
		sent>>10, grown>>10, p.balancer.Memory(t)>>10)
}

func (p *pair) testClientThatDoesNotRead(t *testing.T) {
	memory, before := harness.TCPMemory(t), p.counters(t, "state").Sent
	c := p.open(t, spec{Case: caseDown, Size: streamed, Seed: 5}, 1)
	sent := blocked(t, func() int64 { return p.counters(t, "state").Sent - before })
	p.requireBounded(t, memory, sent)
	if r := p.finish(t, c); r.Bytes != streamed {
		t.Errorf("received %d bytes, want %d", r.Bytes, streamed)
	}
}

func (p *pair) testServerThatDoesNotRead(t *testing.T) {
	memory := harness.TCPMemory(t)
	c := p.open(t, spec{Case: caseUp, Size: streamed, Seed: 6}, 1)
	sent := blocked(t, func() int64 { return c.ask(t, "state").Sent })
	p.requireBounded(t, memory, sent)
	p.counters(t, "read")
	if r := p.finish(t, c); r.Sent != streamed {
		t.Errorf("sent %d bytes, want %d", r.Sent, streamed)
	}
}
