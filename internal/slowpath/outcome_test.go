// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
)

func TestOnlyWhatTheEndpointDidIsItsFault(t *testing.T) {
	refused := &conns.DialError{Endpoint: netip.MustParseAddrPort("127.0.0.1:1"), Err: io.EOF}
	tests := []struct {
		name    string
		outcome Outcome
		want    Fault
	}{
		{"answered", Outcome{Status: 200}, NoFault},
		{"answered with an error", Outcome{Status: 503}, NoFault},
		{"not used", Outcome{}, NoFault},
		{"not connected", Outcome{Err: refused, ConnectFailed: true}, FaultConnect},
		{"not connected from another workload", Outcome{Err: &conns.DialError{From: 1, Err: io.EOF}, ConnectFailed: true}, NoFault},
		{"the client's namespace has left", Outcome{Err: &conns.DialError{Err: fmt.Errorf("dial: %w", ErrWorkloadLeft)}, ConnectFailed: true}, NoFault},
		{"closed", Outcome{Err: io.ErrUnexpectedEOF}, FaultReset},
		{"not HTTP", Outcome{Err: h1.Malformed("status line")}, FaultReset},
		{"closed within the response", Outcome{Status: 200, Err: io.ErrUnexpectedEOF}, FaultReset},
		{"too late", Outcome{Err: fmt.Errorf("read: %w", ErrRouteTimeout)}, FaultTimeout},
		{"too late for one attempt", Outcome{Err: watchdog.ErrAttemptTimeout}, FaultTimeout},
		{"stands still", Outcome{Err: ErrStreamIdle}, NoFault},
		{"the client has gone", Outcome{Err: ErrClientGone}, NoFault},
		{"the client does not take the response", Outcome{Status: 200, Err: &h1.ClientError{Err: io.ErrClosedPipe}}, NoFault},
		{"the client's body is malformed", Outcome{Err: io.EOF, BadBody: true}, NoFault},
		{"the daemon ends", Outcome{Err: context.Canceled}, NoFault},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.outcome.Fault(); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
