// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// changing serves pools with a number that grows, fails the second time, and calls done when it has been asked so often.
func changing(t *testing.T, often int32, done func()) string {
	t.Helper()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		if n == 2 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if n > often {
			done()
			return
		}
		_, _ = io.WriteString(w, "[\n {\"cluster\": \"web\", \"endpoint\": \"10.0.0.1:80\", \"idle\": "+string('0'+n)+"}\n]\n")
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func watched(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := changing(t, 4, cancel)
	var out, err bytes.Buffer
	args = append([]string{"get", "pools", "--watch", "--interval", "100ms", "--admin", address}, args...)
	if code := execute(ctx, &env{stdout: &out, stderr: &err}, args); code != exitOK {
		t.Errorf("code %d: an interrupt is how it ends", code)
	}
	return out.String(), err.String()
}

func TestWatchRepeatsTables(t *testing.T) {
	stdout, stderr := watched(t)
	at := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	const header = "TIME\nCLUSTER  ENDPOINT     IDLE  LEASED  CONNECTING\n"
	want := header + "web      10.0.0.1:80  1     0       0\n\n" + header + "web      10.0.0.1:80  3     0       0\n\n" + header + "web      10.0.0.1:80  4     0       0\n"
	if got := at.ReplaceAllString(stdout, "TIME"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "500 Internal Server Error") {
		t.Errorf("stderr %q, want a line about the answer that failed", stderr)
	}
}

func TestWatchWritesALineOfJSONForEachAnswer(t *testing.T) {
	stdout, _ := watched(t, "--output", "json")
	var idle []int
	for line := range strings.Lines(stdout) {
		var pools []struct{ Idle int }
		if err := json.Unmarshal([]byte(line), &pools); err != nil || len(pools) != 1 {
			t.Fatalf("line %q: %v", line, err)
		}
		idle = append(idle, pools[0].Idle)
	}
	if len(idle) != 3 || idle[0] != 1 || idle[2] != 4 {
		t.Errorf("got %v, want 1, 3 and 4", idle)
	}
}

func TestWatchEndsWhereTheFirstAnswerFails(t *testing.T) {
	code, stdout, stderr := call(t, "get", "pools", "--watch", "--admin", mute(t))
	if code == exitOK || stdout != "" || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// closedPipe is the end of a pipe that nobody reads any more.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWatchEndsWhenNobodyReads(t *testing.T) {
	var stderr bytes.Buffer
	address := changing(t, 1, func() {})
	if code := execute(t.Context(), &env{stdout: closedPipe{}, stderr: &stderr}, []string{"get", "pools", "--watch", "--admin", address}); code != exitFailure {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
}
