// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/node"
)

// undropped is a daemon that may have capabilities which it does not use.
type undropped struct {
	daemon
	why error
}

func (u undropped) Capabilities() ([]admin.Capability, error) { return nil, u.why }

// What the daemon warns of at its start "xlb check" says, too, as long as the daemon runs.
func TestCheckSaysWhyADaemonMayKeepOtherCapabilities(t *testing.T) {
	var log bytes.Buffer
	o := node.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	(&runFlags{}).sayCapabilities(&o, 0, errors.New("capset: not permitted"))
	o.OnStart()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "capset: not permitted") {
		t.Errorf("log: %s", log.String())
	}
	if o.Capabilities != nil {
		t.Errorf("got %v, want none: which there are is not known", o.Capabilities)
	}

	source := undropped{daemon{new(slog.LevelVar), new(atomic.Bool)}, o.CapabilitiesError}
	var r checkReport
	decode(t, &r, "check", "--output", "json", "--admin", serving(t, admin.NewHandler(source, http.NotFoundHandler()).ServeHTTP))
	want := check.Result{
		Name: "daemon capabilities", Status: check.Degraded, Detail: "the daemon may keep capabilities that it does not use: capset: not permitted",
		Remedy: `remove what the reason names and start the daemon again, or start it with no others than in docs/operations.md, "Start"`,
	}
	if !slices.Contains(r.Results, want) {
		t.Errorf("got %+v, want %+v among them", r.Results, want)
	}
}
