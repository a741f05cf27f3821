// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// Where tags are over the time, an operator hears of a clock that nobody keeps.
func TestCheckLooksAtTheClock(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		state      int
		err        error
	}{
		{"synchronized", Fine, 0, nil},
		{"not synchronized", Attention, timeError, nil},
		{"not to be seen", Fine, 0, errors.New("operation not permitted")},
	} {
		if f := clockFinding(tt.state, tt.err); f.Status != tt.want || f.Detail == "" || f.Status != Fine && f.Remedy == "" {
			t.Errorf("%s: %+v, want %s", tt.name, f, tt.want)
		}
	}
	for _, keyed := range []bool{false, true} {
		c := &settings.Config{}
		if keyed {
			c.Option.KeyFile = "/etc/xlb/heels.key"
		}
		found := false
		for _, f := range Run(c, t.TempDir()) {
			found = found || f.Name == "clock"
		}
		if found != keyed {
			t.Errorf("with a key: %v; the clock is looked at: %v", keyed, found)
		}
	}
}
