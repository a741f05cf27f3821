// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// abnormal is the code of a connection that ended without a close frame (RFC
// 6455, section 7.1.5).
const abnormal = "1006"

// testClientKilled kills a client with quiet connections, and one that a stream
// is on its way to.
func (p *pair) testClientKilled(t *testing.T) {
	p.requireAllEnded(t)
	before := p.counters(t, "state")
	quiet := p.open(t, spec{Case: caseEcho, Connections: few}, few)
	busy := p.open(t, spec{Case: caseDown, Size: streamed}, 1)
	blocked(t, func() int64 { return p.counters(t, "state").Sent - before.Sent })
	quiet.Kill(t)
	busy.Kill(t)
	p.requireAllEnded(t)
	if got := p.counters(t, "state").Ends[abnormal] - before.Ends[abnormal]; got != few+1 {
		t.Errorf("connections that ended with %s at the servers: got %d, want %d", abnormal, got, few+1)
	}
}

// testServerKilled kills one of the servers: its connections end, those of the
// other one live, and new ones find it.
func (p *pair) testServerKilled(t *testing.T) {
	const messages = 4
	c := p.open(t, spec{Case: caseEcho, Connections: few, Messages: messages, Size: largestOfCrowd, Seed: 7}, few)
	victim := p.servers[0]
	lost := victim.counters(t, "state").Open
	if lost == 0 || lost == few {
		t.Fatalf("connections of the server to kill: got %d of %d, want some", lost, few)
	}
	victim.Kill(t)
	p.servers = p.servers[1:]
	harness.Eventually(t, 20*time.Second, "the connections of the killed server end", func() bool {
		return c.ask(t, "state").Ends[abnormal] == lost
	})
	if r := p.finish(t, c); r.Messages != (few-lost)*messages || total(r.Ends) != few {
		t.Errorf("echoes of the other server: got %d, want %d; ends %v", r.Messages, (few-lost)*messages, r.Ends)
	}
	after := p.open(t, spec{Case: caseEcho, Connections: few, Messages: 1, Size: largestOfCrowd, Seed: 8}, few)
	if r := p.finish(t, after); r.Messages != few {
		t.Errorf("echoes of new connections: got %d, want %d", r.Messages, few)
	}
}
