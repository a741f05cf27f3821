// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"slices"
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

// A view that is about to come, and is refused, is not in the list meanwhile: ServeReloads would follow its file, and have it read again, for ever.
func TestTheFileOfARefusedViewIsNotFollowed(t *testing.T) {
	r := newViewsRig(t)
	var followed []string
	r.setBeginServe(func(v *viewSource) { followed = append(followed, v.view.Name) })
	var seen []*viewSource
	r.cfg.Activate = func(*model.Config) error {
		seen = r.list()
		return errors.New("no room")
	}
	if err := r.add(model.View{Number: 3, Name: "green"}, 8300); err == nil {
		t.Fatal("a view came for which there is no room")
	}
	for _, v := range append(seen, r.list()...) {
		r.serve(v)
	}
	if len(followed) != 3 || slices.Contains(followed, "green") {
		t.Errorf("the files of %q are followed, want those of the three views that there are", followed)
	}
}
