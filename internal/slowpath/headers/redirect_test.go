// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"testing"

	"github.com/xlb-project/xlb/internal/ascii/asciitest"
)

func TestSchemesAreComparedByBytes(t *testing.T) {
	for _, c := range asciitest.Of("https") {
		if got := hostFor("a.test:443", "http", c.Text, false); got != "a.test:443" {
			t.Errorf("%s: X-Forwarded-Proto: %q makes %q of a.test:443", c.Name, c.Text, got)
		}
	}
}
