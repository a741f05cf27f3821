// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"net"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestCloseQuietLeavesWhatIsServed(t *testing.T) {
	serving, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		serving <- struct{}{}
		<-goOn
		return echo(ctx, conn, s)
	}})
	r.dial()
	busy := r.dial()
	r.awaitOpen(2)
	r.decline(busy, maps.SlowConn{})
	busy.send("hello")
	next(t, serving, "session")
	if left := r.s.CloseQuiet(); left != 1 {
		t.Errorf("connections left while one is served: got %d, want 1", left)
	}
	close(goOn)
	busy.mustReceive("hello")
	eventually(t, func() string {
		if r.s.CloseQuiet() != 0 {
			return "a connection is left though none is served"
		}
		return ""
	})
}
