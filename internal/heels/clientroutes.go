// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"maps"

	"github.com/xlb-project/xlb/internal/heels/routes"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// learnRoutes tells the programs by which interface clients in confirm mode are reached, for the network namespace of the
// calling thread: their sockets know the balancer, and the kernel routes to that.
func (k *Kernel) learnRoutes(c *settings.Config) error {
	want, err := routes.ClientDevices(c)
	if err != nil || k.routes != nil && maps.Equal(want, k.routes) {
		return err
	}
	if err := put(k.maps.HeelsRoutes, want); err != nil {
		return err
	}
	if err := prune(k.maps.HeelsRoutes, want); err != nil {
		return err
	}
	k.routes = want
	return nil
}
