// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/shares"
)

// The first attempt's sender has read the last piece, and has not kept it, when the second attempt has sent what was kept before.
func TestABodyIsNotWholeBeforeItsLastPieceIsKept(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first int
	}{{"behind nothing", 0}, {"behind a short beginning", 100}, {"behind a block", BlockSize}} {
		t.Run(tt.name, func(t *testing.T) {
			body := noise(tt.first + 10)
			ended, goOn := make(chan struct{}), make(chan struct{})
			b := NewRequestBody(&head.Head{Length: int64(len(body))}, bufio.NewReader(&cutReader{body, tt.first + 10}), &shares.Ticket{})
			b.OnProgress, b.OnEnd = func() {}, func() { close(ended); <-goOn }
			r := NewReplay(b, &someBlocks{has: 10})
			first := r.Begin()
			mustReadBody(t, first, body[:tt.first])
			done := make(chan struct{})
			go func() { defer close(done); _, _ = io.ReadFull(first, make([]byte, 10)) }()
			<-ended
			r.Hold()
			second := r.Begin()
			sent := second.AppendSmall(nil, func() int { return 0 })
			if len(sent) > 0 {
				t.Fatalf("sent with the head: %d bytes", len(sent))
			}
			mustReadBody(t, second, body[:tt.first])
			if second.Whole() {
				t.Errorf("the second attempt takes %d of %d bytes for the whole body", tt.first, len(body))
			}
			close(goOn)
			<-done
			if rest, err := io.ReadAll(second); err != nil || !bytes.Equal(rest, body[tt.first:]) {
				t.Errorf("the second attempt got %d bytes more, want the last 10: %v", len(rest), err)
			}
			if !second.Whole() {
				t.Error("the second attempt has all, and it is not whole")
			}
		})
	}
}
