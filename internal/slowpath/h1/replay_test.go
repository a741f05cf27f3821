// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/shares"
)

// someBlocks is memory of so many blocks.
type someBlocks struct{ has, taken int }

func (c *someBlocks) Take() bool {
	if c.taken >= c.has {
		return false
	}
	c.taken++
	return true
}

func (c *someBlocks) GiveBack() { c.taken = 0 }

// replayOf is that of a body of such a length, which comes from a client that sends so many bytes at once.
func replayOf(body []byte, size int, memory Memory) *Replay {
	from := bufio.NewReaderSize(&cutReader{body, size}, 16)
	b := NewRequestBody(&head.Head{Length: int64(len(body))}, from, &shares.Ticket{})
	b.OnProgress, b.OnEnd = func() {}, func() {}
	return NewReplay(b, memory)
}

type cutReader struct {
	left []byte
	size int
}

func (r *cutReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.left[:min(len(r.left), r.size)])
	r.left = r.left[n:]
	return n, nil
}

func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func mustReadBody(t *testing.T, from io.Reader, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("an attempt did not read the %d bytes that were due: %v", len(want), err)
	}
}

func mustTake(t *testing.T, memory *someBlocks, want int) {
	t.Helper()
	if memory.taken != want {
		t.Errorf("blocks that are taken: got %d, want %d", memory.taken, want)
	}
}

func TestABodyThatIsKeptTakesMemoryBeyondWhatEachRequestHas(t *testing.T) {
	for _, tt := range []struct {
		name         string
		length, size int
		taken        int
		spoiled      bool
	}{
		{"short", smallBody, smallBody, 0, false},
		{"short, byte by byte", 100, 1, 0, false},
		{"a byte more than is short, at once", smallBody + 1, smallBody + 1, 1, false},
		{"a byte more than is short, in two", smallBody + 1, smallBody, 1, false},
		{"a block", BlockSize, BlockSize, 1, false},
		{"a byte more than a block", BlockSize + 1, BlockSize + 1, 2, false},
		{"behind a short beginning", smallBody + 2*BlockSize, smallBody, 2, false},
		{"as long as may be kept", maxReplay, 32 << 10, maxReplay / BlockSize, false},
		{"longer", maxReplay + 1, 32 << 10, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, memory := noise(tt.length), &someBlocks{has: 100}
			r := replayOf(body, tt.size, memory)
			mustReadBody(t, r.Begin(), body)
			mustTake(t, memory, tt.taken)
			if r.Spoiled() != tt.spoiled || r.Hold() == tt.spoiled {
				t.Errorf("spoiled: %t, want %t", r.Spoiled(), tt.spoiled)
			}
			if !tt.spoiled {
				mustReadBody(t, r.Begin(), body)
			}
			r.Drop()
			mustTake(t, memory, 0)
		})
	}
}

func TestABodyThatGetsNoMemoryIsSentAndNotKept(t *testing.T) {
	body, memory := noise(10*BlockSize), &someBlocks{has: 3}
	r := replayOf(body, 1000, memory)
	reader := r.Begin()
	mustReadBody(t, reader, body[:3*BlockSize])
	if r.Spoiled() {
		t.Fatal("it is spoiled, and there is memory for what was read")
	}
	mustReadBody(t, reader, body[3*BlockSize:])
	if !r.Spoiled() || r.Hold() || !reader.Whole() {
		t.Errorf("spoiled: %t, whole: %t; want both", r.Spoiled(), reader.Whole())
	}
	mustTake(t, memory, 0)
}

// What the attempt before reads when the next one is certain belongs to that, which has lost its beginning otherwise.
func TestABodyThatIsHeldIsKeptWithoutMemory(t *testing.T) {
	body, memory := noise(5*BlockSize), &someBlocks{has: 2}
	r := replayOf(body, 1000, memory)
	first := r.Begin()
	mustReadBody(t, first, body[:2*BlockSize])
	if !r.Hold() {
		t.Fatal("it cannot be sent again, and all was kept")
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, errBodyStopped) {
		t.Errorf("the attempt before has read on: %v", err)
	}
	// It has been reading meanwhile.
	late := make([]byte, BlockSize)
	if _, err := io.ReadFull(r.body, late); err != nil {
		t.Fatal(err)
	}
	first.keep(late)
	second := r.Begin()
	mustReadBody(t, second, body[:3*BlockSize])
	if r.Spoiled() {
		t.Error("it is spoiled")
	}
	mustReadBody(t, second, body[3*BlockSize:])
	mustTake(t, memory, 0)
}

func TestABodyIsKeptNoLongerWhenNoAttemptFollows(t *testing.T) {
	body := noise(4 * BlockSize)
	for _, tt := range []struct {
		name string
		// again is how much a second attempt has read then; negative: the first one is the last.
		again int
		taken int
	}{
		{"amid the first attempt", -1, 0},
		{"before the second one has begun to read", 0, 3},
		{"amid what was kept", BlockSize, 3},
		{"when it has read that", 3 * BlockSize, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			memory := &someBlocks{has: 3}
			r := replayOf(body, 1000, memory)
			reader, read := r.Begin(), 3*BlockSize
			mustReadBody(t, reader, body[:read])
			if tt.again >= 0 {
				r.Hold()
				reader, read = r.Begin(), tt.again
				mustReadBody(t, reader, body[:read])
			}
			mustTake(t, memory, 3)
			r.NoMore()
			mustTake(t, memory, tt.taken)
			mustReadBody(t, reader, body[read:])
			if !reader.Whole() {
				t.Error("the last attempt has not read the whole body")
			}
			mustTake(t, memory, 0)
		})
	}
}

// Its last bytes have come when the second attempt begins, and are more than may be kept with the others.
func TestTheEndOfALongBodyIsNotLostWithWhatIsKept(t *testing.T) {
	body, memory := noise(maxReplay+100), &someBlocks{has: 100}
	r := replayOf(body, 1<<20, memory)
	mustReadBody(t, r.Begin(), body[:maxReplay])
	if !r.Hold() {
		t.Fatal("it cannot be sent again, and all was kept")
	}
	second := r.Begin()
	sent := second.AppendSmall(nil, func() int { return 100 })
	mustReadBody(t, io.MultiReader(bytes.NewReader(sent), second), body)
}

func TestAttemptsReadTheSameWhateverTheSizesOfTheirReads(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		body := noise(random.IntN(8 * BlockSize))
		if len(body) == 0 {
			continue
		}
		r := replayOf(body, 1+random.IntN(2*BlockSize), &someBlocks{has: 9})
		for range 4 {
			reader, read := r.Begin(), random.IntN(len(body)+1)
			for at := 0; at < read; {
				n := min(1+random.IntN(BlockSize), read-at)
				mustReadBody(t, reader, body[at:at+n])
				at += n
			}
		}
		mustReadBody(t, r.Begin(), body)
	}
}

func TestABodyWithoutAReplayIsNeitherKeptNorSpoiled(t *testing.T) {
	var r *Replay
	r.NoMore()
	r.Drop()
	if r.Spoiled() || !r.Hold() {
		t.Error("a request without a body cannot be sent again")
	}
}
