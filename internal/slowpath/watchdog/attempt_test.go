// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/test/await"
)

// The time of an attempt is kept by a goroutine of its own.
func TestPanicOfTheTimeOfAnAttemptEndsTheRequest(t *testing.T) {
	log := crash.New(slog.New(slog.DiscardHandler))
	client, server := net.Pipe()
	defer client.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	w := Start(server, bufio.NewReader(server), time.Hour, nil, cancel, log)
	defer w.Stop()
	whole := make(chan struct{})
	close(whole)
	defer w.LimitAttempt(ctx, cancel, whole, 1, 0, nil)() // it has no tally to count at
	await.Next(t, ctx.Done(), "the end of the request")
	if !errors.Is(context.Cause(ctx), crash.Err) || log.Count() != 1 {
		t.Errorf("ended by %v, with %d panics", context.Cause(ctx), log.Count())
	}
}
