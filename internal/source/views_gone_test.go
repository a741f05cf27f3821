// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
)

// Nothing runs for a view that has gone, or that another file has replaced, or that was refused: neither as one of the start nor as one that came.
func TestNothingRunsForAViewThatHasGone(t *testing.T) {
	r := newViewsRig(t)
	var running atomic.Int32
	r.cfg.Spawn = func(f func()) {
		running.Add(1)
		go func() { defer running.Add(-1); f() }()
	}
	for i := range 3 {
		if err := r.add(model.View{Number: 3, Name: "green"}, 8300+i); err != nil {
			t.Fatal(err)
		}
	}
	r.refuse = errors.New("no room")
	if err := r.add(model.View{Number: 4, Name: "white"}, 8400); err == nil {
		t.Fatal("a view came for which there is no room")
	}
	r.refuse = nil
	if err := r.Remove([]string{"green"}); err != nil {
		t.Fatal(err)
	}
	await.Quiet(t, func() string {
		if n := running.Load(); n != 0 {
			return fmt.Sprintf("%d functions run for views that have gone", n)
		}
		return ""
	})
}

// A view that was refused is not there for those either that have seen it in the list meanwhile.
func TestTheFileOfARefusedViewIsNotFollowed(t *testing.T) {
	r := newViewsRig(t)
	r.setBeginServe(func(*viewSource) {})
	var seen *viewSource
	activate := r.cfg.Activate
	r.cfg.Activate = func(*model.Config) error {
		seen = r.list()[3]
		return errors.New("no room")
	}
	if err := r.add(model.View{Number: 3, Name: "green"}, 8300); err == nil {
		t.Fatal("a view came for which there is no room")
	}
	r.cfg.Activate = activate
	r.serve(seen)
	if seen.isServed {
		seen.leave()
		t.Error("its file is followed")
	}
}
