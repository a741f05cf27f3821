// SPDX-License-Identifier: Apache-2.0

package admin

// CapabilitiesPath is where the capabilities of the daemon are.
const CapabilitiesPath = "/xlb/capabilities"

// Capability is a row of /xlb/capabilities: a capability (capabilities(7)) that the daemon uses, or lacks.
type Capability struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	// Feature is what there is not without it; empty: the daemon does not start without it.
	Feature string `json:"feature,omitempty"`
}

// capabilityRows fails where the process may have capabilities that it does not use: a list would say that it has no others.
func (a *api) capabilityRows() ([]Capability, error) {
	list, err := a.source.Capabilities()
	return append([]Capability{}, list...), err
}
