// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/bench/lab"
)

// appLoads are those of the application that was asked for.
func (o Options) appLoads() []Load {
	var loads []Load
	for _, name := range Apps {
		if o.Case != name {
			continue
		}
		for _, n := range o.AppUsers {
			loads = append(loads, UsedBy(name, n))
		}
	}
	return loads
}

// validateApps: applications are measured on one host, and the bank's customers pay each other.
func (o Options) validateApps() error {
	var errs []error
	if load := (Load{Case: o.Case}); load.IsApp() && o.Topology == string(lab.CrossHost) {
		errs = append(errs, fmt.Errorf("--topology is %s: %s runs on one host", o.Topology, o.Case))
	}
	if len(o.AppUsers) == 0 || slices.Min(o.AppUsers) < 2 {
		errs = append(errs, fmt.Errorf("--app-users is %v: every number must be at least 2", o.AppUsers))
	}
	return errors.Join(errs...)
}
