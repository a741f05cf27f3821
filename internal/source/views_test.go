// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/test/await"
)

// add adds a view, whose file is not looked at.
func (r *viewsRig) add(v model.View, port int) error {
	r.t.Helper()
	return r.Add(r.t.Context(), []*Bootstrap{r.load(v, port)})
}

// mustHavePorts demands what is in force, and that it is in force again.
func (r *viewsRig) mustHavePorts(want map[string]uint16) {
	r.t.Helper()
	if diff := cmp.Diff(want, ports(r.last())); diff != "" {
		r.t.Errorf("ports (-want +got):\n%s", diff)
	}
	if err := r.Reactivate(); err != nil {
		r.t.Fatal(err)
	}
	if diff := cmp.Diff(want, ports(r.last())); diff != "" {
		r.t.Errorf("ports once more (-want +got):\n%s", diff)
	}
}

// views are the names of all, in their order.
func (r *viewsRig) views() (names []string) {
	for _, v := range r.list() {
		names = append(names, v.view.Name)
	}
	return names
}

func TestViewsComeAndGo(t *testing.T) {
	r := newViewsRig(t)
	if err := r.add(model.View{Number: 4, Name: "green"}, 8300); err != nil {
		t.Fatal(err)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200, "green": 8300})
	// One with a number before others stands before them.
	if err := r.Remove([]string{"blue"}); err != nil {
		t.Fatal(err)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "red": 8200, "green": 8300})
	if err := r.add(model.View{Number: 1, Name: "blue"}, 8400); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "blue", "red", "green"}, r.views()); diff != "" {
		t.Errorf("order of views (-want +got):\n%s", diff)
	}
	// Each can be changed as those of the start.
	if err := r.reload("blue", 9000); err != nil {
		t.Fatal(err)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "blue": 9000, "red": 8200, "green": 8300})
}

// All that comes at once is in force at once, also what comes in place of another file of the same view.
func TestViewsThatComeAreActivatedAtOnce(t *testing.T) {
	r := newViewsRig(t)
	before := len(r.active)
	green, red := model.View{Number: 3, Name: "green"}, model.View{Number: 2, Name: "red"}
	if err := r.Add(t.Context(), []*Bootstrap{r.load(green, 8300), r.load(red, 9200)}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.active) - before; n != 1 {
		t.Errorf("%d configurations were put in force, want 1", n)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "blue": 8100, "red": 9200, "green": 8300})
}

func TestViewsThatAreRefusedChangeNothing(t *testing.T) {
	r := newViewsRig(t)
	want := map[string]uint16{"": 8000, "blue": 8100, "red": 8200}
	r.refuse = errors.New("no room")
	for _, v := range []model.View{{Number: 3, Name: "green"}, {Number: 2, Name: "red"}} {
		if err := r.add(v, 8300); !errors.Is(err, r.refuse) {
			t.Errorf("add %s: %v, want %v", v.Name, err, r.refuse)
		}
	}
	if err := r.Remove([]string{"red"}); !errors.Is(err, r.refuse) {
		t.Errorf("remove red: %v, want %v", err, r.refuse)
	}
	if diff := cmp.Diff([]string{"", "blue", "red"}, r.views()); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
	r.refuse = nil
	r.mustHavePorts(want)
	if err := r.reload("red", 9200); err != nil {
		t.Fatal(err)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "blue": 8100, "red": 9200})
}

// An attempt may end when all is there that it has waited for.
func TestAnAttemptThatHasEndedAddsNothing(t *testing.T) {
	r := newViewsRig(t)
	before := len(r.active)
	attempt, end := context.WithCancel(t.Context())
	end()
	err := r.AddWhile(t.Context(), attempt, []*Bootstrap{r.load(model.View{Number: 3, Name: "green"}, 8300)})
	if !errors.Is(err, shutdown.ErrEnding) || len(r.active) != before {
		t.Errorf("%v; %d configurations were put in force", err, len(r.active)-before)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
}

// What an attempt has added is there, and is read, when the attempt has ended.
func TestWhatAnAttemptHasAddedOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newViewsRig(t)
		ends := 0
		r.cfg.Spawn = func(f func()) { go func() { f(); ends++ }() }
		ctx, endAll := context.WithCancel(t.Context())
		attempt, end := context.WithCancel(ctx)
		if err := r.AddWhile(ctx, attempt, []*Bootstrap{r.load(model.View{Number: 3, Name: "green"}, 8300)}); err != nil {
			t.Fatal(err)
		}
		end()
		if synctest.Wait(); ends != 0 {
			t.Errorf("%d goroutines of the view have ended with the attempt", ends)
		}
		r.mustHavePorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200, "green": 8300})
		endAll()
		if synctest.Wait(); ends == 0 {
			t.Error("no goroutine of the view is seen to end")
		}
	})
}

// What a view reads while it goes is put in force no more.
func TestAViewThatHasGoneSaysNothingMore(t *testing.T) {
	r := newViewsRig(t)
	red := r.of("red")
	if err := r.Remove([]string{"red"}); err != nil {
		t.Fatal(err)
	}
	if err := red.replaceBootstrap(r.load(model.View{Number: 2, Name: "red"}, 9200)); !errors.Is(err, shutdown.ErrEnding) {
		t.Errorf("got %v, want %v", err, shutdown.ErrEnding)
	}
	r.mustHavePorts(map[string]uint16{"": 8000, "blue": 8100})
}

// Secrets are a view's own: with it they have gone, and no other view's are in their place.
func TestAViewThatHasGoneHasNoSecrets(t *testing.T) {
	r := newViewsRig(t)
	if err := r.Remove([]string{"red"}); err != nil {
		t.Fatal(err)
	}
	tls := &model.UpstreamTLS{View: "red"}
	if conn, err := r.Handshake(t.Context(), nil, &mtls.Peer{TLS: tls}); conn != nil || err == nil {
		t.Errorf("got %v, %v, want an error", conn, err)
	}
	if !r.AwaitSecrets(t.Context(), tls) {
		t.Error("secrets of a view that has gone are waited for until the end")
	}
}

// The files of views that come are looked at, those of views that have gone no more.
func TestTheFilesOfViewsAreFollowed(t *testing.T) {
	r := newViewsRig(t)
	ctx, end := context.WithCancel(t.Context())
	reload, served := make(chan os.Signal), make(chan struct{})
	go func() { defer close(served); r.ServeReloads(ctx, reload) }()
	defer func() { end(); <-served }()
	file := t.TempDir() + "/green.yaml"
	write := func(port int) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, ofView, port), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(8300)
	b, err := Load(t.Context(), File{View: model.View{Number: 3, Name: "green"}, Path: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(ctx, []*Bootstrap{b}); err != nil {
		t.Fatal(err)
	}
	write(8301)
	await.Quiet(t, func() string {
		reload <- os.Interrupt
		if got := r.portsNow()["green"]; got != 8301 {
			return fmt.Sprintf("port %d, want 8301", got)
		}
		return ""
	})
	green := r.list()[3]
	if err := r.Remove([]string{"green"}); err != nil {
		t.Fatal(err)
	}
	// Its goroutine has ended: what it would be asked stays.
	select {
	case green.again <- os.Interrupt:
	default: // it had not begun with the last one
	}
	reload <- os.Interrupt
	if len(green.again) != 1 {
		t.Error("the file of a view that has gone is read")
	}
}
