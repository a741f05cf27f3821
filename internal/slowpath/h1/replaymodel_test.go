// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/shares"
)

// Each attempt has the body's beginning, and one that takes it for whole has all of it, whatever the senders of earlier ones still read, and whatever memory is refused.
func TestEachAttemptHasTheBodyThatTheClientHasSent(t *testing.T) {
	edges := []int{1, smallBody, smallBody + 1, BlockSize, BlockSize + 1, smallBody + BlockSize, maxReplay, maxReplay + 1}
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		length := edges[random.IntN(len(edges))]
		if random.IntN(2) == 0 {
			length = 1 + random.IntN(8*BlockSize)
		}
		t.Run(fmt.Sprintf("%d, %d bytes", seed, length), func(t *testing.T) {
			memory := &moodyMemory{random: rand.New(rand.NewPCG(seed, 2)), refuses: []int{0, 0, 1, 5, 30, 100}[random.IntN(6)]}
			checkAttempts(t, random, noise(length), memory)
		})
	}
}

// moodyMemory refuses so many of 100 blocks.
type moodyMemory struct {
	random  *rand.Rand
	refuses int
	taken   int
}

func (m *moodyMemory) Take() bool {
	if m.random.IntN(100) < m.refuses {
		return false
	}
	m.taken++
	return true
}

func (m *moodyMemory) GiveBack() { m.taken = 0 }

// checkAttempts makes some attempts. Each may begin while senders of those before it read.
func checkAttempts(t *testing.T, random *rand.Rand, body []byte, memory *moodyMemory) {
	r, from := replayFrom(random, body, memory)
	want := 1 + random.IntN(4)
	var attempts []*sentAttempt
	var senders sync.WaitGroup
	for i := range want {
		if i > 0 && !r.Hold() {
			break
		}
		a := &sentAttempt{limit: 2 * len(body), source: r.Begin(), sizes: rand.New(rand.NewPCG(random.Uint64(), 0))}
		attempts = append(attempts, a)
		if i < want-1 {
			a.limit = random.IntN(len(body) + 1)
		}
		if from != nil {
			a.got = a.source.AppendSmall(nil, from.Buffered)
		}
		done := make(chan struct{})
		senders.Go(func() { defer close(done); a.send() })
		if from != nil || random.IntN(2) == 0 {
			<-done // a reader that is in use does not say what is buffered
		}
	}
	r.NoMore()
	senders.Wait()
	for i, a := range attempts {
		if !bytes.HasPrefix(body, a.got) || a.whole && len(a.got) != len(body) {
			t.Errorf("attempt %d of %d has %d bytes, and has it for whole: %t", i, len(attempts), len(a.got), a.whole)
		}
	}
	if last := attempts[len(attempts)-1]; len(attempts) == want && !last.whole {
		t.Errorf("the last attempt has %d bytes, and not the whole body", len(last.got))
	}
	if r.Drop(); memory.taken != 0 {
		t.Errorf("%d blocks are not given back", memory.taken)
	}
}

// replayFrom is that of a body with a length, or with chunks: then from is nil.
func replayFrom(random *rand.Rand, body []byte, memory Memory) (r *Replay, from *bufio.Reader) {
	h, wire := head.Head{Length: int64(len(body))}, body
	isChunked := random.IntN(2) == 0
	if isChunked {
		h, wire = head.Head{Length: head.NoLength, Chunked: true}, inChunks(random, body)
	}
	from = bufio.NewReaderSize(&cutReader{wire, 1 + random.IntN(30000)}, 4<<10)
	if random.IntN(2) == 0 {
		_, _ = from.Peek(1) // it has come with the head
	}
	b := NewRequestBody(&h, from, &shares.Ticket{})
	b.OnProgress, b.OnEnd = func() {}, func() {}
	if isChunked {
		from = nil
	}
	return NewReplay(b, memory), from
}

func inChunks(random *rand.Rand, body []byte) []byte {
	var b bytes.Buffer
	for len(body) > 0 {
		n := min(len(body), 1+random.IntN(20000))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}

// sentAttempt is one that is given up behind so many bytes, and what it has got.
type sentAttempt struct {
	source *ReplayReader
	sizes  *rand.Rand
	limit  int
	got    []byte
	whole  bool
}

func (a *sentAttempt) send() {
	for !a.source.Whole() {
		p := make([]byte, 1+a.sizes.IntN(32<<10))
		n, err := io.ReadFull(a.source, p[:1+a.sizes.IntN(len(p))])
		a.got = append(a.got, p[:n]...)
		if err != nil && !a.source.Whole() || len(a.got) >= a.limit {
			return
		}
	}
	a.whole = true
}
