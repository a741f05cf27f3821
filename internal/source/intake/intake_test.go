// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/xds"
)

// A refusal stays until something is taken; how often there was one stays.
func TestIntakeKeepsARefusalUntilItIsMended(t *testing.T) {
	in, key := New(), Key{kindBootstrap, "b.yaml"}
	in.Take(key, "1")
	in.Refuse(key, RefusalOf(errors.New("no")), false)
	in.Refuse(key, RefusalOf(errors.New("not at all")), true)
	o := in.List()[0]
	if o.Refusal == nil || o.Refusal.Reason() != "not at all" || o.Refused != 2 || o.Version != "1" || o.Taken == nil {
		t.Errorf("refused: %+v", o)
	}
	in.Take(key, "2")
	o = in.List()[0]
	if o.Refusal != nil || o.Refused != 2 || o.Version != "2" {
		t.Errorf("mended: %+v", o)
	}
	if got := in.Of(key); got.Rejected != 1 || got.Failures != 1 || got.Successes != 2 {
		t.Errorf("counts: %+v", got)
	}
}

// What is not named any more takes its state with it, and not what was counted.
func TestIntakeFollowsTheFilesThatAreNamed(t *testing.T) {
	in := New()
	stays, goes := config.File{Kind: config.Routes, Path: "r"}, config.File{Kind: config.Assignments, Path: "e"}
	in.Take(Key{kindBootstrap, "b"}, "")
	in.Take(Whole, "")
	for _, f := range []config.File{stays, goes} {
		in.Refuse(KeyOf(f), RefusalOf(errors.New("no")), false)
	}
	in.KeepFiles([]config.File{stays})
	var kinds []string
	for _, o := range in.List() {
		kinds = append(kinds, o.Kind)
	}
	if diff := cmp.Diff([]string{admin.WholeConfiguration, kindBootstrap, "routes"}, kinds); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
	if in.refused["assignments"] != 1 {
		t.Error("the refusal of a file that has gone is not counted any more")
	}
}

// A file may be wrong in a million places, and a name in it a page long: little of that is kept, on one line each.
func TestRefusalsAreBounded(t *testing.T) {
	long := strings.Repeat("ü\n", 1<<12)
	var all []error
	for range 1000 {
		all = append(all, &problem.FieldError{Path: long, Reason: long})
	}
	r := NewRefusal(long, time.Now())
	r.Add(long, errors.Join(all...))
	if len(r.Problems) != maxProblems || r.More != 1000-maxProblems {
		t.Errorf("%d problems, and %d more", len(r.Problems), r.More)
	}
	text, err := json.Marshal(r.Refusal)
	if err != nil {
		t.Fatal(err)
	}
	if most := 5 * maxProblems * maxProblemText; len(text) > most || strings.Contains(string(text), `\n`) || strings.Contains(string(text), `\ufffd`) {
		t.Errorf("%d bytes, want %d at most, whole characters, and no ends of lines: %.300s", len(text), most, text)
	}
	if reason := ReasonOf(errors.Join(all...)); len(reason) > 3*maxProblems*maxProblemText || !strings.HasSuffix(reason, "; and 984 more") {
		t.Errorf("%d bytes, ending in %q", len(reason), reason[len(reason)-20:])
	}
}

// Of a control plane each kind is an origin, and what it has refused stays so until it is sent again, although others have been taken since.
func TestServersTellWhatIsRefused(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	bad := xds.ResourceStatus{Name: "shop", State: xds.Nacked, Error: "a: no\nb: no", FailedVersion: "2", FailedAt: late, Fault: errors.Join(
		&problem.FieldError{Path: "a", Reason: "no"}, &problem.FieldError{Path: "b", Reason: "no"})}
	for _, c := range []struct {
		name   string
		status xds.KindStatus
		want   *admin.Refusal
	}{
		{"all taken", xds.KindStatus{}, nil},
		{"a resource", xds.KindStatus{Error: "shop: a: no", FailedVersion: "2", FailedAt: early, Resources: []xds.ResourceStatus{bad}}, &admin.Refusal{
			At: late, Version: "2", Problems: []admin.Problem{{Resource: "shop", Path: "a", Reason: "no"}, {Resource: "shop", Path: "b", Reason: "no"}},
		}},
		{"a resource, and then others were taken", xds.KindStatus{Resources: []xds.ResourceStatus{bad}}, &admin.Refusal{
			At: late, Version: "2", Problems: []admin.Problem{{Resource: "shop", Path: "a", Reason: "no"}, {Resource: "shop", Path: "b", Reason: "no"}},
		}},
		{"a whole response", xds.KindStatus{Error: "resource 0 has no name", FailedVersion: "3", FailedAt: early}, &admin.Refusal{
			At: early, Version: "3", Problems: []admin.Problem{{Reason: "resource 0 has no name"}},
		}},
	} {
		if diff := cmp.Diff(c.want, refusalOfServer(&c.status)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// What is added to what was wrong changes nothing of what is shown until it is recorded.
func TestWhatWasWrongIsAddedTo(t *testing.T) {
	in := New()
	in.Refuse(Whole, RefusalOf(errors.New("first")), false)
	shown := in.Of(Whole).Refusal
	wrong := in.Wrong(Whole)
	wrong.Add("b", errors.New("second"))
	if len(shown.Problems) != 1 || in.Of(Whole).Refusal != shown {
		t.Errorf("shown before it is recorded: %+v", in.Of(Whole).Refusal)
	}
	in.Record(Whole, "", wrong)
	if now := in.Of(Whole).Refusal; len(now.Problems) != 2 || now.Problems[0].Reason != "first" || now.Problems[1].Resource != "b" {
		t.Errorf("got %+v", now)
	}
	in.Take(Whole, "")
	if got := in.Wrong(Whole); len(got.Problems) != 0 {
		t.Errorf("wrong with what was taken: %+v", got.Problems)
	}
}
