// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/test/await"
)

// The head of a response is flushed by a timer if its body is late.
func TestPanicOfALateHeadEndsTheConnection(t *testing.T) {
	log := crash.New(slog.New(slog.DiscardHandler))
	client, server := net.Pipe()
	if err := client.SetDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(panickingWriter{server}, log, func(conn net.Conn) { _ = conn.Close() })
	if _, err := w.buf.WriteString("head"); err != nil {
		t.Fatal(err)
	}
	w.flushSoon()
	if got, err := io.ReadAll(client); len(got) > 0 || err != nil {
		t.Errorf("the client got %q, %v", got, err)
	}
	if log.Count() != 1 {
		t.Errorf("%d panics", log.Count())
	}
	w.Release()
}

type panickingWriter struct{ net.Conn }

func (panickingWriter) Write([]byte) (int, error) { panic("of the client's connection") }
