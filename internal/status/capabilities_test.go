// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"testing"
)

func TestCapabilitiesThatWereNotDroppedAreAnError(t *testing.T) {
	why := errors.New("capset: not permitted")
	if list, err := New(Config{CapabilitiesError: why}).Capabilities(); list != nil || !errors.Is(err, why) {
		t.Errorf("got %v, %v, want %v", list, err, why)
	}
}
