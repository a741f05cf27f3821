// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/xds"
)

// A configuration that comes when the daemon ends is neither compiled nor put in force. The node has no compiler, nor a kernel.
func TestNothingIsPutInForceAtTheEnd(t *testing.T) {
	ending := make(chan struct{})
	close(ending)
	n := &Node{ending: ending}
	n.secrets, n.inners, n.doors = n.newSecrets(&config.Bootstrap{}), newInners(n), newDoors(n)
	if err := n.install(&model.Config{}); !errors.Is(err, shutdown.ErrEnding) {
		t.Errorf("got %v, want that the daemon ends", err)
	}
}

// Memory is given back behind a large file, and behind a small one that replaces it, since the large one's is needless only then.
func TestMemoryIsGivenBackBehindLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xlb.yaml")
	given := 0
	n := &Node{o: Options{ConfigPath: path}, freeMemory: func() { given++ }}
	for i, c := range []struct{ size, want int }{{10, 0}, {largeFile, 1}, {10, 2}, {10, 2}} {
		if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
			t.Fatal(err)
		}
		if n.giveBack(); given != c.want {
			t.Errorf("file %d: given back %d times, want %d", i, given, c.want)
		}
	}
}

// A bootstrap holds its configuration, routes and all, which is replaced.
func TestNodeKeepsNoBootstrap(t *testing.T) {
	for f := range reflect.TypeFor[Node]().Fields() {
		if f.Type == reflect.TypeFor[*config.Bootstrap]() {
			t.Errorf("field %s keeps what was in force at the start; take what is needed of it", f.Name)
		}
	}
}

// What comes when the daemon ends was not refused, whatever it comes from: it counts nowhere, no error is shown of it, and the log has none.
func TestTheEndRefusesNoConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name string
		come func(*dynamic) error
	}{
		{"files of resources", func(d *dynamic) error { d.takeFiles(); return nil }},
		{"the control plane", func(d *dynamic) error {
			if err := d.update(xds.Snapshot{}, ""); !errors.Is(err, xds.ErrUnfinished) {
				return fmt.Errorf("the client gets %w, and takes the update for one that is in force, or refused", err)
			}
			return nil
		}},
		{"secrets of dynamic clusters", func(d *dynamic) error { d.cold = map[string]bool{"shop": true}; d.n.rewarm(); return nil }},
		{"secrets of clusters of the bootstrap", func(d *dynamic) error {
			d.n.dynamic, d.n.held, d.n.wanted = nil, map[*model.Cluster]*model.Cluster{{}: nil}, d.n.source
			d.n.rewarm()
			return nil
		}},
		{"addresses of this host", func(d *dynamic) error {
			d.n.doors.own = nil
			d.n.doors.sockets[netip.AddrPort{}] = &door{socket: &anchor.Bound{}}
			d.n.doors.tend()
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, d, log := endingWithFiles(t)
			if err := tt.come(d); err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if log.Len() != 0 {
				t.Errorf("the log says\n%s", log)
			}
			if r := n.intake.Of(intake.Whole); r.Rejected+r.Failures != 0 || r.Refusal != nil || r.Successes != 0 {
				t.Errorf("of the whole configuration is shown %+v", r)
			}
			if c := &d.counted; c.inForce.Load()+c.rejected.Load()+c.partly.Load() != 0 {
				t.Errorf("counted: in force %d, rejected %d, partly %d; want none", c.inForce.Load(), c.rejected.Load(), c.partly.Load())
			}
		})
	}
}

// endingWithFiles is a daemon that ends, with files of resources, which it has yet to read, and what it logs as a warning or an error.
func endingWithFiles(t *testing.T) (*Node, *dynamic, *bytes.Buffer) {
	t.Helper()
	ending, log, dir, of := make(chan struct{}), &bytes.Buffer{}, t.TempDir(), ""
	close(ending)
	for kind, text := range map[string]string{
		"cds": "resources: [{'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: shop, type: STATIC, connect_timeout: 1s}]\n", "lds": "resources: []\n",
	} {
		path := filepath.Join(dir, kind+".yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		of += fmt.Sprintf("%s_config: {resource_api_version: V3, path_config_source: {path: %q}}, ", kind, path)
	}
	b, err := config.ParseBootstrap("b.yaml", fmt.Appendf(nil, "{node: {id: a, cluster: b}, dynamic_resources: {%s}}", of))
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{ending: ending, log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})), source: &model.Config{}, intake: intake.New(), passed: newPassedOver()}
	n.secrets, n.inners, n.doors, n.resolver = n.newSecrets(&config.Bootstrap{}), newInners(n), newDoors(n), n.newNames()
	t.Cleanup(n.secrets.Stop)
	n.generation.Store(generation.Empty())
	n.dynamic = newDynamic(n, b)
	t.Cleanup(n.dynamic.cancel)
	return n, n.dynamic, log
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
			defer l.Close()
			if tt.closed {
				l.Close()
			}
			got := ""
			if err := failedStart(tt.start, l); err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || !strings.Contains(got, tt.hint) || strings.Contains(got, shutdown.ErrEnding.Error()) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
