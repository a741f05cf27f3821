// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/xds"
)

// newTestSource returns a source with that bootstrap, which has begun and reads nothing by itself. It activates nothing.
func newTestSource(t *testing.T, text []byte, log *slog.Logger) *Source {
	t.Helper()
	file := File{Path: "b.yaml", Text: text}
	b, err := Load(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{File: file, Logger: log, Cluster: func(model.View, string) *model.Cluster { return nil }}, b)
	s.Begin(b)
	t.Cleanup(s.Close)
	if s.dynamic != nil {
		t.Cleanup(s.dynamic.stop)
	}
	return s
}

func TestBootstrapOfAViewIsReadForIt(t *testing.T) {
	v := model.View{Number: 7, Name: "shop"}
	b, err := Load(t.Context(), File{Path: "b.yaml", Text: []byte("static_resources: {clusters: [{name: a}]}\ndynamic_resources: {lds_config: {path_config_source: {path: /nowhere}}}\n"), View: v})
	if err != nil {
		t.Fatal(err)
	}
	if b.Static.In(v).Cluster("a") == nil {
		t.Errorf("the view has no cluster; there is %s", b.Static.Clusters[0].Key())
	}
}

// What Activate refuses leaves the configuration before, and is activated by a second attempt. The lock is held meanwhile.
func TestARefusedConfigurationChangesNothing(t *testing.T) {
	s := newTestSource(t, fmt.Appendf(nil, fromFile, "/nowhere/clusters", "/nowhere/endpoints"), slog.New(slog.DiscardHandler))
	before, wanted, active := s.unresolved, &model.Config{MaxConnections: 7}, (*model.Config)(nil)
	for _, refused := range []error{errors.New("no room"), nil} {
		s.cfg.Activate = func(cfg *model.Config) error {
			if s.mu.TryLock() {
				t.Error("another configuration could be put in force meanwhile")
			}
			if refused == nil {
				active = cfg
			}
			return refused
		}
		var err error
		s.Exclusive(func() { err = s.activate(wanted) })
		switch {
		case !errors.Is(err, refused):
			t.Errorf("got %v, want %v", err, refused)
		case refused != nil && (s.unresolved != before || active != nil):
			t.Error("a refused configuration is the one that goes on")
		case refused == nil && (s.desired != wanted || active == nil || active.MaxConnections != 7):
			t.Error("what was accepted is not in force")
		}
	}
}

// This host gets another address while a changed cluster waits for its secrets: the cluster goes on waiting, and is not forgotten.
func TestAClusterGoesOnWaitingForItsSecretsWhenTheConfigurationIsActivatedAgain(t *testing.T) {
	s := newTestSource(t, fmt.Appendf(nil, fromFile, "/nowhere/clusters", "/nowhere/endpoints"), slog.New(slog.DiscardHandler))
	s.cfg.Activate = func(*model.Config) error { return nil }
	plain := &model.Cluster{Name: "shop"}
	secured := &model.Cluster{Name: "shop", Sockets: []*model.UpstreamTLS{{CertificateSecret: &model.SecretSource{Name: "own", File: "/nowhere/secret"}}}}
	before, changed := &model.Config{Clusters: []*model.Cluster{plain}}, &model.Config{Clusters: []*model.Cluster{secured}}
	for _, cfg := range []*model.Config{before, changed} {
		var err error
		if s.Exclusive(func() { err = s.activate(cfg) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"at first", "again"} {
		if s.desired != changed || s.unresolved.Clusters[0] != plain || s.warming[secured] != plain {
			t.Fatalf("%s: the cluster that waits is forgotten", when)
		}
		if err := s.Reactivate(); err != nil {
			t.Fatal(err)
		}
	}
}

// Memory is given back behind a large file, and behind a small one that replaces it, since the large one's is needless only then.
func TestMemoryIsGivenBackBehindLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xlb.yaml")
	given := 0
	s := &Source{cfg: Config{File: File{Path: path}}, freeMemory: func() { given++ }}
	for i, c := range []struct{ size, want int }{{10, 0}, {largeFile, 1}, {10, 2}, {10, 2}} {
		if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.giveBack(); given != c.want {
			t.Errorf("file %d: given back %d times, want %d", i, given, c.want)
		}
	}
}

// A bootstrap holds its configuration, routes and all, which is replaced.
func TestSourceKeepsNoBootstrap(t *testing.T) {
	for f := range reflect.TypeFor[Source]().Fields() {
		if f.Type == reflect.TypeFor[*config.Bootstrap]() || f.Type == reflect.TypeFor[*Bootstrap]() {
			t.Errorf("field %s keeps what was in force at the start; take what is needed of it", f.Name)
		}
	}
}

// What comes when the daemon ends was not refused, whatever it comes from: it counts nowhere, no error is shown of it, and the log has none.
func TestTheEndRefusesNoConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name string
		come func(*Source) error
	}{
		{"files of resources", func(s *Source) error { s.dynamic.takeFiles(); return nil }},
		{"the control plane", func(s *Source) error {
			if err := s.dynamic.update(xds.Snapshot{}, ""); !errors.Is(err, xds.ErrUnfinished) {
				return fmt.Errorf("the client gets %w, and takes the update for one that is in force, or refused", err)
			}
			return nil
		}},
		{"secrets of dynamic clusters", func(s *Source) error { s.dynamic.cold = map[string]bool{"shop": true}; s.rewarm(); return nil }},
		{"secrets of clusters of the bootstrap", func(s *Source) error {
			s.dynamic, s.warming, s.desired = nil, map[*model.Cluster]*model.Cluster{{}: nil}, s.unresolved
			s.rewarm()
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, log := endingWithFiles(t)
			d := s.dynamic
			if err := tt.come(s); err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if log.Len() != 0 {
				t.Errorf("the log says\n%s", log)
			}
			if r := s.intake.Of(intake.Whole); r.Rejected+r.Failures != 0 || r.Refusal != nil || r.Successes != 0 {
				t.Errorf("of the whole configuration is shown %+v", r)
			}
			if c := &d.counters; c.activated.Load()+c.rejected.Load()+c.partly.Load() != 0 {
				t.Errorf("counted: in force %d, rejected %d, partly %d; want none", c.activated.Load(), c.rejected.Load(), c.partly.Load())
			}
		})
	}
}

// endingWithFiles is the source of a daemon that ends, with files of resources, which it has yet to read, and what it logs as a warning or an error.
func endingWithFiles(t *testing.T) (*Source, *bytes.Buffer) {
	t.Helper()
	log, dir, of := &bytes.Buffer{}, t.TempDir(), ""
	for kind, text := range map[string]string{
		"cds": "resources: [{'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster, name: shop, type: STATIC, connect_timeout: 1s}]\n", "lds": "resources: []\n",
	} {
		path := filepath.Join(dir, kind+".yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		of += fmt.Sprintf("%s_config: {resource_api_version: V3, path_config_source: {path: %q}}, ", kind, path)
	}
	s := newTestSource(t, fmt.Appendf(nil, "{node: {id: a, cluster: b}, dynamic_resources: {%s}}", of), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	s.cfg.Activate = func(*model.Config) error { return shutdown.ErrEnding }
	return s, log
}
