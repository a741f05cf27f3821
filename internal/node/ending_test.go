// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/listeners"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source"
)

// A bootstrap holds its configuration, routes and all, which is replaced.
func TestNodeKeepsNoBootstrap(t *testing.T) {
	for f := range reflect.TypeFor[Node]().Fields() {
		if f.Type == reflect.TypeFor[*config.Bootstrap]() {
			t.Errorf("field %s keeps what was in force at the start; take what is needed of it", f.Name)
		}
	}
}

// Other addresses of this host that come when the daemon ends were not refused: the log has no error.
func TestTheEndRefusesNoAddresses(t *testing.T) {
	ending, log := make(chan struct{}), &bytes.Buffer{}
	close(ending)
	text := "{node: {id: a, cluster: b}, dynamic_resources: {lds_config: {resource_api_version: V3, path_config_source: {path: /nowhere}}}}"
	n := &Node{o: Options{ConfigPath: "b.yaml", ConfigText: []byte(text)}, ending: ending, log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	bootstrap, err := source.Load(t.Context(), n.o.file())
	if err != nil {
		t.Fatal(err)
	}
	n.source, n.inner, n.bound = n.newSource(&bootstraps{shared: bootstrap}), listeners.NewInner(n.log), n.newBound()
	defer n.source.Close()
	n.activator = n.newActivator()
	n.addressesChanged(nil)
	if log.Len() != 0 {
		t.Errorf("the log says\n%s", log)
	}
}

// A start that ends says what its clean-up has failed at, and nothing else.
func TestStartThatEndsSaysWhatItsCleanUpHasFailedAt(t *testing.T) {
	failure := errors.New("detach: device or resource busy")
	for _, tt := range []struct {
		name       string
		start      error
		closed     bool
		want, hint string
	}{
		{"ended", shutdown.ErrEnding, false, "", ""},
		{"ended, and nothing to clean up fails", errors.Join(shutdown.ErrEnding, nil), false, "", ""},
		{"ended, and the clean-up fails", errors.Join(shutdown.ErrEnding, failure), false, failure.Error(), ""},
		{"ended, and the listener of the admin API does not close", errors.Join(shutdown.ErrEnding, failure), true, failure.Error() + "\n", "use of closed"},
		{"ended, and one step of the clean-up fails", fmt.Errorf("start: %w", errors.Join(shutdown.ErrEnding, fmt.Errorf("close: %w", failure))), false, "start: close: " + failure.Error(), ""},
		{"ended, within other steps", fmt.Errorf("start: %w; see the log", fmt.Errorf("load: %w", shutdown.ErrEnding)), false, "", ""},
		{"ended, and a text stands behind", fmt.Errorf("start: %w; see the log", errors.Join(shutdown.ErrEnding, failure)), false, "start: " + failure.Error() + "; see the log", ""},
		{"failed", failure, false, failure.Error(), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			closed := l.Close()
			if tt.closed {
				closed = l.Close()
			}
			got := ""
			if err := failedStart(errors.Join(tt.start, closed)); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || !strings.Contains(got, tt.hint) || strings.Contains(got, shutdown.ErrEnding.Error()) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
