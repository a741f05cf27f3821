// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
)

func addresses(n int) []model.Endpoint {
	out := make([]model.Endpoint, n)
	for i := range out {
		out[i] = model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80), Weight: 1}
	}
	return out
}

// named are clusters whose endpoints DNS names.
func named(names ...string) *model.Config {
	cfg := &model.Config{}
	for _, name := range names {
		cfg.Clusters = append(cfg.Clusters, &model.Cluster{Name: name, Discovery: model.StrictDNS, Targets: []model.Target{{Host: name + ".test", Port: 80, Weight: 1}}})
	}
	return cfg
}

// An answer for which there is no room is not part of what is put in force next, and is tried again when there may be some.
func TestAnswersThatAreRefusedBlockNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		mu, source, room, active := sync.Mutex{}, named("large", "small"), 100, &model.Config{}
		activate := func(cfg *model.Config) error {
			total := 0
			for _, c := range cfg.Clusters {
				total += len(c.Endpoints)
			}
			if total > room {
				return errors.New("map endpoints is full")
			}
			active = cfg
			return nil
		}
		r := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Lock: &mu, Source: func() *model.Config { return source }, Activate: activate})
		r.generation = 1
		defer r.Stop()
		require := func(when string, large, small, waiting int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got := len(r.refused); got != waiting {
				t.Errorf("%s: %d answers wait, want %d", when, got, waiting)
			}
			if l, s := len(active.Cluster(model.SharedCluster("large")).Endpoints), len(active.Cluster(model.SharedCluster("small")).Endpoints); l != large || s != small {
				t.Errorf("%s: %d and %d endpoints are in force, want %d and %d", when, l, s, large, small)
			}
		}
		r.changed(1, "large", addresses(50))
		require("at first", 50, 0, 0)
		r.changed(1, "large", addresses(200))
		require("with too many", 50, 0, 1)
		r.changed(1, "small", addresses(3))
		require("with another answer", 50, 3, 1)
		mu.Lock()
		room = 1000
		mu.Unlock()
		time.Sleep(2 * refusedPace)
		synctest.Wait()
		require("with room", 200, 3, 0)
		mu.Lock()
		room = 1 << 20
		mu.Unlock()
		r.changed(1, "small", addresses(17000))
		require("with more than a cluster may have", 200, 3, 0)
		if want := fmt.Sprintf("its names have 17000 addresses; XLB takes up to %d", model.MaxResolved); !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	})
}

// At the end of the daemon an answer was not refused: it is not tried again, and the log has nothing of it.
func TestTheEndRefusesNoAnswer(t *testing.T) {
	var log bytes.Buffer
	r := New(Config{
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Lock: &sync.Mutex{}, Source: func() *model.Config { return named("shop") },
		Activate: func(*model.Config) error { return shutdown.ErrEnding },
	})
	r.changed(0, "shop", addresses(1))
	if len(r.refused) != 0 || log.Len() != 0 {
		t.Errorf("%d answers are to be tried again; the log says\n%s", len(r.refused), &log)
	}
}
