// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"testing"
	"time"
)

// Of each resource is counted how often it came and was accepted or refused, and what is refused is listed until it is mended.
func TestRefusedResourcesAreCountedAndListed(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		c := newControl(t, true)
		o := observe(t, Config{Servers: []Server{{Address: c.Address}}, Delta: delta})
		c.set("1", cluster("a", 1), assignment("a", 1), listener("l", 1, "r"), routes("r", 1))
		o.await("clusters a=1; assignments a=1; listeners l=1; routes r=1")
		if s := o.Refused(); len(s.Kinds[Assignments].Resources) != 0 || s.Kinds[Assignments].Error != "" {
			t.Errorf("nothing is refused: %+v", s.Kinds[Assignments])
		}
		good := o.Counts(Assignments)["a"]
		if good.Successes == 0 || good.Rejected != 0 || good.Accepted.IsZero() || good.Version == "" {
			t.Errorf("good: %+v", good)
		}

		c.set("2", cluster("a", 1), assignment("a", -1), listener("l", 1, "r"), routes("r", 1))
		o.awaitStatus("refused", func(s Status) bool { return s.Kinds[Assignments].Rejected > 0 })
		s := o.Refused()
		list := s.Kinds[Assignments].Resources
		if len(list) != 1 || list[0].Name != "a" || list[0].State != Nacked || list[0].Fault == nil || list[0].Fault.Error() != list[0].Error || time.Since(list[0].FailedAt) > time.Hour {
			t.Errorf("refused: %+v", list)
		}
		if kind := s.Kinds[Assignments]; kind.Error == "" || kind.FailedVersion == "" || kind.FailedAt.IsZero() || len(s.Kinds[Clusters].Resources) != 0 {
			t.Errorf("refused: %+v", kind)
		}
		if bad := o.Counts(Assignments)["a"]; bad.Rejected == 0 || bad.Successes != good.Successes || bad.Version != good.Version || bad.Accepted != good.Accepted {
			t.Errorf("bad: %+v after %+v", bad, good)
		}

		c.set("3", cluster("a", 1), assignment("a", 3), listener("l", 1, "r"), routes("r", 1))
		o.await("clusters a=1; assignments a=3; listeners l=1; routes r=1")
		o.awaitStatus("accepted", func(s Status) bool { return s.Kinds[Assignments].Error == "" })
		if s := o.Refused(); len(s.Kinds[Assignments].Resources) != 0 || !s.Kinds[Assignments].FailedAt.IsZero() {
			t.Errorf("mended: %+v", s.Kinds[Assignments])
		}
		if mended := o.Counts(Assignments)["a"]; mended.Successes <= good.Successes || mended.Rejected == 0 || mended.Version == good.Version {
			t.Errorf("mended: %+v", mended)
		}
	})
}
