// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
)

func TestDrainLeavesWhatIsServed(t *testing.T) {
	serving, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, setup{serve: func(ctx context.Context, conn net.Conn, s Session) Result {
		serving <- struct{}{}
		<-goOn
		return echo(ctx, conn, s)
	}})
	quiet, busy := r.dial(), r.dial()
	r.awaitOpen(2)
	r.decline(busy, maps.SlowConn{})
	busy.send("hello")
	await.Next(t, serving, "session")
	r.s.Drain(tooEarly)
	quiet.mustEnd(io.EOF)
	busy.mustStayOpen()
	close(goOn)
	busy.mustReceive("hello")
	busy.mustEnd(io.EOF)
	r.awaitOpen(0)
}

// A client that has just had its answer sends the next request as soon as it runs. The answer was given before it could say that the connection closes.
func TestDrainWaitsForTheNextRequestOfConnectionsInUse(t *testing.T) {
	const quiet = time.Second
	await.OneOfThree(t, "a connection in use", func() (difference string) {
		r := limitedRig(t, Limits{})
		c := r.dial()
		c.exchange("one")
		r.s.Drain(quiet)
		if difference = c.use(quiet); difference != "" {
			return difference
		}
		last := await.Since(func() { _ = c.tryExchange("last") })
		c.mustEnd(io.EOF)
		last.NoSooner(t, quiet, "the end behind the last request")
		return ""
	})
}

// use exchanges messages for twice the time in which a quiet connection ends. Only where this client gets no processor for as long, the connection may
// end: that is a difference.
func (c *client) use(quiet time.Duration) (difference string) {
	c.t.Helper()
	for began, last := time.Now(), time.Now(); last.Sub(began) < 2*quiet; {
		time.Sleep(quiet / 8)
		before := last
		last = time.Now()
		if err := c.tryExchange("more"); err != nil {
			if took := time.Since(before); took < quiet {
				c.t.Errorf("the connection has closed %v after its last request, want %v: %v", took, quiet, err)
			}
			return fmt.Sprintf("the client was late: %v", err)
		}
	}
	return ""
}

// Quiet is what has been so before the end began, too.
func TestDrainEndsConnectionsThatHaveLongBeenQuiet(t *testing.T) {
	const quiet = time.Hour
	r := limitedRig(t, Limits{})
	c := r.dial()
	c.exchange("hello")
	r.awaitActive(0) // until then the daemon may note the time of this request
	r.s.mu.Lock()
	for _, conn := range r.s.conns {
		conn.served.Store(time.Now().Add(-2 * quiet).UnixNano())
	}
	r.s.mu.Unlock()
	r.s.Drain(quiet)
	c.mustEnd(io.EOF)
}

// One whose time was up waits for the limits of its listener, which may be longer than the end takes.
func TestDrainEndsWhatItsListenerWouldLetWait(t *testing.T) {
	r, change := changingRig(t, Limits{})
	c := r.dial()
	c.exchange("hello")
	// Only now: an answer behind that time would end the connection.
	change(Limits{Age: time.Millisecond, Drain: time.Hour})
	c.mustStayOpen()
	r.s.Drain(tooEarly)
	c.mustEnd(io.EOF)
}
