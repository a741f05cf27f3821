// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
)

func TestLogLevelIsShownAndChanged(t *testing.T) {
	address := adminAPI(t)
	for _, step := range []struct{ set, want string }{{"", "info"}, {"debug", "debug"}, {"", "debug"}, {"warn", "warning"}, {"off", "off"}} {
		args := []string{"log-level", "--admin", address}
		if step.set != "" {
			args = append(args, step.set)
		}
		code, stdout, stderr := call(t, args...)
		if code != exitOK || stdout != step.want+"\n" || stderr != "" {
			t.Errorf("%q: code %d, stdout %q, stderr %q, want %s", step.set, code, stdout, stderr, step.want)
		}
	}
	var l admin.LogLevel
	if decode(t, &l, "log-level", "error", "--admin", address, "--output", "json"); l.Level != "error" {
		t.Errorf("JSON: got %+v", l)
	}
}

func TestLogLevelOfAnotherProgram(t *testing.T) {
	other := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	code, stdout, stderr := call(t, "log-level", "--admin", other)
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "the daemon's answer is not ours") {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}
