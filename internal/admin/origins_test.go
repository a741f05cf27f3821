// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The version of the whole is that of /config_dump.
func TestConfigRowsHaveTheVersionInForce(t *testing.T) {
	_, body := ask(t, &state{origins: origins()}, "GET", "/xlb/config")
	var got []Origin
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	want, updated := origins(), time.Unix(1700000000, 0)
	want[0].Version, want[0].Taken = "3", &updated
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// What was refused is beside Envoy's dump, and is gone when it is mended.
func TestConfigDumpHasWhatWasRefused(t *testing.T) {
	refused := func(s *state) []Origin {
		_, body := ask(t, s, "GET", "/config_dump")
		var dump struct {
			Refused []Origin `json:"xlb_refused"`
		}
		if err := json.Unmarshal([]byte(body), &dump); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		return dump.Refused
	}
	if diff := cmp.Diff(origins()[1:3], refused(&state{origins: origins()})); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if got := refused(&state{origins: origins()[3:]}); len(got) > 0 {
		t.Errorf("nothing is refused: %v", got)
	}
}

// A refused resource is shown as Envoy shows it (admin.v3.UpdateFailureState): with what was refused, when, and why; before and after it was accepted once.
func TestDumpedResourcesHaveEnvoysErrorState(t *testing.T) {
	body, failed := json.RawMessage(`{"name":"a"}`), json.RawMessage(`{"name":"b"}`)
	want := object{"failed_configuration": failed, "last_update_attempt": timestamp(noon), "details": "port_value: too large", "version_info": "2"}
	for _, r := range []Resource{
		{Name: "a", Refused: "port_value: too large", RefusedVersion: "2", RefusedAt: noon, RefusedBody: failed, Status: "NACKED"},
		{Name: "a", Body: body, Version: "1", Updated: noon, Refused: "port_value: too large", RefusedVersion: "2", RefusedAt: noon, RefusedBody: failed, Status: "NACKED"},
	} {
		if diff := cmp.Diff(want, r.dumped("cluster")["error_state"]); diff != "" {
			t.Errorf("error_state (-want +got):\n%s", diff)
		}
	}
	good := Resource{Name: "a", Body: body, Version: "1", Updated: noon, Status: "ACKED"}
	if state, has := good.dumped("cluster")["error_state"]; has {
		t.Errorf("of what was not refused: %v", state)
	}
}

func TestReasonsAreOneLineWithTheNumberOfOthers(t *testing.T) {
	for _, c := range []struct {
		refusal Refusal
		want    string
	}{
		{Refusal{}, "refused"},
		{Refusal{Problems: []Problem{{Reason: "empty"}}}, "empty"},
		{Refusal{Problems: []Problem{{Resource: "web", Path: "name", Reason: "missing"}}, More: 1}, "web: name: missing; and 1 more"},
		{Refusal{Problems: []Problem{{Path: "a", Reason: "b"}, {Reason: "c"}}, More: 7}, "a: b; and 8 more"},
	} {
		if got := c.refusal.Reason(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.refusal, got, c.want)
		}
	}
}
