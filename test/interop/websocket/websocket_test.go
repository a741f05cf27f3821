// SPDX-License-Identifier: Apache-2.0

// Package websocket tests WebSocket through XLB with libraries that
// applications use. README.md says how the programs of this folder talk.
package websocket

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

func TestMain(m *testing.M) {
	code := harness.Main(m)
	results.print(os.Stdout)
	os.Exit(code)
}

const (
	// crowd is how many connections are open at once.
	crowd = 1000
	// crowdMessages is how many messages each of them sends.
	crowdMessages = 8
	// largestOfCrowd bounds those messages, in bytes.
	largestOfCrowd = 64 << 10
	// few is for what happens to every connection alike.
	few = 64
	// idle is how long a connection says nothing.
	idle = 10 * time.Second
)

func TestPairs(t *testing.T) {
	for _, of := range libraries {
		for _, clients := range libraries {
			for _, where := range topologies {
				t.Run(fmt.Sprintf("%s to %s, %s", clients.name, of.name, where.name), func(t *testing.T) {
					harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
						result := results.add(clients.name, of.name, where.name, mode.Name)
						testPair(t, newPair(t, clients, of, where, mode, result), mode)
					})
				})
			}
		}
	}
}

// testPair runs every scenario before the same servers. The last one kills a
// server; the first one ends last, so that its idle time costs none.
func testPair(t *testing.T, p *pair, mode harness.Mode) {
	endIdle := p.beginIdle(t)
	t.Run("crowd", p.testCrowd)
	t.Run("lengths of frames", p.testLengthsOfFrames)
	t.Run("large message", p.testLargeMessage)
	t.Run("server closes", p.testServerCloses)
	t.Run("client that does not read", p.testClientThatDoesNotRead)
	t.Run("server that does not read", p.testServerThatDoesNotRead)
	t.Run("idle", endIdle)
	t.Run("client killed", p.testClientKilled)
	t.Run("server killed", p.testServerKilled)
	p.judge(t, mode)
}

func (p *pair) testCrowd(t *testing.T) {
	before := p.counters(t, "state")
	c := p.open(t, spec{Case: caseEcho, Connections: crowd, Messages: crowdMessages, Size: largestOfCrowd, Seed: 1}, crowd)
	open := p.counters(t, "state")
	if got := open.Open - before.Open; got != crowd {
		t.Errorf("connections open at the servers: got %d, want %d", got, crowd)
	}
	r := p.finish(t, c)
	if want := crowd * crowdMessages; r.Messages != want {
		t.Errorf("echoes: got %d, want %d", r.Messages, want)
	}
	// The codes that clients chose, as the servers saw them.
	harness.Eventually(t, 20*time.Second, "the servers count the close codes that the clients count", func() bool {
		after := p.counters(t, "state")
		for code, n := range before.Ends {
			after.Ends[code] -= n
		}
		maps.DeleteFunc(after.Ends, func(_ string, n int) bool { return n == 0 })
		return maps.Equal(after.Ends, r.Ends) && after.Open == before.Open
	})
}

// testLengthsOfFrames sends messages around the lengths where the head of a
// frame grows (RFC 6455, section 5.2), and around the sizes of buffers.
func (p *pair) testLengthsOfFrames(t *testing.T) {
	const connections = 8
	sizes := []int{0, 1, 2, 125, 126, 127, 4095, 4096, 65535, 65536, 65537, 262_143, 262_145, 1 << 20}
	c := p.open(t, spec{Case: caseEcho, Connections: connections, Sizes: sizes, Seed: 2}, connections)
	if r := p.finish(t, c); r.Messages != connections*len(sizes) {
		t.Errorf("echoes: got %d, want %d", r.Messages, connections*len(sizes))
	}
}

func (p *pair) testLargeMessage(t *testing.T) {
	const size, connections = 16 << 20, 2
	c := p.open(t, spec{Case: caseEcho, Connections: connections, Sizes: []int{size}, Seed: 3}, connections)
	if r := p.finish(t, c); r.Messages != connections {
		t.Errorf("echoes: got %d, want %d", r.Messages, connections)
	}
}

func (p *pair) testServerCloses(t *testing.T) {
	codes := []int{1000, 1001, 1011, 3000, 4999}
	r := p.finish(t, p.open(t, spec{Case: caseClose, Codes: codes}, len(codes)))
	for _, code := range codes {
		if got := r.Ends[strconv.Itoa(code)]; got != 1 {
			t.Errorf("connections closed with %d: got %d, want 1", code, got)
		}
	}
}

// beginIdle opens connections; the function that it returns uses them once they
// have been idle.
func (p *pair) beginIdle(t *testing.T) (end func(*testing.T)) {
	t.Helper()
	const connections = 4
	c := p.open(t, spec{Case: caseEcho, Connections: connections, Messages: 4, Size: largestOfCrowd, Seed: 4}, connections)
	since := time.NewTimer(idle)
	return func(t *testing.T) {
		<-since.C
		if r := p.finish(t, c); r.Messages != connections*4 {
			t.Errorf("echoes after %v: got %d, want %d", idle, r.Messages, connections*4)
		}
	}
}
