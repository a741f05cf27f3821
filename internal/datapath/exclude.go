// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/internal/maps"
)

// Exclude leaves connections to these addresses alone, unless a listener has the very address.
func (d *Datapath) Exclude(prefixes []netip.Prefix) error {
	for _, p := range prefixes {
		if err := d.objects.Exclusions.Put(maps.ExclusionOf(p), uint32(1)); err != nil {
			return fmt.Errorf("exclude %s: %w", p, err)
		}
	}
	return nil
}
