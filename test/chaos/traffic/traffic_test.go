// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testSeed = 42

// everyPlan calls do with the plans of many requests.
func everyPlan(do func(*Plan)) {
	for conn := range uint32(100) {
		for number := range uint32(maxRequests) {
			plan := NewPlan(testSeed, ID{1, conn, number})
			do(&plan)
		}
	}
}

func TestIdentityIsReadBack(t *testing.T) {
	want := ID{maxProcesses - 1, maxConns - 1, maxRequests - 1}
	if got, err := ParseID(want.String()); err != nil || got != want {
		t.Errorf("ParseID: got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "1.2", "1.2.3.4", "1.2.x", "1.2.-3", "1.2.64", "2048.0.0", "0.32768.0"} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("ParseID(%q): got %v, want an error", bad, id)
		}
	}
}

func TestPlanFollowsFromSeedAndIdentity(t *testing.T) {
	differing := 0
	everyPlan(func(p *Plan) {
		if again := NewPlan(testSeed, p.ID); again != *p {
			t.Fatalf("second plan: got %+v, want %+v", again, *p)
		}
		if other := NewPlan(testSeed+1, p.ID); other != *p {
			differing++
		}
	})
	if differing < 6000 {
		t.Errorf("plans that another seed changes: got %d of 6400", differing)
	}
}

func TestPlansHoldEveryFaultAndFraming(t *testing.T) {
	found := map[string]bool{}
	everyPlan(func(p *Plan) {
		for _, what := range []string{p.Client, p.Server, p.Route, p.Method, "request " + p.RequestFraming, "response " + p.ResponseFraming} {
			found[what] = true
		}
		found["expect"] = found["expect"] || p.Expect
		found["upgrade"] = found["upgrade"] || p.Upgrade
		found["paired"] = found["paired"] || p.Paired
	})
	for _, want := range []string{
		"", clientResetsInRequest, clientResetsInResponse, clientStalls, clientHalfCloses, clientHalfClosesEarly, clientPauses,
		clientAbandonsRequest, clientAbandonsResponse, clientAbandonsUnstarted,
		serverResetsAtOnce, serverResetsInResponse, serverClosesAtOnce, serverClosesInResponse, serverStalls, serverStallsForEver,
		serverAnswersEarly, serverAnswersAndCloses, serverAnnouncesClose, serverClosesSilently, serverSendsMore, serverSendsWhenIdle,
		serverInformsBeforehand, RouteSame, RouteCross, RouteBoth, RouteTimed, "GET", "POST", "HEAD",
		"request length", "request chunked", "request none", "response length", "response chunked", "response close", "response none",
		"expect", "upgrade", "paired",
	} {
		if !found[want] {
			t.Errorf("no plan of 6400 has %q", want)
		}
	}
}

func TestPairIsTwoRequestsOfOneConnectionWithoutClientFaults(t *testing.T) {
	everyPlan(func(p *Plan) {
		if !p.Paired {
			return
		}
		next := p.ID
		next.Request++
		second := NewPlan(testSeed, next)
		if second.Paired || p.Client != "" || second.Client != "" || p.Upgrade || second.Upgrade || p.Expect || second.Expect {
			t.Errorf("pair: got %+v and %+v", *p, second)
		}
	})
}

func TestMessagesAreWhatTheyPlan(t *testing.T) {
	everyPlan(func(p *Plan) {
		m := p.request(testSeed)
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(m.bytes)))
		if err != nil {
			t.Fatalf("%+v: read the request: %v", *p, err)
		}
		size := p.RequestSize
		if p.Upgrade {
			size = 0
		}
		requirePattern(t, p, request.Body, requestBody, size)

		m = p.response(testSeed, "server")
		response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(m.bytes)), request)
		if err != nil {
			t.Fatalf("%+v: read the response: %v", *p, err)
		}
		if response.StatusCode != p.Status {
			t.Errorf("%+v: status: got %d", *p, response.StatusCode)
		}
		if !p.Upgrade {
			requirePattern(t, p, response.Body, responseBody, p.bodySize())
		}
	})
}

func requirePattern(t *testing.T, p *Plan, body io.Reader, purpose byte, size int) {
	t.Helper()
	v := newVerifier(testSeed, p.ID, purpose, size)
	if _, err := io.Copy(v, body); err != nil || v.seen != v.size {
		t.Errorf("%+v: body %c: %d of %d bytes, %v", *p, purpose, v.seen, v.size, err)
	}
}

func TestVerifierFindsWhatIsWrong(t *testing.T) {
	const size = 5000
	id := ID{1, 2, 3}
	right := newPattern(testSeed, id, responseBody).appendTo(nil, size)
	tests := []struct {
		name   string
		bytes  []byte
		offset int64
	}{
		{"another request's", newPattern(testSeed, ID{1, 2, 4}, responseBody).appendTo(nil, size), 6},
		{"the request's own body", newPattern(testSeed, id, requestBody).appendTo(nil, size), 0},
		{"one bit", flipped(right, 4321), 4321},
		{"a block left out", append(append([]byte{}, right[:blockSize]...), right[2*blockSize:]...), blockSize + 11},
		{"more than there is", append(append([]byte{}, right...), 'x'), size},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// In odd pieces, so that blocks do not begin with writes.
			v := newVerifier(testSeed, id, responseBody, size)
			_, err := io.CopyBuffer(struct{ io.Writer }{v}, struct{ io.Reader }{bytes.NewReader(tt.bytes)}, make([]byte, 77))
			var wrong *mismatch
			if !errors.As(err, &wrong) || wrong.Offset != tt.offset {
				t.Errorf("got %v, want a difference at byte %d", err, tt.offset)
			}
		})
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

func TestLedgerIsSharedAndKnowsRepetitions(t *testing.T) {
	dir := t.TempDir()
	one, two := openLedger(t, dir), openLedger(t, dir)
	id := ID{7, 8, 9}
	if err := two.seen(id); err == nil {
		t.Error("a request that nobody sent was accepted")
	}
	one.sent(id)
	if err := two.seen(id); err != nil {
		t.Errorf("the first time: %v", err)
	}
	if err := one.seen(id); err == nil {
		t.Error("the second time was accepted")
	}
	one.count(OK)
	two.add(OK, 2)
	if got := one.Counts()[OK]; got != 3 {
		t.Errorf("count: got %d, want 3", got)
	}
}

func openLedger(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := OpenLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// A client beside its server, with nothing between: whatever fails here is this package's own fault.
func TestClientsAndServerAgree(t *testing.T) {
	dir := t.TempDir()
	server, err := Listen(ServerSpec{Direct: true, Ledger: dir, Seed: testSeed, Address: "127.0.0.1:0", Name: "server.0"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }()
	defer server.Close()
	spec := ClientSpec{Ledger: dir, Seed: testSeed, Process: FirstCalmProcess, Service: server.Address(), Workers: 8, Conns: 40}
	if err := RunClients(context.Background(), spec); err != nil {
		t.Fatal(err)
	}
	c := openLedger(t, dir).Counts()
	// The second of a pair has no answer where the first one's body ends with the connection.
	if good := c[OK] + c[TunnelOK] + c[Unanswered]; c[Requests] < 100 || good != c[Requests] {
		t.Errorf("answered: got %d of %d requests", good, c[Requests])
	}
	requireNoFailure(t, dir)
}

func requireNoFailure(t *testing.T, dir string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, FailuresFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		t.Error(strings.TrimSpace(line))
	}
}

func TestFailureIsWrittenDownWithItsPlan(t *testing.T) {
	dir := t.TempDir()
	plan := NewPlan(testSeed, ID{1, 2, 3})
	openLedger(t, dir).fail(&Failure{Side: "client", What: "the body differs", ID: plan.ID, Offset: 17, Plan: &plan})
	content, err := os.ReadFile(filepath.Join(dir, FailuresFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Offset":17`, `"Connection"`[:4], fmt.Sprintf("%q:%q", "Route", plan.Route)} {
		if !strings.Contains(string(content), want) {
			t.Errorf("line %s: lacks %s", content, want)
		}
	}
}
