// SPDX-License-Identifier: Apache-2.0

package datapath

import "testing"

func TestProbeOfIngressChargingReachesAVerdict(t *testing.T) {
	charged, err := IngressCharged()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("redirected bytes are charged to the receiver: %v", charged)
}
