// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/suite"
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
	const quiet = 400 * time.Millisecond
	r := limitedRig(t, Limits{})
	c := r.dial()
	c.exchange("one")
	began := time.Now()
	r.s.Drain(quiet)
	last := began
	for last.Sub(began) < 2*quiet {
		time.Sleep(quiet / 8)
		last = time.Now()
		c.exchange("more")
	}
	c.mustEnd(io.EOF)
	if took := time.Since(last); took < quiet {
		t.Errorf("the connection has closed %v after its last request, want %v", took, quiet)
	}
}

func TestDrainEndsConnectionsThatHaveLongBeenQuiet(t *testing.T) {
	suite.Long(t, suite.Clock)
	const quiet = time.Second
	r := limitedRig(t, Limits{Idle: time.Hour, Drain: time.Hour})
	c := r.dial()
	c.exchange("hello")
	time.Sleep(quiet)
	began := time.Now()
	r.s.Drain(quiet)
	c.mustEnd(io.EOF)
	if took := time.Since(began); took > quiet*3/4 {
		t.Errorf("a quiet connection has closed %v after the end began, want at once", took)
	}
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
